"""What `reprise serve` lives through: nobody who reads its log, hang-ups, a full disk, many clients, a very long prompt.

Usage: serve_trouble_test.py PATH_TO_REPRISE PATH_TO_REPRISE_RANDOM_MODEL MODEL, a small one without tokenizer
"""

import concurrent.futures
import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from require import needs, skip_without
from sanitized import SANITIZED
from server import PATIENCE, Server, environment, on_cpu, run, wait_until

PROGRAM = sys.argv.pop(1)
RANDOM_MODEL = sys.argv.pop(1)
MODEL = sys.argv.pop(1)


def serve(*arguments, model=MODEL, **more):
    return Server(PROGRAM, "--model", model, "--threads", "1", *arguments, **more)


def prompt(length, first=0):
    return [3 + (7 * i + first) % 400 for i in range(length)]


class Stream:
    """A reply that is being read. It has begun."""

    def __init__(self, server, **body):
        body = {"prompt": prompt(20), "temperature": 0, "ignore_eos": True, "stream": True,
                "return_token_ids": True, **body}
        self.answer = server.open("/v1/completions", body)
        assert self.answer.status == 200, self.answer.read()
        self.begin = self.answer.readline()

    def rest(self):
        return self.answer.read().decode()


class Log(unittest.TestCase):
    """The pipe behind stderr holds a page, and the server about a mebibyte of further lines."""

    REQUESTS = 8000

    def make_noise(self, server, count=REQUESTS):
        """As many requests, with a line of 250 bytes each in the log. All are answered."""
        with server.connect() as connection:
            for first in range(0, count, 100):
                names = [f"{'n' * 110}-{i}" for i in range(first, first + 100)]
                connection.sendall("".join(f"GET /health/live HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: {name}\r\n\r\n"
                                           for name in names).encode())
                received = b""
                while received.count(b'{"status":"alive"}') < len(names):
                    piece = connection.recv(65536)
                    self.assertNotEqual(piece, b"")
                    received += piece

    def unread(self):
        return serve("--log-level", "debug", reads_log=False, pipesize=4096)

    def test_nobody_reads_it_and_then_somebody_does(self):
        with self.unread() as server:
            self.make_noise(server)
            self.assertGreater(server.figures()["log_lines_dropped_total"], 0)
            server.read_log()
            server.logged(" missing here")
            server.get("/health/live", headers={"X-Request-Id": "the-last"})
            server.logged("id=the-last")
            log = "".join(server.log)
            missing = sum(map(int, re.findall(r" (\d+) lines? (?:is|are) missing here", log)))
            self.assertEqual(missing, server.figures()["log_lines_dropped_total"])
            unseen = self.REQUESTS - len(set(re.findall(r"id=n+-(\d+) ", log)))
            self.assertIn(missing - unseen, (0, 1), "one of them may be of the figures' first page")

    def test_nobody_reads_it_and_the_server_stops(self):
        with self.unread() as server:
            self.make_noise(server)
            self.assertEqual(server.stop(), 0)

    def test_its_reader_goes_away(self):
        with serve("--log-level", "debug", reads_log=False) as server:
            server.process.stderr.close()
            self.make_noise(server, 200)
            wait_until(lambda: server.figures()["log_lines_dropped_total"] >= 200, "that what cannot be written is counted")
            self.assertEqual(server.stop(), 0)

    def test_other_commands_end_with_the_reader_of_what_they_print(self):
        generate = on_cpu("generate", "--model", MODEL, "--tokens", "5 6 7", "--max-tokens", "4000", "--ignore-eos")
        for command in generate, ["manual"], ["completion", "bash"]:
            reads, writes = os.pipe()
            os.close(reads)
            with os.fdopen(writes):
                ended = subprocess.run([PROGRAM, *command], stdout=writes, stderr=subprocess.PIPE, timeout=PATIENCE,
                                       env=environment())
            self.assertEqual(ended.returncode, -signal.SIGPIPE, ended.stderr)


class Signals(unittest.TestCase):
    def test_a_hang_up_lets_answers_end(self):
        with serve("--shutdown-timeout", str(PATIENCE)).wait_until_ready() as server:
            stream = Stream(server, max_tokens=1000)
            server.process.send_signal(signal.SIGHUP)
            server.logged("stopping: hung up")
            server.process.send_signal(signal.SIGHUP)  # the shell's, and then the terminal's
            self.assertRegex(stream.rest(), r'"finish_reason":"length"[^\n]*\n\ndata: \[DONE\]\n\n$')
            self.assertEqual(server.process.wait(PATIENCE), 0)

    def test_under_nohup_a_hang_up_is_nothing(self):
        with serve(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as server:
            server.process.send_signal(signal.SIGHUP)
            self.assertEqual(server.stop(), 0)
            self.assertIn("stopping: terminated", "".join(server.log))

    def test_forty_answers_end_or_say_why_they_do_not(self):
        for patience, max_tokens, end in (PATIENCE, 60, r'data: \[DONE\]\n\n$'), (0, 4000, r'"code":"shutting_down"'):
            with serve("--shutdown-timeout", str(patience)).wait_until_ready() as server:
                with concurrent.futures.ThreadPoolExecutor(40) as pool:
                    streams = list(pool.map(lambda first: Stream(server, prompt=prompt(20, first), max_tokens=max_tokens),
                                            range(40)))
                server.process.send_signal(signal.SIGTERM)
                for stream in streams:
                    self.assertRegex(stream.rest(), end)
                self.assertEqual(server.process.wait(PATIENCE), 0)


class Surroundings(unittest.TestCase):
    def test_a_full_disk_costs_snapshots_and_no_answers(self):
        with tempfile.TemporaryDirectory() as folder:
            # A disk of its own, which needs no rights: what is mounted goes with the server.
            small_disk = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
                          'mount -t tmpfs -o size=1m tmpfs "$0" && exec "$@"', folder)
            if run(*small_disk, "true").returncode != 0:
                skip_without("mounts", "this system lets nobody mount a tmpfs in a namespace of his own")
            with Server(small_disk[0], "--model", MODEL, "--threads", "1", "--cache-dir", os.path.join(folder, "cache"),
                        "--cache-secret-file", os.path.join(folder, "secret"), "--cache-even-if-slower",
                        serve=(*small_disk[1:], PROGRAM, "serve", "--port", "0")) as server:
                server.wait_until_ready()

                def ask(first, **more):
                    return server.ask("/v1/completions", prompt=prompt(300, first), max_tokens=4, temperature=0,
                                      ignore_eos=True, return_token_ids=True, **more)["choices"][0]["token_ids"]

                replies = []
                while server.figures()["tier_failures_total"] == 0:
                    self.assertLess(len(replies), 100, "the disk is not full yet")
                    replies.append(ask(len(replies)))
                    wait_until(lambda: server.figures()["tier_waiting"] == 0, "the end of writing")
                self.assertGreater(server.figures()["tier_stored_total"], 0)
                server.logged("cache tier: writes disabled: .*No space left on device")
                for first, reply in enumerate(replies):
                    self.assertEqual(ask(first), reply)
                    self.assertEqual(ask(first, cache_prompt=False), reply)
                self.assertEqual(server.get("/health").status, 200)
                self.assertEqual(server.stop(), 0)

    def test_ipv6(self):
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError as error:
            skip_without("ipv6", f"there is no ::1: {error}")
        with serve("--host", "::1") as server:
            self.assertEqual(server.url, f"http://[::1]:{server.port}")
            server.wait_until_ready()
            self.assertEqual(server.ask("/v1/completions", prompt=[5, 6], max_tokens=3, ignore_eos=True)["usage"]["completion_tokens"], 3)
            own = {"Origin": server.url}
            self.assertEqual(server.get("/v1/models", headers=own).headers["Access-Control-Allow-Origin"], server.url)
            self.assertEqual(server.stop(), 0)

    def test_a_thousand_idle_connections(self):
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        if before[1] < 1200:
            skip_without("open-files", f"this system allows {before[1]}")
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
        with serve("--max-connections", "1100", "--idle-timeout", "600").wait_until_ready() as server:
            idle = [server.connect() for _ in range(1000)]
            for connection in idle:
                self.addCleanup(connection.close)
            wait_until(lambda: server.figures()["http_connections"] >= 1000, "that all are open")
            for _ in range(10):
                server.ask("/v1/completions", prompt=[5, 6], max_tokens=3, ignore_eos=True)
            poll = select.poll()
            for connection in idle:
                poll.register(connection, select.POLLIN)
            self.assertEqual(poll.poll(0), [], "none of them was closed")
            self.assertEqual(server.stop(), 0)


class LongPrompts(unittest.TestCase):
    def ask_twice(self, *shape):
        with tempfile.TemporaryDirectory() as folder:
            run(RANDOM_MODEL, "--out", folder, "--shape", "qwen3_5-tiny", "--context", "131072", *shape, check=True)
            with Server(PROGRAM, "--model", folder, "--state-mb", "512").wait_until_ready() as server:
                body = dict(prompt=prompt(100_000), max_tokens=4, temperature=0, ignore_eos=True, return_token_ids=True)
                cold, warm = (server.ask("/v1/completions", **body) for _ in range(2))
                self.assertEqual(cold["usage"]["prompt_tokens"], 100_000)
                self.assertEqual(cold["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
                self.assertEqual(warm["usage"]["prompt_tokens_details"]["cached_tokens"], 99_999)
                self.assertEqual(warm["choices"][0]["token_ids"], cold["choices"][0]["token_ids"])

    @needs("unsanitized", not SANITIZED, "it takes minutes under a sanitizer")
    def test_of_100000_tokens(self):
        self.ask_twice("--layers", "3")  # all recurrent: attention would take minutes


class Thorough(LongPrompts):
    """What takes minutes, if it is asked for by its name."""

    def test_of_100000_tokens(self):
        with unittest.mock.patch("server.PATIENCE", 1200):
            self.ask_twice("--layers", "4", "--heads", "1", "--kv-heads", "1")


if __name__ == "__main__":
    unittest.main(defaultTest=["Log", "Signals", "Surroundings", "LongPrompts"], verbosity=2)
