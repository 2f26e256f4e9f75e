"""A traced server seen by a real Tracy: traces/capture records a session, and one request's whole way is in it.

Usage: tracy_session_test.py PROGRAM HAS_TRACY FOLDER_OF_TRACYS_PROGRAMS
Skipped where Tracy is missing.
"""
import pathlib
import shutil
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "traces"), str(ROOT / "tests")]
import require
import trace_events
from server import run

CROWD = 3

program, has_tracy, folder = sys.argv[1:]


def end_skipped(message):
    require.skip_line("tracy", message)
    sys.exit(require.SKIPPED)


if has_tracy != "ON":
    end_skipped("this build has no Tracy (REPRISE_TRACY=OFF)")
for tool in ("tracy-capture", "tracy-csvexport"):
    if shutil.which(tool, path=folder or None) is None:
        end_skipped(f"there is no {tool} in {folder or 'PATH'}")


def expect(condition, what):
    if not condition:
        sys.exit("FAILED: " + what)


def expect_order(marks, *events):
    """These marks are there, in this order."""
    seen = [mark.event for mark in marks]
    rest = iter(seen)
    expect(all(event in rest for event in events), f"{events} in this order, but there was {seen}")


def check_request(trace, request):
    marks = trace.requests[request]
    expect_order(marks, "accepted", "read", "parsed", "tokenised", "announced", "admitted", "looked_up", "prefill_slice",
                 "prefilled", "first_token", "finished", "sent")
    begin, end = marks[0].at, next(mark.at for mark in marks if mark.event == "sent")
    steps = [zone for zone in trace.zones if zone.name == "step" and begin <= zone.begin and zone.end <= end]
    expect(len(steps) > 1, f"the device's steps lie within the request {request}")
    turns = [zone for zone in trace.zones if zone.wait is not None and begin <= zone.begin <= end]
    expect(any(turn.actor.startswith("request") for turn in turns), f"turns of a request's actor, but there were "
           f"{sorted({turn.actor for turn in turns})}")
    expect(all(0 <= turn.wait < 60e9 for turn in turns), "waits are those of mailboxes")


def facts(marks, event):
    return next((dict(fact.split("=", 1) for fact in mark.facts.split()) for mark in marks if mark.event == event), None)


with tempfile.TemporaryDirectory() as scratch:
    command = [ROOT / "traces" / "capture", "--program", program, "--out", scratch, "--crowd", str(CROWD),
               *(["--tracy-bin", folder] if folder else []), "--", "--threads", "1", "--device", "cpu"]
    done = run(*command, timeout=240)
    expect(done.returncode == 0, f"traces/capture ended with {done.returncode}:\n{done.stderr}")
    trace = trace_events.read(scratch)
    size = (pathlib.Path(scratch) / "session.tracy").stat().st_size

expect("Mailbox waits" in done.stdout and "The way of request" in done.stdout, f"the report, but it was\n{done.stdout}")
whole = [request for request, marks in trace.requests.items() if any(mark.event == "sent" for mark in marks)]
expect(len(whole) == 2 + CROWD, f"{2 + CROWD} whole requests, but there were {trace.requests}")
for each in whole:
    check_request(trace, each)
second = sorted(whole, key=lambda request: trace.requests[request][0].at)[1]
restored = facts(trace.requests[second], "restored")
expect(restored is not None and int(restored["tokens"]) > 0, f"the second turn is restored, but it was {trace.requests[second]}")
expect(any(name.startswith("mailbox of ") for name in trace.plots), f"plots of mailboxes, but there were {sorted(trace.plots)}")
print(f"{len(trace.zones)} zones, {len(trace.requests)} requests, {len(trace.plots)} plots, {size} bytes")
