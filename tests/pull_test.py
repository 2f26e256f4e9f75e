#!/usr/bin/env python3
"""`reprise pull` and --model hf:… against a small hub on this machine. Usage: pull_test.py PROGRAM MODEL_FOLDER"""

import os
import sys
import tempfile
import unittest

from hub import TOKEN, Hub
from server import run

PROGRAM, MODEL = sys.argv.pop(1), sys.argv.pop(1)


class Pull(unittest.TestCase):
    def setUp(self):
        self.hub = Hub()
        self.addCleanup(self.hub.server_close)
        self.addCleanup(self.hub.shutdown)
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        names = [name for name in os.listdir(MODEL) if name.endswith((".json", ".safetensors"))]
        self.model = {name: open(os.path.join(MODEL, name), "rb").read() for name in names}
        self.large = os.urandom(300_000)
        self.hub.files = {"acme/tiny": {**self.model, "README.md": b"words", "onnx/model.onnx": b"other"},
                          "acme/quants": {"a-Q4_K_M.gguf": self.large, "a-Q8_0.gguf": b"8" * 1000,
                                          "b-00001-of-00002.gguf": b"1" * 10, "b-00002-of-00002.gguf": b"2" * 20}}

    def run_program(self, *arguments, token=None):
        token = {"HF_TOKEN": token} if token else {}
        return run(PROGRAM, *arguments, variables={"HF_ENDPOINT": self.hub.url, "REPRISE_MODELS": self.folder.name, **token})

    def path(self, *parts):
        return os.path.join(self.folder.name, *parts)

    def read(self, *parts):
        with open(self.path(*parts), "rb") as file:
            return file.read()

    def test_a_folder(self):
        done = self.run_program("pull", "acme/tiny")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.strip(), self.path("acme", "tiny"))
        self.assertEqual(done.stderr, "")  # bars are for terminals
        for name, data in self.model.items():
            self.assertEqual(self.read("acme", "tiny", name), data)
        self.assertEqual({name for name in os.listdir(self.path("acme", "tiny")) if not name.startswith(".")},
                         set(self.model))
        asked = len(self.hub.requests)
        again = self.run_program("pull", "acme/tiny")
        self.assertEqual((again.returncode, again.stdout), (0, done.stdout))
        self.assertEqual(len(self.hub.requests), asked)  # what is there is not asked for

    def test_a_model_of_the_hub_is_a_model(self):
        done = self.run_program("logits", "--device", "cpu", "--model", "hf:acme/tiny", "--tokens", "1 2 3", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        here = self.run_program("logits", "--device", "cpu", "--model", MODEL, "--tokens", "1 2 3", "--json")
        self.assertEqual(done.stdout, here.stdout)
        shown = self.run_program("serve", "--model", "hf:acme/tiny", "--print-config")
        self.assertIn('name = "tiny"', shown.stdout)

    def test_one_file_by_its_name_or_a_word_of_it(self):
        for wanted in "acme/quants:a-Q4_K_M.gguf", "acme/quants:q4_k_m", "hf:acme/quants:Q4_K_M":
            done = self.run_program("pull", wanted)
            self.assertEqual(done.stdout.strip(), self.path("acme", "quants", "a-Q4_K_M.gguf"), done.stderr)
        self.assertEqual(self.read("acme", "quants", "a-Q4_K_M.gguf"), self.large)
        self.assertFalse(os.path.exists(self.path("acme", "quants", "a-Q8_0.gguf")))
        done = self.run_program("pull", "acme/quants:b-00001-of-00002.gguf")
        self.assertEqual(done.stdout.strip(), self.path("acme", "quants", "b-00001-of-00002.gguf"), done.stderr)
        self.assertEqual(self.read("acme", "quants", "b-00002-of-00002.gguf"), b"2" * 20)

    def test_a_choice_that_is_not_clear_lists_what_there_is(self):
        for wanted in "acme/quants", "acme/quants:a", "acme/quants:nothing":
            done = self.run_program("pull", wanted)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("a-Q8_0.gguf", done.stderr)

    def test_a_broken_connection_goes_on_where_it_was(self):
        self.hub.break_after = 100_000
        done = self.run_program("pull", "acme/quants:Q4_K_M")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.read("acme", "quants", "a-Q4_K_M.gguf"), self.large)
        ranges = [headers.get("Range") for path, headers in self.hub.requests if "/resolve/" in path]
        self.assertEqual(ranges, [None, "bytes=100000-"])

    def test_a_part_of_an_earlier_pull_is_used(self):
        os.makedirs(self.path("acme", "quants"))
        for ignores_range, begin in (False, "bytes=200000-"), (True, "bytes=200000-"):
            self.hub.ignores_range = ignores_range
            with open(self.path("acme", "quants", "a-Q4_K_M.gguf.part"), "wb") as file:
                file.write(self.large[:200_000])
            self.hub.requests.clear()
            done = self.run_program("pull", "acme/quants:Q4_K_M")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.read("acme", "quants", "a-Q4_K_M.gguf"), self.large)
            self.assertEqual(self.hub.requests[-1][1].get("Range"), begin)
            self.assertFalse(os.path.exists(self.path("acme", "quants", "a-Q4_K_M.gguf.part")))
            os.remove(self.path("acme", "quants", "a-Q4_K_M.gguf"))

    def test_a_wrong_checksum_leaves_nothing(self):
        self.hub.wrong_bytes = True
        done = self.run_program("pull", "acme/quants:Q4_K_M")
        self.assertEqual(done.returncode, 1)
        self.assertIn("checksum", done.stderr)
        self.assertFalse(os.path.exists(self.path("acme", "quants", "a-Q4_K_M.gguf")))
        self.hub.wrong_bytes = False
        self.assertEqual(self.run_program("pull", "acme/quants:Q4_K_M").returncode, 0)
        self.assertEqual(self.read("acme", "quants", "a-Q4_K_M.gguf"), self.large)

    def test_names_from_the_hub_do_not_leave_the_folder(self):
        evil = ["../evil.gguf", "/tmp/evil.gguf", "a/../../evil.gguf", ".hidden.gguf", "a\\b.gguf", "a\nb.gguf", "x" * 300 + ".gguf"]
        self.hub.extra = [{"type": "file", "path": path, "size": 4} for path in evil] + [7, {"type": "file"}]
        self.hub.files["acme/one"] = {"good.gguf": b"good"}
        done = self.run_program("pull", "acme/one")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.strip(), self.path("acme", "one", "good.gguf"))
        for wrong in "acme/../etc", "acme", "../x/y", "acme/one:../x", "acme/one:", "a b/c", "acme/one:/etc/passwd":
            self.assertEqual(self.run_program("pull", wrong).returncode, 2, wrong)

    def test_a_file_that_is_longer_than_listed_is_refused(self):
        listed = self.hub.files["acme/quants"]
        self.hub.extra = [{"type": "file", "path": "long.gguf", "size": 5}]
        listed_before = dict(listed)

        class Longer(dict):
            def items(self):
                return listed_before.items()
        self.hub.files["acme/quants"] = Longer({**listed, "long.gguf": b"123456789"})
        done = self.run_program("pull", "acme/quants:long.gguf")
        self.assertEqual(done.returncode, 1)
        self.assertIn("longer than", done.stderr)

    def test_a_token_opens_what_is_private_and_goes_nowhere_else(self):
        other = Hub()
        self.addCleanup(other.server_close)
        self.addCleanup(other.shutdown)
        other.files = self.hub.files
        self.hub.private = True
        self.hub.elsewhere = other.url.replace("127.0.0.1", "localhost")
        refused = self.run_program("pull", "acme/quants:Q4_K_M")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("HF_TOKEN", refused.stderr)
        done = self.run_program("pull", "acme/quants:Q4_K_M", token=TOKEN)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotEqual(other.requests, [])
        for _, headers in other.requests:
            self.assertNotIn("Authorization", headers)
        self.assertNotIn(TOKEN, done.stdout + done.stderr)

    def test_what_is_not_there_is_told(self):
        done = self.run_program("pull", "acme/nothing")
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no such model", done.stderr)

    def test_another_revision_lies_beside_it(self):
        done = self.run_program("pull", "acme/quants:Q8_0", "--revision", "v2")
        self.assertEqual(done.stdout.strip(), self.path("acme", "quants@v2", "a-Q8_0.gguf"), done.stderr)
        self.assertIn("/resolve/v2/", self.hub.requests[-1][0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
