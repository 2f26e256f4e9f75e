#!/usr/bin/env python3
"""The server behind nginx with tools/deploy/nginx.conf. usage: proxy_test.py HTTP_FIXTURE [UNITTEST ARGUMENT]...

Needs nginx and openssl. nginx, which cannot be asked for a free port, listens on a socket in a folder."""

import http.client
import json
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from server import PATIENCE, Server, wait_until  # noqa: E402

FIXTURE = sys.argv.pop(1)
NAME = "example.org"  # the server_name in nginx.conf
SITE = Path(__file__).resolve().parents[2] / "tools" / "deploy" / "nginx.conf"


def replaced(text, old, new):
    """The file is run as it is but for what stands there to be changed."""
    assert text.count(old) == 1, f"{SITE}: expected once: {old}"
    return text.replace(old, new)


class Connection(http.client.HTTPSConnection):
    """TLS over a socket in a folder."""

    def __init__(self, path, certificate):
        super().__init__(NAME, timeout=PATIENCE)
        self.path, self.context = path, ssl.create_default_context(cafile=certificate)

    def connect(self):
        plain = socket.socket(socket.AF_UNIX)
        plain.settimeout(self.timeout)
        plain.connect(str(self.path))
        self.sock = self.context.wrap_socket(plain, server_hostname=NAME)


class Proxied:
    """The scripted server and nginx in front of it, in a folder of their own."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="reprise-proxy-"))
        self.server = self.nginx = None
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self):
        self.server = Server(FIXTURE, "--allowed-host", NAME, serve=())
        self.certificate = self.folder / "certificate.pem"
        key = self.folder / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", key, "-out", self.certificate, "-days", "2", "-subj", f"/CN={NAME}",
                        "-addext", f"subjectAltName=DNS:{NAME}"], check=True, capture_output=True, timeout=PATIENCE)
        self.path = self.folder / "socket"
        site = SITE.read_text()
        site = replaced(site, "server 127.0.0.1:8080;", f"server {self.server.host}:{self.server.port};")
        site = replaced(site, "listen 443 ssl http2;           # CHANGE", f"listen unix:{self.path} ssl http2;  # CHANGE")
        assert f"server_name {NAME};" in site
        site = replaced(site, "/etc/ssl/reprise/fullchain.pem", str(self.certificate))
        site = replaced(site, "/etc/ssl/reprise/privkey.pem", str(key))
        (self.folder / "site.conf").write_text(site)
        paths = "".join(f"    {name}_temp_path {self.folder}/{name};\n"
                        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (self.folder / "nginx.conf").write_text(
            f"daemon off;\nmaster_process off;\npid {self.folder}/pid;\nerror_log stderr;\n"
            f"events {{ worker_connections 512; }}\n"
            f"http {{\n    access_log off;\n{paths}    include {self.folder}/site.conf;\n}}\n")
        command = [shutil.which("nginx") or "/usr/sbin/nginx", "-p", self.folder, "-c", self.folder / "nginx.conf"]
        subprocess.run([*command, "-t", "-q"], check=True, timeout=PATIENCE)
        self.nginx = subprocess.Popen(command)
        wait_until(self.listens, "nginx")

    def listens(self):
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.path)) == 0

    def stop(self):
        if self.nginx is not None:
            self.nginx.kill()
            self.nginx.wait(PATIENCE)
        if self.server is not None:
            self.server.__exit__()
        shutil.rmtree(self.folder)

    def connect(self):
        return Connection(self.path, self.certificate)

    def request(self, method, path, body=None):
        connection = self.connect()
        connection.request(method, path, body=None if body is None else json.dumps(body))
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        return response.status, answer

    def metric(self, name):
        """Of the server itself, past the proxy."""
        return self.server.figures()[name]

    def wait_for_sequences(self, count):
        wait_until(lambda: self.metric("sequences") == count, f"that {count} sequences are held")


def chat(words, **more):
    return {"messages": [{"role": "user", "content": words}], **more}


class Proxy(unittest.TestCase):
    def setUp(self):
        self.proxied = Proxied()
        self.addCleanup(self.proxied.stop)

    def open_stream(self, words):
        connection = self.proxied.connect()
        self.addCleanup(connection.close)
        connection.request("POST", "/v1/chat/completions", body=json.dumps(chat(words, stream=True)))
        return connection

    def test_a_whole_reply(self):
        status, answer = self.proxied.request("POST", "/v1/chat/completions", chat("hi"))
        self.assertEqual(status, 200)
        self.assertEqual(json.loads(answer)["choices"][0]["message"]["content"], "Hello, world!")

    def test_old_protocols_are_not_spoken_and_http_2_is(self):
        connection = self.proxied.connect()
        connection.context.set_alpn_protocols(["h2", "http/1.1"])
        connection.connect()
        self.assertIn(connection.sock.version(), ("TLSv1.2", "TLSv1.3"))
        self.assertEqual(connection.sock.selected_alpn_protocol(), "h2")
        connection.close()

    def test_health_is_passed_on_and_metrics_are_not(self):
        self.assertEqual(self.proxied.request("GET", "/health"), (200, b'{"status":"ok"}'))
        self.assertEqual(self.proxied.request("GET", "/health/live")[0], 200)
        self.assertEqual(self.proxied.request("GET", "/metrics")[0], 403)

    def test_events_arrive_as_they_are_produced(self):
        connection = self.open_stream("wait half way")
        response = connection.getresponse()
        self.assertEqual(response.headers["Content-Type"], "text/event-stream; charset=utf-8")
        while b'"Hel"' not in (line := response.readline()):
            self.assertTrue(line, "the stream ended before its first word")
        # The rest has not been produced: the script waits for this request.
        self.assertEqual(self.proxied.request("POST", "/v1/chat/completions", chat("release the others"))[0], 200)
        rest = response.read().decode()
        self.assertIn('"ld!"', rest)
        self.assertTrue(rest.endswith("data: [DONE]\n\n"), rest)

    def test_clients_that_vanish_are_noticed(self):
        for count, words in enumerate(("go on for ever", "wait in the queue"), 1):
            connection = self.open_stream(words)
            self.proxied.wait_for_sequences(1)
            if words == "go on for ever":
                self.assertEqual(connection.getresponse().status, 200)
            connection.sock.close()
            connection.close()
            self.proxied.wait_for_sequences(0)
            self.assertEqual(self.proxied.metric("http_clients_left_total"), count)

    def test_a_client_that_vanishes_before_a_whole_reply_is_noticed(self):
        connection = self.proxied.connect()
        connection.request("POST", "/v1/chat/completions", body=json.dumps(chat("wait in the queue")))
        self.proxied.wait_for_sequences(1)
        connection.close()
        self.proxied.wait_for_sequences(0)

    def test_bodies_up_to_the_limit(self):
        status, _ = self.proxied.request("POST", "/v1/chat/completions", chat("x" * 4_000_000))
        self.assertEqual(status, 200)
        connection = self.proxied.connect()
        connection.putrequest("POST", "/v1/chat/completions")
        connection.putheader("Content-Length", str(33 << 20))
        connection.endheaders()
        self.assertEqual(connection.getresponse().status, 413)
        connection.close()

    def test_connections_to_the_server_are_kept(self):
        for _ in range(20):
            self.assertEqual(self.proxied.request("POST", "/v1/chat/completions", chat("hi"))[0], 200)
        self.assertLessEqual(self.proxied.metric("http_connections"), 3, "one of them is ours")


if __name__ == "__main__":
    unittest.main(verbosity=2)
