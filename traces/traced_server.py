"""A server that is looked at, and what is asked of it: a chat of two turns, then several at once."""
import concurrent.futures
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time

HOST = "127.0.0.1"
TURNS = ("Hello, I am Ada and I live in Ljubljana. My cat is called Miso.", "What is my cat called?")


def free_port():
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


class Server:
    """`reprise serve` on a port of the system's choice, stopped at the end of the block."""

    def __init__(self, program, *arguments, tracy_port=None):
        environment = {**os.environ, **({"TRACY_PORT": str(tracy_port)} if tracy_port else {})}
        self.process = subprocess.Popen([program, "serve", "--port", "0", *arguments], env=environment,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = []
        for line in self.process.stderr:
            said.append(line)
            if found := re.search(r"listening on http://127\.0\.0\.1:(\d+)/", line):
                self.port = int(found.group(1))
                break
        else:
            raise RuntimeError("the server ended before it listened:\n" + "".join(said))
        self.drain = concurrent.futures.ThreadPoolExecutor(1)  # a full pipe would block the server
        self.drain.submit(self.process.stderr.read)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.drain.shutdown()

    def wait_until_ready(self, seconds=120):
        limit = time.monotonic() + seconds
        while True:
            connection = http.client.HTTPConnection(HOST, self.port, timeout=10)
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
            if time.monotonic() > limit:
                raise RuntimeError("the model was not loaded in time")
            time.sleep(0.02)

    def chat(self, messages, **more):
        """The reply, streamed as a client would have it, and the times of its pieces in seconds."""
        body = {"messages": messages, "stream": True, "temperature": 0, "max_tokens": 60, **more}
        connection = http.client.HTTPConnection(HOST, self.port, timeout=120)
        begin = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {response.read().decode()}")
        reply, times = "", []
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[len("data: "):])
            if "error" in event:
                raise RuntimeError(event["error"])
            if piece := "".join(choice["delta"].get("content") or "" for choice in event["choices"]):
                reply += piece
                times.append(time.perf_counter() - begin)
        connection.close()
        return reply, times


def two_turns(server):
    """The second turn finds what the first has left in the cache."""
    messages = []
    for turn in TURNS:
        messages.append({"role": "user", "content": turn})
        reply, _ = server.chat(messages)
        messages.append({"role": "assistant", "content": reply})
    return messages


def crowd(server, size):
    """As many chats at once, each about something else."""
    with concurrent.futures.ThreadPoolExecutor(max(1, size)) as pool:
        asked = [pool.submit(server.chat, [{"role": "user", "content": f"The code of door {i} is {4000 + 7 * i}. Tell me a story."}])
                 for i in range(size)]
        return [each.result()[0] for each in asked]
