"""The program as tests run it: a command, or a server that is asked over HTTP and stopped.

Every wait has an end, ports are the system's choice, and what the environment says to the program (REPRISE_*, HF_*) does not
reach it.
"""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

PATIENCE = 120  # seconds, for what should take a few
LISTENING = r"listening on (http://(\S+):(\d+))/"


def environment(variables=()):
    """What the program is started with: ours, without what is meant for the program, and with these."""
    return {**{name: value for name, value in os.environ.items() if not name.startswith(("REPRISE_", "HF_"))}, **dict(variables)}


def run(*command, text=True, variables=(), timeout=PATIENCE, **more):
    """The command when it has ended: returncode, stdout, stderr."""
    return subprocess.run(command, capture_output=True, text=text, timeout=timeout, env=environment(variables), **more)


def on_cpu(*arguments):
    """These and --device cpu, unless they name a device: a GPU would be taken where there is one."""
    return arguments if "--device" in arguments else (*arguments, "--device", "cpu")


def wait_until(holds, what="what is waited for"):
    """What holds() returned when it was true at last."""
    limit = time.monotonic() + PATIENCE
    while not (found := holds()):
        if time.monotonic() > limit:
            raise AssertionError(f"{what} did not come in {PATIENCE} seconds")
        time.sleep(0.02)
    return found


class Answer:
    """Of a server."""

    def __init__(self, response):
        self.status, self.headers, self.data = response.status, response.headers, response.read()

    def json(self):
        return json.loads(self.data)


class Server:
    """`PROGRAM serve ARGUMENT...` on the CPU and a port of the system's choice, until the block ends; `serve` replaces what
    comes before the arguments. Its log is read into `log` as it comes; if not `reads_log`, only up to the line with the
    address, until read_log() is called."""

    def __init__(self, program, *arguments, serve=("serve", "--port", "0"), reads_log=True, variables=(), **more):
        arguments = on_cpu(*arguments) if serve else arguments
        more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **more}
        self.process = subprocess.Popen([program, *serve, *arguments], stderr=subprocess.PIPE, text=True,
                                        errors="replace", env=environment(variables), **more)
        self.log = []
        self.read_log(until=None if reads_log else LISTENING)
        try:
            self.url, host, port = self.logged(LISTENING).groups()
        except BaseException:
            self.__exit__()
            raise
        self.host, self.port = host.strip("[]"), int(port)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        self.process.stderr.close()

    def stop(self, how=signal.SIGTERM):
        """Its exit status. All of its log has been read then."""
        self.process.send_signal(how)
        status = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        return status

    def read_log(self, until=None):
        def read():
            for line in self.process.stderr:
                self.log.append(line)
                if until and re.search(until, line):
                    break

        self.reader = threading.Thread(target=read, daemon=True)
        self.reader.start()

    def logged(self, pattern):
        """Waits for a line with this pattern, and returns the match."""
        def look():
            ended = not self.reader.is_alive()
            for line in list(self.log):
                if found := re.search(pattern, line):
                    return found
            if ended:
                raise AssertionError(f"the log ended without {pattern}:\n{''.join(self.log)}")
            return None

        return wait_until(look, pattern)

    def connect(self):
        return socket.create_connection((self.host, self.port), timeout=PATIENCE)

    def request(self, method, path, body=None, key=None, headers=()):
        """The answer to a request with this body: text or bytes, or a value that becomes JSON."""
        return Answer(self.open(path, body, key, headers, method))

    def open(self, path, body=None, key=None, headers=(), method="POST"):
        """An answer of which the head has been read."""
        headers = {**({"Authorization": f"Bearer {key}"} if key else {}), **dict(headers)}
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        connection.request(method, path, body=body, headers={"Connection": "close", **headers})
        return connection.getresponse()

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, body, **more):
        return self.request("POST", path, body, **more)

    def ask(self, path, **body):
        """What is answered to a request that must succeed."""
        answer = self.post(path, body)
        assert answer.status == 200, f"{path}: {answer.status} {answer.data.decode()}"
        return answer.json()

    def wait_until_ready(self):
        try:
            wait_until(lambda: self.get("/health").status == 200, "the model")
        except BaseException:
            self.__exit__()
            raise
        return self

    def figures(self):
        """What /metrics shows, without labels: sums by name."""
        sums = {}
        for name, value in re.findall(r"^reprise_(\w+)(?:\{.*\})? (\S+)$", self.get("/metrics").data.decode(), re.M):
            sums[name] = sums.get(name, 0) + float(value)
        return sums
