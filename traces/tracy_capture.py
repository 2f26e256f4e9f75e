"""Tracy's programs: tracy-capture, which looks at a program and keeps what it sees."""
import shutil
import signal
import subprocess
import sys
import threading
import time

import traced_server


def tool(name, folder):
    """Its path, or the end of the program that wants it."""
    found = shutil.which(name, path=str(folder) if folder else None)
    if found is None:
        sys.exit(f"{sys.argv[0]}: {name} is not in {folder or 'PATH'}: --tracy-bin names the folder of Tracy's programs")
    return found


class Capture:
    """tracy-capture, which waits for a program with TRACY_PORT=port and looks on until it is told to end."""

    def __init__(self, program, session):
        self.port = traced_server.free_port()
        # Line-buffered, to see when it has connected.
        self.process = subprocess.Popen(["stdbuf", "-oL", program, "-f", "-o", str(session), "-a", "127.0.0.1", "-p", str(self.port)],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        self.said = ""
        self.connected = threading.Event()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.said = (self.said + line)[-4000:]
            if line.startswith("Timer resolution"):
                self.connected.set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()

    def wait_until_connected(self, seconds=60):
        limit = time.monotonic() + seconds
        while not self.connected.wait(0.1):
            if self.process.poll() is not None or time.monotonic() > limit:
                raise RuntimeError(f"tracy-capture does not look; is it of the client's version?\n{self.said}")

    def end(self):
        """The session is written when this returns."""
        time.sleep(0.5)  # lets pending events arrive
        self.process.send_signal(signal.SIGINT)
        self.process.wait(120)
        if self.process.returncode != 0:
            raise RuntimeError(f"tracy-capture ended with {self.process.returncode}:\n{self.said}")
