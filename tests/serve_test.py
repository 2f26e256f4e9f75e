"""`reprise serve` seen from outside. Usage: serve_test.py PATH_TO_REPRISE"""

import http.client
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

PROGRAM = sys.argv.pop(1)
HOST = "127.0.0.1"


class Server:
    """A server on a port of the system's choice. Killed at the end of the block if it still runs."""

    def __init__(self, *arguments):
        command = [PROGRAM, "serve", "--port", "0", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.first_line = self.process.stderr.readline()
        self.port = int(re.search(r"listening on http://127\.0\.0\.1:(\d+)/", self.first_line).group(1))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def request(self, method, path, **more):
        connection = http.client.HTTPConnection(HOST, self.port, timeout=10)
        connection.request(method, path, **more)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response, body

    def connect(self):
        return socket.create_connection((HOST, self.port), timeout=10)


def read_all(connection):
    """What the server sends until it closes the connection."""
    received = b""
    while chunk := connection.recv(65536):
        received += chunk
    return received


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def test_front_page(self):
        response, body = self.server.request("GET", "/")
        self.assertEqual(response.status, 200)
        self.assertTrue(response.getheader("Content-Type").startswith("text/html"))
        self.assertIn(b"<h1>Reprise", body)
        self.assertEqual(int(response.getheader("Content-Length")), len(body))

    def test_query_is_ignored(self):
        self.assertEqual(self.server.request("GET", "/?a=b")[0].status, 200)

    def test_health(self):
        response, body = self.server.request("GET", "/health")
        self.assertEqual((response.status, body), (200, b"ok\n"))

    def test_head_has_the_headers_of_get_and_no_body(self):
        for path in "/", "/health", "/nowhere":
            _, body_of_get = self.server.request("GET", path)
            with self.server.connect() as connection:
                connection.sendall(f"HEAD {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
                head, rest = read_all(connection).split(b"\r\n\r\n", 1)
            self.assertIn(b"Content-Length: %d" % len(body_of_get), head)
            self.assertEqual(rest, b"")

    def test_unknown_path(self):
        self.assertEqual(self.server.request("GET", "/nowhere")[0].status, 404)

    def test_other_methods(self):
        for method in "POST", "PUT", "DELETE":
            response, _ = self.server.request(method, "/", body="x")
            self.assertEqual(response.status, 405)
            self.assertEqual(response.getheader("Allow"), "GET, HEAD")

    def test_one_connection_carries_many_requests(self):
        connection = http.client.HTTPConnection(HOST, self.server.port, timeout=10)
        for _ in range(20):
            connection.request("GET", "/health")
            self.assertEqual(connection.getresponse().read(), b"ok\n")
        connection.close()

    def test_malformed_request(self):
        with self.server.connect() as connection:
            connection.sendall(b"this is not HTTP\r\n\r\n")
            self.assertTrue(read_all(connection).startswith(b"HTTP/1.1 400"))

    def test_headers_are_bounded(self):
        response, _ = self.server.request("GET", "/", headers={"X-Long": "x" * 32 * 1024})
        self.assertEqual(response.status, 431)

    def test_body_is_bounded(self):
        response, _ = self.server.request("POST", "/", body=b"x" * 256 * 1024)
        self.assertEqual(response.status, 413)


class Lifetime(unittest.TestCase):
    def test_idle_connection_is_closed(self):
        with Server("--idle-timeout", "1") as server, server.connect() as silent, server.connect() as slow:
            slow.sendall(b"GET / HT")
            begin = time.monotonic()
            self.assertEqual(read_all(silent), b"")
            self.assertEqual(read_all(slow), b"")
            self.assertLess(time.monotonic() - begin, 8)
            self.assertEqual(server.request("GET", "/health")[0].status, 200)

    def test_signals_stop_it(self):
        for stop in signal.SIGTERM, signal.SIGINT:
            with Server() as server, server.connect() as idle:
                idle.sendall(b"GET / HT")
                server.request("GET", "/health")
                server.process.send_signal(stop)
                self.assertEqual(server.process.wait(timeout=5), 0)
                self.assertEqual(server.process.stdout.read(), "")

    def test_port_in_use(self):
        with Server() as server:
            command = [PROGRAM, "serve", "--port", str(server.port)]
            second = subprocess.run(command, capture_output=True, text=True, timeout=10)
            self.assertNotEqual(second.returncode, 0)
            self.assertIn(f"port {server.port}", second.stderr)
            self.assertIn("in use", second.stderr)
            self.assertEqual(second.stdout, "")

    def test_unknown_option(self):
        failed = subprocess.run([PROGRAM, "serve", "--no-such-option"], capture_output=True, timeout=10)
        self.assertNotEqual(failed.returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
