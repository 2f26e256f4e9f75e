#!/usr/bin/env python3
"""One tenant, or one address, that asks for as much as it can: it is refused, and the others are answered.
Usage: hostile_load_test.py PROGRAM"""

import concurrent.futures
import http.client
import os
import socket
import sys
import tempfile
import threading
import unittest

import bombs
from sanitized import SANITIZED
from server import PATIENCE, Server, wait_until

PROGRAM = sys.argv[1]
MODEST, GREEDY = "a-key-of-the-modest", "a-key-of-the-greedy"
CHAT = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
CONFIG = f"""
[[keys]]
key = "{MODEST}"
tenant = "modest"
[[keys]]
key = "{GREEDY}"
tenant = "greedy"
"""


class HostileLoad(unittest.TestCase):
    def serve(self, *arguments, limits=""):
        """With these lines in the table of the greedy tenant."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "reprise.toml")
        with open(path, "w") as file:
            file.write(CONFIG + limits)
        server = Server(PROGRAM, "--config", path, *arguments).wait_until_ready()
        self.addCleanup(server.__exit__)
        return server

    def assert_answered(self, server, key=MODEST):
        answer = server.post("/v1/chat/completions", CHAT, key=key)
        self.assertEqual(answer.status, 200, answer.data)

    def test_bombs_are_refused_with_their_limit(self):
        server = self.serve()
        for name, (path, body) in bombs.BOMBS.items():
            if SANITIZED and ("exponential" in name or "fan" in name):
                continue  # their limit would come after the request's time is over
            with self.subTest(bomb=name):
                answer = server.post(path, body, key=GREEDY)
                self.assertEqual(answer.status, 400, answer.data)
                message = answer.json()["error"]["message"]
                self.assertTrue(bombs.names_a_limit(message), message)
        self.assert_answered(server)
        self.assertEqual(server.get("/health").status, 200)

    def test_bombs_at_once_leave_others_their_answers(self):
        server = self.serve()
        over = threading.Event()
        regexes = [fields for name, fields in bombs.BOMBS.items() if "nothing" in name or "counts within counts" in name]

        def attack(first):
            statuses = []
            turn = first
            while not over.is_set():
                path, body = regexes[turn % len(regexes)]
                statuses.append(server.post(path, body, key=GREEDY).status)
                turn += 1
            return statuses

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            attacks = [pool.submit(attack, i) for i in range(8)]
            try:
                # Its work on texts goes through the threads that the bombs are compiled by.
                for i in range(5):
                    answer = server.post("/v1/chat/completions", {**CHAT, "guided_regex": f"[a-c]{{{i + 1}}}"}, key=MODEST)
                    self.assertEqual(answer.status, 200, answer.data)
                    tokens = server.post("/tokenize", {"content": "some words"}, key=MODEST)
                    self.assertEqual(tokens.status, 200, tokens.data)
                    self.assertEqual(server.get("/health/live").status, 200)
            finally:
                over.set()
            for each in attacks:
                self.assertLessEqual(set(each.result()), {400, 429})
        self.assertEqual(server.get("/health").status, 200)

    def test_work_on_texts_is_paid(self):
        server = self.serve(limits="tokens_per_minute = 60\n")
        text = {"content": "words of a long text " * 50_000}

        def refused():
            answer = server.post("/tokenize", text, key=GREEDY)
            self.assertIn(answer.status, (200, 429), answer.data)
            return answer if answer.status == 429 else None

        answer = wait_until(refused, "a refusal")
        self.assertEqual(answer.json()["error"]["code"], "tenant_tokens")
        self.assertEqual(server.post("/tokenize", text, key=MODEST).status, 200)
        self.assert_answered(server)

    def test_a_refused_grammar_is_paid(self):
        server = self.serve(limits="tokens_per_minute = 60\n")
        where, bomb = bombs.BOMBS["regex: nothing, many times"]
        self.assertEqual(server.post(where, bomb, key=GREEDY).status, 400)
        answer = server.post(where, bomb, key=GREEDY)
        self.assertEqual(answer.status, 429, answer.data)
        self.assertEqual(answer.json()["error"]["code"], "tenant_tokens")
        self.assert_answered(server)

    def test_bodies_that_do_not_end_lock_nobody_out(self):
        server = self.serve("--max-connections", "64")
        slow = []
        head = (f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {GREEDY}\r\n"
                "Content-Length: 100\r\n\r\n{")
        try:
            for _ in range(200):
                # Another address of this machine, where it has one.
                try:
                    sender = socket.create_connection((server.host, server.port), PATIENCE, ("127.0.0.2", 0))
                except OSError:
                    sender = socket.create_connection((server.host, server.port), PATIENCE)
                sender.sendall(head.encode())
                slow.append(sender)
            for _ in range(5):
                self.assert_answered(server)
        finally:
            for sender in slow:
                sender.close()

    def test_what_http_forbids(self):
        server = self.serve()
        for head, status in (("Host: localhost\r\nExpect: 200-ok\r\n", 417), ("", 400),
                             ("Host: localhost\r\nHost: localhost\r\n", 400)):
            with server.connect() as connection:
                connection.sendall(f"GET /health/live HTTP/1.1\r\n{head}\r\n".encode())
                answer = http.client.HTTPResponse(connection)
                answer.begin()
                self.assertEqual(answer.status, status, head)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
