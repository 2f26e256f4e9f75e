"""How `reprise serve` is set and what it tells its operator: help, names, cache folder, log, metrics.
Usage: serve_cli_test.py PATH_TO_REPRISE MODEL, a small one without tokenizer"""

import json
import os
import re
import sys
import tempfile
import unittest

import server

PROGRAM = sys.argv.pop(1)
MODEL = sys.argv.pop(1)


def serve(*arguments, model=MODEL, **more):
    return server.Server(PROGRAM, *(["--model", model] if model else []), "--threads", "1", *arguments, **more)


def run(*arguments, **variables):
    return server.run(PROGRAM, *arguments, variables=variables)


class Help(unittest.TestCase):
    def test_common_options_come_first_and_all_are_named(self):
        short = run("serve", "--help").stdout
        full = run("serve", "--help-all").stdout
        options = re.findall(r"(?m)^  ((?:-{1,2}[\w-]+,?)+)", full)
        names = {name for names in options for name in names.split(",") if name}
        self.assertGreater(len(names), 60)
        for name in names:
            self.assertRegex(short, rf"(?<![\w-]){re.escape(name)}(?![\w-])")
        self.assertLess(short.index("--port"), short.index("Further options"))
        self.assertGreater(short.index("--cache-verify-percent"), short.index("Further options"))

    def test_values_have_types_ranges_and_defaults(self):
        full = run("serve", "--help-all").stdout
        self.assertNotRegex(full, r"\bTEXT\b")
        self.assertRegex(full, r"--port PORT \[8080\]\s+Port to listen on; 0: any that is free \(integer, 0 to 65535\)")
        for group in "Common options:", "HTTP server:", "API keys:", "Prefix cache in memory:":
            self.assertIn(group, full)

    def test_flags_of_llama_server(self):
        shown = run("serve", "-m", MODEL, "-c", "128", "-t", "1", "-np", "2", "-n", "7", "--print-config")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        for line in "context = 128", "threads = 1", "parallel = 2", "max_tokens = 7", f'path = "{MODEL}"':
            self.assertIn(line + "\n", shown.stdout)
        for flag in "-ngl", "--n-gpu-layers":
            refused = run("serve", flag, "99")
            self.assertEqual(refused.returncode, 2)
            self.assertIn(f"reprise: {flag}: ", refused.stderr)
            self.assertIn("--device cuda:0", refused.stderr)

    def test_printed_settings_are_explained(self):
        shown = run("serve", "--print-config").stdout.splitlines()
        for number, line in enumerate(shown):
            if re.match(r"\w+ = ", line) and not shown[number - 1].startswith("[["):
                self.assertRegex(shown[number - 1], r"^(# .+; default |name = )", line)

    def test_a_file_that_is_not_there_has_no_line(self):
        failed = run("serve", "--config", "/nope.toml")
        self.assertEqual(failed.returncode, 2)
        self.assertIn("/nope.toml: cannot be read: No such file or directory", failed.stderr)
        self.assertNotIn("line", failed.stderr)


class Operator(unittest.TestCase):
    def test_unknown_variables_are_told_and_those_of_kubernetes_are_not(self):
        variables = {"REPRISE_HTTP_PROT": "1", "REPRISE_PORT": "tcp://10.0.0.1:80", "REPRISE_SERVICE_HOST": "10.0.0.1"}
        with serve(variables=variables) as served:
            served.logged(r"warning REPRISE_HTTP_PROT: .*did you mean REPRISE_HTTP_PORT\?")
            self.assertEqual(served.stop(), 0)
            self.assertEqual(sum("REPRISE_" in line for line in served.log), 1, served.log)

    def test_log_lines_as_json(self):
        with serve("--log-format", "json", "--log-level", "debug") as served:
            served.wait_until_ready()
            served.ask("/v1/completions", prompt=[1, 2, 3], max_tokens=2, no_such_field=1)
            self.assertEqual(served.stop(), 0)
            lines = [json.loads(line) for line in served.log]
        for line in lines:
            self.assertGreaterEqual(line.keys(), {"time", "level", "message"})
        asked = next(line for line in lines if line.get("path") == "/v1/completions")
        self.assertEqual((asked["message"], asked["status"], asked["prompt_tokens"], asked["stream"]), ("request", 200, 3, False))
        self.assertEqual(asked["unknown_fields"], ["no_such_field"])

    def test_a_client_that_left_has_its_tokens_in_the_log(self):
        with serve() as served:
            served.wait_until_ready()
            body = json.dumps({"prompt": [1, 2, 3], "max_tokens": 100000, "ignore_eos": True, "stream": True,
                               "return_token_ids": True})
            with served.connect() as connection:
                connection.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                   f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
                seen = b""
                while seen.count(b"data: ") < 3:
                    received = connection.recv(4096)
                    self.assertTrue(received, seen)
                    seen += received
            served.logged(r"outcome=client_left .*prompt_tokens=3 completion_tokens=[1-9]\d* ")
            self.assertNotIn("first_token_ms", next(line for line in served.log if "client_left" in line))

    def test_metrics_of_process_and_model(self):
        with serve("--model-name", "tiny") as served:
            served.wait_until_ready()
            served.ask("/v1/completions", prompt=[1, 2, 3], max_tokens=4, ignore_eos=True)
            text = served.get("/metrics").data.decode()
        for pattern in (r'reprise_build_info\{build="[^"]+"\} 1', r"process_resident_memory_bytes [1-9]", r"reprise_uptime_seconds \d",
                        r"process_start_time_seconds 1", r"process_cpu_seconds_total ", r"process_open_fds [1-9]",
                        r'reprise_first_token_seconds_count\{model="tiny"\} 1',
                        r'reprise_inter_token_seconds_count\{model="tiny"\} 1',
                        r'reprise_queued_seconds_count\{model="tiny"\} 1'):
            self.assertRegex(text, rf"(?m)^{pattern}")

    def test_fields_out_of_range_are_named(self):
        with serve() as served:
            served.wait_until_ready()
            answer = served.post("/v1/completions", {"prompt": [1], "max_tokens": 1, "temperature": 9})
            self.assertEqual((answer.status, answer.json()["error"]["param"]), (400, "temperature"))
            self.assertIn("9 is not from 0 to 2", answer.json()["error"]["message"])

    def test_seed_of_the_server(self):
        with serve("--seed", "42", model=None) as served:
            served.wait_until_ready()
            seeds = [served.ask("/completion", prompt="Hi", n_predict=1, **body)["generation_settings"]["seed"] for body in ({}, {"seed": 7})]
            self.assertEqual(seeds, [42, 7])
            self.assertEqual(json.loads(served.get("/props").data)["default_generation_settings"]["params"]["seed"], 42)

    def test_seeds_in_answers_have_no_sign(self):
        with serve(model=None) as served:
            served.wait_until_ready()
            for seed in (-1, -5, None):
                body = {"prompt": "Hi", "n_predict": 1, **({} if seed is None else {"seed": seed})}
                self.assertGreaterEqual(served.ask("/completion", **body)["generation_settings"]["seed"], 0)


class CacheFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "cache")
        self.secret = ("--cache-secret-file", os.path.join(folder.name, "secret"))

    def test_one_that_cannot_be_made_ends_the_start(self):
        failed = run("serve", "--port", "0", "--device", "cpu", "--model", MODEL, "--cache-dir", "/dev/null/x", *self.secret)
        self.assertEqual(failed.returncode, 1)
        self.assertIn("--cache-dir: cannot make /dev/null/x: Not a directory", failed.stderr)
        self.assertNotIn("listening", failed.stderr)

    def test_one_that_cannot_be_written_is_warned_of_and_the_server_serves(self):
        with serve("--cache-dir", "/proc", *self.secret) as served:
            served.logged(r"warning cache folder '/proc': .*; its snapshots are used, new ones are not written")
            served.wait_until_ready()
            served.ask("/v1/completions", prompt=[1, 2, 3], max_tokens=1)
            self.assertEqual(served.stop(), 0)

    def test_the_log_says_what_is_there(self):
        with serve("--cache-dir", self.folder, *self.secret) as served:
            served.logged(rf"cache folder '{self.folder}': 0 snapshots, 0.0 KiB of 16.00 GiB")
            served.logged(rf"cache secret: created in {self.secret[1]}")
            self.assertEqual(served.stop(), 0)
        with serve("--cache-dir", self.folder, *self.secret) as served:
            self.assertEqual(served.stop(), 0)
            self.assertNotIn("cache secret: created", "".join(served.log))

    def test_commands_name_a_folder_that_is_not_there(self):
        for command in "ls", "verify", "gc":
            failed = run("snapshot", command, "--cache-dir", self.folder, *self.secret)
            self.assertEqual((failed.returncode, failed.stdout), (1, ""))
            self.assertIn(f"{self.folder}: No such file or directory", failed.stderr)
            self.assertFalse(os.path.exists(self.secret[1]))


class Aliases(unittest.TestCase):
    BODIES = {"/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1},
              "/v1/messages": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1},
              "/v1/messages/count_tokens": {"messages": [{"role": "user", "content": "Hi"}]},
              "/v1/responses": {"input": "Hi", "max_output_tokens": 1, "store": False},
              "/api/chat": {"messages": [{"role": "user", "content": "Hi"}], "stream": False, "options": {"num_predict": 1}}}

    def statuses(self, served, name):
        return {path: served.post(path, {"model": name, **body}).status for path, body in self.BODIES.items()}

    def test_they_work_alike_in_all_apis(self):
        with serve(model=None) as served:
            served.wait_until_ready()
            for name in "gpt-5", "claude-sonnet-4-5", "codex-mini":
                self.assertEqual(set(self.statuses(served, name).values()), {200}, name)
            self.assertEqual(set(self.statuses(served, "gpt").values()), {404})
            self.assertIn("gpt-*", served.get("/v1/models").json()["data"][0]["aliases"])
        with serve("--aliases", "mine-*", model=None) as served:
            served.wait_until_ready()
            self.assertEqual(set(self.statuses(served, "mine-1").values()), {200})
            self.assertEqual(set(self.statuses(served, "claude-sonnet-4-5").values()), {404})


if __name__ == "__main__":
    unittest.main(verbosity=2)
