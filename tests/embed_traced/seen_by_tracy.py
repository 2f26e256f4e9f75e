"""Captures the traced host with Tracy and checks that its actor is in the session. Usage: seen_by_tracy.py HOST TRACY_BIN"""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "traces"))
import trace_events
import traced_server

host, tracy_bin = sys.argv[1:]
port = str(traced_server.free_port())
with tempfile.TemporaryDirectory() as scratch:
    session = f"{scratch}/host.tracy"
    capture = subprocess.Popen([f"{tracy_bin}/tracy-capture", "-o", session, "-a", "127.0.0.1", "-p", port],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        ran = subprocess.run([host], env={**os.environ, "TRACY_PORT": port}, capture_output=True, text=True, timeout=120)
        said, _ = capture.communicate(timeout=60)  # it ends with the host
    finally:
        capture.kill()
    if ran.returncode != 0 or capture.returncode != 0:
        sys.exit(f"the host ended with {ran.returncode}, tracy-capture with {capture.returncode}:\n{ran.stdout}{said}")
    trace_events.export(session, scratch, f"{tracy_bin}/tracy-csvexport")
    trace = trace_events.read(scratch)
turns = [zone for zone in trace.zones if zone.name == "Weigh" and zone.actor == "scale" and zone.wait is not None]
inner = [zone.text for zone in trace.zones if zone.name == "weighing"]
if len(turns) != 6 or inner != [f"{grams} g" for grams in range(1, 7)]:
    sys.exit(f"six turns of the scale were to be seen, but there were {trace.zones}")
print("seen by Tracy: six turns of the host's actor, with what it added")
