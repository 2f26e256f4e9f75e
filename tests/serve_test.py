"""`reprise serve` seen from outside. Usage: serve_test.py PATH_TO_REPRISE MODEL, a small one without tokenizer"""

import http.client
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import server
from server import wait_until

PROGRAM = sys.argv.pop(1)
MODEL = sys.argv.pop(1)


def serve(*arguments, model=MODEL, **more):
    return server.Server(PROGRAM, *(["--model", model] if model else []), *arguments, **more)


def run(*arguments, **variables):
    return server.run(PROGRAM, *arguments, variables=variables)


def read_all(connection):
    """What the server sends until it closes the connection."""
    received = b""
    while chunk := connection.recv(65536):
        received += chunk
    return received


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = serve()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def test_front_page(self):
        page = self.server.get("/")
        self.assertEqual(page.status, 200)
        self.assertTrue(page.headers["Content-Type"].startswith("text/html"))
        self.assertIn(b"<h1", page.data)
        self.assertIn(b"Reprise", page.data)
        self.assertEqual(int(page.headers["Content-Length"]), len(page.data))

    def test_query_is_ignored(self):
        self.assertEqual(self.server.get("/?a=b").status, 200)

    def test_health(self):
        health = self.server.get("/health")
        self.assertIn(health.status, (200, 503))
        self.assertEqual(health.headers["Content-Type"], "application/json")
        self.assertEqual(self.server.get("/health/live").status, 200)

    def test_head_has_the_headers_of_get_and_no_body(self):
        for path in "/", "/health/live", "/nowhere":
            body_of_get = self.server.get(path).data
            with self.server.connect() as connection:
                connection.sendall(f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                head, rest = read_all(connection).split(b"\r\n\r\n", 1)
            self.assertIn(b"Content-Length: %d" % len(body_of_get), head)
            self.assertEqual(rest, b"")

    def test_unknown_path(self):
        self.assertEqual(self.server.get("/nowhere").status, 404)

    def test_other_methods(self):
        for method in "POST", "PUT", "DELETE":
            answer = self.server.request(method, "/", "x")
            self.assertEqual(answer.status, 405)
            self.assertEqual(answer.headers["Allow"], "GET, HEAD, OPTIONS")

    def test_one_connection_carries_many_requests(self):
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=10)
        for _ in range(20):
            connection.request("GET", "/health/live")
            self.assertEqual(connection.getresponse().read(), b'{"status":"alive"}')
        connection.close()

    def test_malformed_request(self):
        with self.server.connect() as connection:
            connection.sendall(b"this is not HTTP\r\n\r\n")
            self.assertTrue(read_all(connection).startswith(b"HTTP/1.1 400"))

    def test_headers_are_bounded(self):
        self.assertEqual(self.server.get("/", headers={"X-Long": "x" * 32 * 1024}).status, 431)

    def test_body_is_bounded(self):
        with serve("--max-body-bytes", "65536") as small:
            self.assertEqual(small.post("/v1/completions", b"x" * 256 * 1024).status, 413)


class Completions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = serve("--model-name", "tiny").wait_until_ready()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def complete(self, **body):
        return self.server.ask("/v1/completions", **body)

    def test_models(self):
        self.assertEqual([model["id"] for model in self.server.get("/v1/models").json()["data"]], ["tiny"])

    def test_the_second_time_is_restored_and_equal(self):
        prompt = [3 + 7 * i % 400 for i in range(200)]
        request = dict(prompt=prompt, max_tokens=8, temperature=0, ignore_eos=True, return_token_ids=True)
        first = self.complete(model="tiny", **request)
        self.assertEqual(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        self.assertEqual(first["reprise"]["miss_reason"], "never_seen")
        self.assertEqual(first["choices"][0]["prompt_token_ids"], prompt)
        second = self.complete(**request)
        self.assertEqual(second["usage"]["prompt_tokens_details"]["cached_tokens"], len(prompt) - 1)
        self.assertEqual(second["choices"][0]["token_ids"], first["choices"][0]["token_ids"])
        salted = self.complete(cache_salt="other", **request)
        self.assertEqual(salted["usage"]["prompt_tokens_details"]["cached_tokens"], 0)

    def test_a_stream_has_the_same_tokens(self):
        request = dict(prompt=[5, 6, 7], max_tokens=6, temperature=0, ignore_eos=True, return_token_ids=True)
        whole = self.complete(**request)
        stream = self.server.post("/v1/completions", dict(request, stream=True))
        self.assertEqual(stream.status, 200)
        events = [line[6:] for line in stream.data.decode().split("\n\n") if line.startswith("data: ")]
        self.assertEqual(events.pop(), "[DONE]")
        ids = [token for event in events for choice in json.loads(event)["choices"] for token in choice["token_ids"]]
        self.assertEqual(ids, whole["choices"][0]["token_ids"])

    def test_several_prompts_are_answered_as_each_alone(self):
        request = dict(max_tokens=6, temperature=0, ignore_eos=True, return_token_ids=True)
        prompts = [[5, 6, 7], [8, 9], [5, 6, 7, 8]]
        alone = [self.complete(prompt=prompt, **request) for prompt in prompts]
        together = self.complete(prompt=prompts, **request)
        self.assertEqual([choice["token_ids"] for choice in together["choices"]],
                         [answer["choices"][0]["token_ids"] for answer in alone])
        self.assertEqual([choice["prompt_token_ids"] for choice in together["choices"]], prompts)
        self.assertEqual(together["usage"]["total_tokens"], sum(map(len, prompts)) + 3 * 6)

    def test_refusals(self):
        for body, status, word in [(dict(prompt="text"), 400, "token"),
                                   (dict(prompt=[1], model="other"), 404, "other"),
                                   (dict(prompt=[10**6]), 400, "1000000"),
                                   (dict(prompt=[1], temperature="hot"), 400, "temperature")]:
            answer = self.server.post("/v1/completions", body)
            self.assertEqual(answer.status, status, answer.data)
            self.assertIn(word, answer.json()["error"]["message"])

    def test_clients_that_leave_free_their_sequences(self):
        """In any phase: while they stream, are queued, or wait for several choices of several prompts."""
        head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
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
        held = "sequences", "requests_waiting", "http_generations"
        wait_until(lambda: all(self.server.figures()[name] == 0 for name in held), "that none is held")


class Lifetime(unittest.TestCase):
    def test_idle_connection_is_closed(self):
        with serve("--idle-timeout", "1") as served, served.connect() as silent:
            silent.settimeout(30)  # without --idle-timeout it would be 75 seconds
            self.assertEqual(read_all(silent), b"")
            self.assertEqual(served.get("/health/live").status, 200)

    def test_signals_stop_it(self):
        for stop in signal.SIGTERM, signal.SIGINT, signal.SIGHUP:
            with serve(stdout=subprocess.PIPE) as served, served.connect() as idle:
                idle.sendall(b"GET / HT")
                served.get("/health")
                self.assertEqual(served.stop(stop), 0)
                self.assertEqual(served.process.stdout.read(), "")
                served.process.stdout.close()

    def test_port_in_use(self):
        with serve() as first:
            second = run("serve", "--port", str(first.port), "--model", MODEL, "--device", "cpu")
            self.assertNotEqual(second.returncode, 0)
            self.assertIn(f"port {first.port}", second.stderr)
            self.assertIn("in use", second.stderr)
            self.assertEqual(second.stdout, "")

    def test_it_may_open_as_many_files_as_it_has_connections(self):
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        try:
            with serve("--max-connections", "700") as served:
                self.assertGreaterEqual(resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE)[0], 716)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)

    def test_a_second_signal_ends_it_at_once(self):
        with serve() as served, served.connect() as busy:
            busy.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n")
            self.assertIn(b"100 Continue", busy.recv(100))
            served.process.send_signal(signal.SIGTERM)
            served.logged("stopping")
            self.assertEqual(served.stop(), 1)


class Configuration(unittest.TestCase):
    def run_serve(self, *arguments, **variables):
        return run("serve", *arguments, **variables)

    def with_file(self, text, *arguments, **variables):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(text)
            file.flush()
            return self.run_serve("--config", file.name, *arguments, **variables)

    def test_flags_before_environment_before_file(self):
        text = "[http]\nport = 1\nmax_requests = 2\nidle_timeout = 3.5\n[[models]]\nname = 'm'\npath = '/p'\n"
        done = self.with_file(text, "--print-config", "--port", "4", REPRISE_HTTP_MAX_REQUESTS="5", REPRISE_HTTP_PORT="6")
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in "port = 4", "max_requests = 5", "idle_timeout = 3.5", 'name = "m"', 'path = "/p"':
            self.assertIn(line + "\n", done.stdout)
        again = self.with_file(done.stdout, "--print-config")
        self.assertEqual(again.stdout, done.stdout)

    def test_removed_flags_are_warnings(self):
        done = self.run_serve("--kv-reuse", "--cache-policy", "lru", "--print-config")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--kv-reuse was removed: only exact prefixes are reused", done.stderr)
        self.assertIn("--cache-policy was removed: the policy is returns", done.stderr)
        self.assertNotIn("kv_reuse", done.stdout)
        self.assertNotIn("--kv-reuse", self.run_serve("--help").stdout)
        self.assertNotIn("--kv-reuse", self.run_serve("--help-all").stdout)

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
                            ("[[keys]]\ntenant = 'a'\nrequests = 1\n", ("line 1", "no API key of tenant 'a'")),
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
        secret = {"REPRISE_API_KEYS": "a-secret-of-ours"}
        shown = self.run_serve("--print-config", **secret)
        self.assertNotIn("a-secret-of-ours", shown.stdout + shown.stderr)
        with serve("--log-level", "debug", variables=secret) as served:
            self.assertEqual(served.get("/v1/models").status, 401)
            self.assertEqual(served.get("/v1/models", key="a-secret-of-ours").status, 200)
            self.assertEqual(served.stop(), 0)
            logs = "".join(served.log)
            self.assertIn("path=/v1/models status=401", logs)
            self.assertNotIn("a-secret-of-ours", logs)

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
            with serve("--config", file.name) as served:
                for secret, status in [("ops", 200), ("acme", 403), ("nobody", 403)]:
                    self.assertEqual(served.get("/metrics", key="a-secret-of-" + secret).status, status)
                served.wait_until_ready()
                body = {"prompt": [1, 2], "n": 2, "max_tokens": 1}
                answer = served.post("/v1/completions", body, key="a-secret-of-nobody")
                self.assertEqual(answer.status, 400)
                self.assertEqual(answer.json()["error"]["code"], "too_many")

    def test_unknown_option(self):
        self.assertNotEqual(self.run_serve("--no-such-option").returncode, 0)

    def test_what_was_meant_is_suggested(self):
        for arguments, meant in [(["serv"], "`serve`"), (["sevre"], "`serve`"), (["generat", "--prompt", "x"], "`generate`"),
                                 (["serve", "--prot", "1"], "`--port`"), (["serve", "--modell=x"], "`--model`"),
                                 (["snapshot", "verfy"], "`verify`")]:
            failed = run(*arguments)
            self.assertEqual(failed.returncode, 2, arguments)
            self.assertIn("Did you mean " + meant, failed.stderr)
        for arguments, wrong in [(["serv"], "serv"), (["snapshot", "verfy", "x"], "verfy"), (["xylophone", "--help"], "xylophone")]:
            failed = run(*arguments)
            self.assertEqual(failed.returncode, 2, arguments)
            self.assertIn("There is no command `" + wrong + "`.", failed.stderr)
            self.assertNotIn("is required", failed.stderr)
        failed = run("xylophone")
        self.assertEqual(failed.returncode, 2)
        self.assertNotIn("Did you mean", failed.stderr)

    def test_experts_on_the_host_want_a_gpu_and_a_number(self):
        for value, reason in [("many", "--cpu-experts: 'many' is neither a number of layers nor all"),
                              ("-1", "--cpu-experts: '-1' is neither"),
                              ("3", "--cpu-experts: applies only to a GPU; the device is cpu")]:
            done = self.run_serve("--cpu-experts=" + value, "--device", "cpu", "--port", "0")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(reason, done.stderr)
            self.assertNotIn("listening", done.stderr)


class ModelsThatCannotBeLoaded(unittest.TestCase):
    def test_the_only_one_ends_the_server_with_the_reason(self):
        done = run("serve", "--port", "0", "--device", "cpu", "--model", "/nowhere/at/all")
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
            with serve("--config", config, model=None) as served:
                def settled():
                    cards = {card["id"]: card for card in served.get("/v1/models").json()["data"]}
                    return cards if all(card["state"] != "loading" for card in cards.values()) else None

                cards = wait_until(settled, "that both are loaded or not")
                self.assertEqual([cards["good"]["state"], cards["bad"]["state"]], ["ready", "failed"])
                self.assertNotIn("problem", cards["good"])
                self.assertIn("abacus", cards["bad"]["problem"])
                health = served.get("/health")
                self.assertEqual(health.status, 503)

                def complete(model):
                    return served.post("/v1/completions", {"model": model, "prompt": [1], "max_tokens": 1})

                answer = complete("bad")
                self.assertEqual(answer.status, 503)
                for text in cards["bad"]["problem"], health.data.decode(), answer.data.decode():
                    self.assertIn("abacus", text)
                    self.assertNotIn(folder, text)
                self.assertEqual(complete("good").status, 200)
                answer = complete("other")
                self.assertEqual(answer.status, 404)
                self.assertIn("served: good, bad", answer.json()["error"]["message"])
                self.assertEqual(served.stop(), 0)
                self.assertRegex("".join(served.log), rf" error model 'bad' cannot be used: {folder}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
