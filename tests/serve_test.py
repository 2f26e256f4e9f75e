"""`reprise serve` seen from outside. Usage: serve_test.py PATH_TO_REPRISE MODEL, a small one without tokenizer"""

import http.client
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

PROGRAM = sys.argv.pop(1)
MODEL = sys.argv.pop(1)
HOST = "127.0.0.1"


class Server:
    """A server on a port of the system's choice. Killed at the end of the block if it still runs."""

    def __init__(self, *arguments, model=MODEL):
        command = [PROGRAM, "serve", "--port", "0", *(["--model", model] if model else []), *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"listening on http://127\.0\.0\.1:(\d+)/", line):
                self.port = int(found.group(1))
                break
        else:
            raise RuntimeError("the server ended before it listened")

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

    def wait_until_ready(self):
        limit = time.monotonic() + 60
        while self.request("GET", "/health")[0].status != 200:
            if time.monotonic() > limit:
                raise RuntimeError("the model was not loaded in time")
            time.sleep(0.02)

    def complete(self, **body):
        headers = {"Content-Type": "application/json"}
        response, answer = self.request("POST", "/v1/completions", body=json.dumps(body), headers=headers)
        return response.status, json.loads(answer)

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
        self.assertIn(b"<h1", body)
        self.assertIn(b"Reprise", body)
        self.assertEqual(int(response.getheader("Content-Length")), len(body))

    def test_query_is_ignored(self):
        self.assertEqual(self.server.request("GET", "/?a=b")[0].status, 200)

    def test_health(self):
        response, body = self.server.request("GET", "/health")
        self.assertIn(response.status, (200, 503))
        self.assertEqual(response.getheader("Content-Type"), "application/json")
        self.assertEqual(self.server.request("GET", "/health/live")[0].status, 200)

    def test_head_has_the_headers_of_get_and_no_body(self):
        for path in "/", "/health/live", "/nowhere":
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
            self.assertEqual(response.getheader("Allow"), "GET, HEAD, OPTIONS")

    def test_one_connection_carries_many_requests(self):
        connection = http.client.HTTPConnection(HOST, self.server.port, timeout=10)
        for _ in range(20):
            connection.request("GET", "/health/live")
            self.assertEqual(connection.getresponse().read(), b'{"status":"alive"}')
        connection.close()

    def test_malformed_request(self):
        with self.server.connect() as connection:
            connection.sendall(b"this is not HTTP\r\n\r\n")
            self.assertTrue(read_all(connection).startswith(b"HTTP/1.1 400"))

    def test_headers_are_bounded(self):
        response, _ = self.server.request("GET", "/", headers={"X-Long": "x" * 32 * 1024})
        self.assertEqual(response.status, 431)

    def test_body_is_bounded(self):
        with Server("--max-body-bytes", "65536") as server:
            response, _ = server.request("POST", "/v1/completions", body=b"x" * 256 * 1024)
            self.assertEqual(response.status, 413)


class Completions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--model-name", "tiny")
        cls.server.wait_until_ready()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def test_models(self):
        _, body = self.server.request("GET", "/v1/models")
        self.assertEqual([model["id"] for model in json.loads(body)["data"]], ["tiny"])

    def test_the_second_time_is_restored_and_equal(self):
        prompt = [3 + 7 * i % 400 for i in range(200)]
        request = dict(prompt=prompt, max_tokens=8, temperature=0, ignore_eos=True, return_token_ids=True)
        status, first = self.server.complete(model="tiny", **request)
        self.assertEqual(status, 200, first)
        self.assertEqual(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        self.assertEqual(first["reprise"]["miss_reason"], "never_seen")
        self.assertEqual(first["choices"][0]["prompt_token_ids"], prompt)
        _, second = self.server.complete(**request)
        self.assertEqual(second["usage"]["prompt_tokens_details"]["cached_tokens"], len(prompt) - 1)
        self.assertEqual(second["choices"][0]["token_ids"], first["choices"][0]["token_ids"])
        _, salted = self.server.complete(cache_salt="other", **request)
        self.assertEqual(salted["usage"]["prompt_tokens_details"]["cached_tokens"], 0)

    def test_a_stream_has_the_same_tokens(self):
        request = dict(prompt=[5, 6, 7], max_tokens=6, temperature=0, ignore_eos=True, return_token_ids=True)
        _, whole = self.server.complete(**request)
        response, body = self.server.request("POST", "/v1/completions", body=json.dumps(dict(request, stream=True)))
        self.assertEqual(response.status, 200)
        events = [line[6:] for line in body.decode().split("\n\n") if line.startswith("data: ")]
        self.assertEqual(events.pop(), "[DONE]")
        ids = [token for event in events for choice in json.loads(event)["choices"] for token in choice["token_ids"]]
        self.assertEqual(ids, whole["choices"][0]["token_ids"])

    def test_several_prompts_are_answered_as_each_alone(self):
        request = dict(max_tokens=6, temperature=0, ignore_eos=True, return_token_ids=True)
        prompts = [[5, 6, 7], [8, 9], [5, 6, 7, 8]]
        alone = [self.server.complete(prompt=prompt, **request)[1] for prompt in prompts]
        status, together = self.server.complete(prompt=prompts, **request)
        self.assertEqual(status, 200, together)
        self.assertEqual([choice["token_ids"] for choice in together["choices"]],
                         [answer["choices"][0]["token_ids"] for answer in alone])
        self.assertEqual([choice["prompt_token_ids"] for choice in together["choices"]], prompts)
        self.assertEqual(together["usage"]["total_tokens"], sum(map(len, prompts)) + 3 * 6)

    def test_refusals(self):
        for body, status, word in [(dict(prompt="text"), 400, "token"),
                                   (dict(prompt=[1], model="other"), 404, "other"),
                                   (dict(prompt=[10**6]), 400, "1000000"),
                                   (dict(prompt=[1], temperature="hot"), 400, "temperature")]:
            got, answer = self.server.complete(**body)
            self.assertEqual(got, status, answer)
            self.assertIn(word, answer["error"]["message"])

    def test_clients_that_leave_free_their_sequences(self):
        """In any phase: while they stream, are queued, or wait for several choices of several prompts."""
        head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
        for i in range(24):
            prompt = [5, 6, 7 + i] if i % 3 else [[5, 6, 7 + i], [8, 9 + i]]
            body = json.dumps(dict(prompt=prompt, n=1 + 7 * (i % 2), max_tokens=400, ignore_eos=True,
                                   stream=i % 4 != 0)).encode()
            with self.server.connect() as connection:
                connection.sendall(head % len(body) + body)
                if i % 4 == 1:
                    connection.recv(100)
                elif i % 4 == 2:
                    time.sleep(0.03)
                elif i % 4 == 3:
                    connection.sendall(b"junk " * 40_000)
        limit = time.monotonic() + 30
        held = (b"reprise_sequences", b"reprise_requests_waiting", b"reprise_http_generations")
        while True:
            _, metrics = self.server.request("GET", "/metrics")
            if all(name + b" 0\n" in metrics for name in held):
                break
            self.assertLess(time.monotonic(), limit, metrics.decode())
            time.sleep(0.02)


class Lifetime(unittest.TestCase):
    def test_idle_connection_is_closed(self):
        limits = "--idle-timeout", "1", "--header-timeout", "1"
        with Server(*limits) as server, server.connect() as silent, server.connect() as slow:
            slow.sendall(b"GET / HT")
            begin = time.monotonic()
            self.assertEqual(read_all(silent), b"")
            self.assertEqual(read_all(slow), b"")
            self.assertLess(time.monotonic() - begin, 8)
            self.assertEqual(server.request("GET", "/health/live")[0].status, 200)

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
            command = [PROGRAM, "serve", "--port", str(server.port), "--model", MODEL]
            second = subprocess.run(command, capture_output=True, text=True, timeout=10)
            self.assertNotEqual(second.returncode, 0)
            self.assertIn(f"port {server.port}", second.stderr)
            self.assertIn("in use", second.stderr)
            self.assertEqual(second.stdout, "")

    def test_it_may_open_as_many_files_as_it_has_connections(self):
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        try:
            with Server("--max-connections", "700", "--reserved-connections", "50") as server:
                self.assertGreaterEqual(resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[0], 750)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)

    def test_a_second_signal_ends_it_at_once(self):
        with Server() as server, server.connect() as busy:
            busy.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n")
            self.assertIn(b"100 Continue", busy.recv(100))
            server.process.send_signal(signal.SIGTERM)
            for line in server.process.stderr:
                if "stopping" in line:
                    break
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(timeout=5), 1)


class Configuration(unittest.TestCase):
    def run_serve(self, *arguments, **environment):
        return subprocess.run([PROGRAM, "serve", *arguments], capture_output=True, text=True, timeout=10,
                              env={**os.environ, **environment})

    def with_file(self, text, *arguments, **environment):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(text)
            file.flush()
            return self.run_serve("--config", file.name, *arguments, **environment)

    def test_flags_before_environment_before_file(self):
        text = "[http]\nport = 1\nmax_requests = 2\nidle_timeout = 3.5\n[[models]]\nname = 'm'\npath = '/p'\n"
        done = self.with_file(text, "--print-config", "--port", "4", REPRISE_HTTP_MAX_REQUESTS="5", REPRISE_HTTP_PORT="6")
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in "port = 4", "max_requests = 5", "idle_timeout = 3.5", 'name = "m"', 'path = "/p"':
            self.assertIn(line + "\n", done.stdout)
        again = self.with_file(done.stdout, "--print-config")
        self.assertEqual(again.stdout, done.stdout)

    def test_mistakes_in_the_file_are_named(self):
        for text, words in [("[http]\nhost = 'x'\nprot = 1\n", ("line 3", "http.prot")),
                            ("[htpt]\nport = 1\n", ("line 2", "htpt.port")),
                            ("[http]\nport = 'x'\n", ("line 2", "http.port")),
                            ("[http]\nport = 99999\n", ("line 2", "http.port", "65535")),
                            ("[http\n", ("line 1",)),
                            ("[[models]]\nnmae = 'x'\n", ("line 2", "models.nmae")),
                            ("[[keys]]\nrequests = 5\n", ("line 1", "tenant")),
                            ("[[keys]]\ntenant = 'a'\nrequest = 5\n", ("line 3", "keys.request")),
                            ("[[keys]]\ntenant = 'a'\nrequests = 1.5\n", ("line 3", "keys.requests")),
                            ("[[keys]]\ntenant = 'a'\nstate_share = 1.5\n", ("line 3", "keys.state_share")),
                            ("[[keys]]\ntenant = 'a'\npriority = 'urgent'\n", ("line 3", "keys.priority")),
                            ("[[keys]]\ntenant = 'a'\nrequests = 1\n", ("line 1", "no key of a tenant 'a'")),
                            ("[[keys]]\nkey = 'short'\n", ("line 1", "at least 8 bytes")),
                            ("[[keys]]\ntenant = 'a'\nrequests = 1\n[[keys]]\ntenant = 'a'\nrequests = 2\n",
                             ("line 4", "twice"))]:
            done = self.with_file(text)
            self.assertEqual(done.returncode, 2)
            for word in words:
                self.assertIn(word, done.stderr)

    def test_mistakes_elsewhere_are_named(self):
        self.assertIn("REPRISE_HTTP_PORT", self.run_serve(REPRISE_HTTP_PORT="x").stderr)
        self.assertIn("--port", self.run_serve("--port", "x").stderr)
        self.assertIn("log.level", self.run_serve("--log-level", "loud").stderr)
        self.assertIn("/nowhere", self.run_serve("--api-key-file", "/nowhere").stderr)
        self.assertIn("'abacus'", self.run_serve("--device", "abacus").stderr)
        self.assertIn("'cuda:99'", self.run_serve("--device", "cuda:99").stderr)
        self.assertIn("'f7'", self.run_serve("--compute", "f7").stderr)

    def test_keys_come_from_the_environment_and_are_not_shown(self):
        secret = "a-secret-of-ours"
        with unittest.mock.patch.dict(os.environ, REPRISE_API_KEYS=secret):
            shown = self.run_serve("--print-config")
            self.assertNotIn(secret, shown.stdout + shown.stderr)
            with Server("--log-level", "debug") as server:
                self.assertEqual(server.request("GET", "/v1/models")[0].status, 401)
                key = {"Authorization": "Bearer " + secret}
                self.assertEqual(server.request("GET", "/v1/models", headers=key)[0].status, 200)
                server.process.send_signal(signal.SIGTERM)
                self.assertEqual(server.process.wait(timeout=10), 0)
                logs = server.process.stderr.read()
                self.assertIn("path=/v1/models status=401", logs)
                self.assertNotIn(secret, logs)

    def test_tenants_come_from_the_file_and_their_keys_are_not_shown(self):
        text = ("[[keys]]\nkey = 'a-secret-of-ops'\ntenant = 'ops'\noperator = true\n"
                "[[keys]]\nkey = 'a-secret-of-acme'\ntenant = 'acme'\nrequests = 3\ntokens_per_minute = 1000\n"
                "state_share = 0.25\npriority = 'low'\n"
                "[[keys]]\nkey = 'a-secret-of-nobody'\nrequests = 1\n")
        shown = self.with_file(text, "--print-config")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertNotIn("a-secret", shown.stdout + shown.stderr)
        for line in ('tenant = "acme"', "operator = true", "requests = 3", "tokens_per_minute = 1000", "state_share = 0.25",
                     'priority = "low"'):
            self.assertIn(line + "\n", shown.stdout)
        again = self.with_file(shown.stdout, "--print-config")
        self.assertIn('tenant = "acme"\noperator = false\nrequests = 3\n', again.stdout)
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(text)
            file.flush()
            with Server("--config", file.name) as server:
                for secret, status in [("ops", 200), ("acme", 403), ("nobody", 403)]:
                    key = {"Authorization": "Bearer a-secret-of-" + secret}
                    self.assertEqual(server.request("GET", "/metrics", headers=key)[0].status, status)
                server.wait_until_ready()
                body = json.dumps({"prompt": [1, 2], "n": 2, "max_tokens": 1})
                key = {"Authorization": "Bearer a-secret-of-nobody"}
                response, answer = server.request("POST", "/v1/completions", body=body, headers=key)
                self.assertEqual(response.status, 400)
                self.assertEqual(json.loads(answer)["error"]["code"], "too_many")

    def test_unknown_option(self):
        failed = subprocess.run([PROGRAM, "serve", "--no-such-option"], capture_output=True, timeout=10)
        self.assertNotEqual(failed.returncode, 0)

    def test_what_was_meant_is_suggested(self):
        for arguments, meant in [(["serv"], "`serve`"), (["sevre"], "`serve`"), (["generat", "--prompt", "x"], "`generate`"),
                                 (["serve", "--prot", "1"], "`--port`"), (["serve", "--modell=x"], "`--model`"),
                                 (["snapshot", "verfy"], "`verify`")]:
            failed = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=10)
            self.assertEqual(failed.returncode, 2, arguments)
            self.assertIn("Did you mean " + meant, failed.stderr)
        for arguments, wrong in [(["serv"], "serv"), (["snapshot", "verfy", "x"], "verfy"), (["xylophone", "--help"], "xylophone")]:
            failed = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=10)
            self.assertEqual(failed.returncode, 2, arguments)
            self.assertIn("There is no command `" + wrong + "`.", failed.stderr)
            self.assertNotIn("is required", failed.stderr)
        failed = subprocess.run([PROGRAM, "xylophone"], capture_output=True, text=True, timeout=10)
        self.assertEqual(failed.returncode, 2)
        self.assertNotIn("Did you mean", failed.stderr)

    def test_experts_on_the_host_want_a_gpu_and_a_number(self):
        for value, reason in [("many", "--cpu-experts: 'many' is neither a number of layers nor all"),
                              ("-1", "--cpu-experts: '-1' is neither"),
                              ("3", "--cpu-experts: is for models on a GPU, and the device is cpu")]:
            done = self.run_serve("--cpu-experts=" + value, "--device", "cpu", "--port", "0")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(reason, done.stderr)
            self.assertNotIn("listening", done.stderr)

    def test_a_policy_that_does_not_exist_is_named_before_anything_is_loaded(self):
        done = self.run_serve("--cache-policy", "oldest", "--port", "0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("cache.policy: 'oldest' is not one of", done.stderr)
        self.assertNotIn("listening", done.stderr)


class ModelsThatCannotBeLoaded(unittest.TestCase):
    def test_the_only_one_ends_the_server_with_the_reason(self):
        done = subprocess.run([PROGRAM, "serve", "--port", "0", "--model", "/nowhere/at/all"], capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"(?m) error model 'all' cannot be used: /nowhere/at/all: .+$")
        self.assertRegex(done.stderr, r"(?m) error stopping: no model could be loaded")

    def test_one_of_two_is_told_of_and_the_other_serves(self):
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "reprise.toml")
            broken = os.path.join(folder, "broken")
            os.mkdir(broken)
            with open(os.path.join(broken, "config.json"), "w") as file:
                file.write('{"model_type": "abacus"}')
            with open(config, "w") as file:
                file.write(f"[[models]]\nname = 'good'\npath = '{MODEL}'\n[[models]]\nname = 'bad'\npath = '{broken}'\n")
            with Server("--config", config, model=None) as server:
                cards = {}
                for _ in range(600):
                    cards = {card["id"]: card for card in json.loads(server.request("GET", "/v1/models")[1])["data"]}
                    if all(card["state"] != "loading" for card in cards.values()):
                        break
                    time.sleep(0.1)
                self.assertEqual([cards["good"]["state"], cards["bad"]["state"]], ["ready", "failed"])
                self.assertNotIn("problem", cards["good"])
                self.assertIn("abacus", cards["bad"]["problem"])
                response, health = server.request("GET", "/health")
                self.assertEqual(response.status, 503)
                body = json.dumps({"model": "bad", "prompt": [1], "max_tokens": 1})
                response, answer = server.request("POST", "/v1/completions", body=body)
                self.assertEqual(response.status, 503)
                for text in cards["bad"]["problem"], health.decode(), answer.decode():
                    self.assertIn("abacus", text)
                    self.assertNotIn(folder, text)
                body = json.dumps({"model": "good", "prompt": [1], "max_tokens": 1})
                self.assertEqual(server.request("POST", "/v1/completions", body=body)[0].status, 200)
                body = json.dumps({"model": "other", "prompt": [1], "max_tokens": 1})
                response, answer = server.request("POST", "/v1/completions", body=body)
                self.assertEqual(response.status, 404)
                self.assertIn("served: good, bad", json.loads(answer)["error"]["message"])
                server.process.send_signal(signal.SIGTERM)
                self.assertEqual(server.process.wait(timeout=10), 0)
                self.assertRegex(server.process.stderr.read(), rf" error model 'bad' cannot be used: {folder}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
