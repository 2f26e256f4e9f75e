#!/usr/bin/env python3
"""`reprise snapshot` from outside, on a folder that a server wrote: ls, verify, export, import.

usage: snapshot_command_test.py PATH_TO_REPRISE MODEL, a small one
"""

import json
import os
import pathlib
import sys
import tempfile
import unittest

from server import Server, run, wait_until

PROGRAM = sys.argv.pop(1)
MODEL = sys.argv.pop(1)
PROMPT = [(7 * i) % 400 + 3 for i in range(200)]


def serve(folder, secret, *more):
    return Server(PROGRAM, "--model", MODEL, "--threads", "1", "--state-mb", "64", "--cache-dir", folder,
                  "--cache-secret-file", secret, "--cache-even-if-slower", *more).wait_until_ready()


def ask(server):
    return server.ask("/v1/completions", prompt=PROMPT, max_tokens=2, temperature=0, ignore_eos=True, logprobs=1)


def is_stored(server):
    figures = server.figures()
    return figures["tier_stored_total"] >= 1 and figures["tier_waiting"] == 0


class SnapshotCommandTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        folder = cls.temporary.name
        cls.from_folder, cls.from_secret = os.path.join(folder, "from"), os.path.join(folder, "from.secret")
        with serve(cls.from_folder, cls.from_secret) as server:
            cls.answer = ask(server)["choices"]
            wait_until(lambda: is_stored(server), "that something is written")
            server.stop()

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def run_command(self, command, *arguments, folder=None, secret=None):
        done = run(PROGRAM, "snapshot", command, "--cache-dir", folder or self.from_folder, "--cache-secret-file",
                   secret or self.from_secret, *arguments)
        return done.returncode, done.stdout, done.stderr

    def other(self, name):
        """A folder of its own with a secret of its own."""
        secret = os.path.join(self.temporary.name, name + ".secret")
        with open(os.open(secret, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write("a secret of another folder: " + name)
        return os.path.join(self.temporary.name, name), secret

    def snapshots(self, folder=None, secret=None):
        code, out, _ = self.run_command("ls", "--json", folder=folder, secret=secret)
        self.assertEqual(code, 0)
        return [json.loads(line) for line in out.splitlines()]

    def test_lists_and_verifies_what_was_written_packed(self):
        listed = self.snapshots()
        self.assertTrue(any(one["tokens"] >= 199 for one in listed), listed)
        code, out, _ = self.run_command("verify", "--recompute", "--model", MODEL, "--device", "cpu")
        self.assertEqual(code, 0, out)
        self.assertIn(f"{len(listed)} snapshots valid, 0 not", out)
        self.assertIn("0 of them were not recomputed", out)

    def test_another_secret_opens_nothing(self):
        _, secret = self.other("nobody")
        code, out, _ = self.run_command("verify", secret=secret)
        self.assertEqual(code, 1)
        self.assertIn("seal", out)

    def test_what_is_for_everybody_is_computed_anew_first(self):
        folder, secret = self.other("everybody")
        from_there = ["--from", self.from_folder, "--with-secret-file", self.from_secret]
        code, _, error = self.run_command("import", *from_there, folder=folder, secret=secret)
        self.assertNotEqual(code, 0)
        self.assertIn("--recompute", error)
        self.assertFalse(os.path.exists(folder), "nothing was made")
        code, out, error = self.run_command("import", *from_there, "--recompute", "--model", MODEL, "--device", "cpu",
                                            folder=folder, secret=secret)
        self.assertEqual(code, 0, error)
        self.assertEqual(len(self.snapshots(folder, secret)), len(self.snapshots()))
        with serve(folder, secret) as server:
            answer = ask(server)
            self.assertEqual(answer["reprise"]["restored_tier"], "disk")
            self.assertEqual(answer["choices"], self.answer)

    def test_what_cannot_be_computed_anew_stays_out(self):
        folder, secret = self.other("refused")
        code, out, error = self.run_command(
            "import", "--from", self.from_folder, "--with-secret-file", self.from_secret, "--recompute", "--model", MODEL,
            "--device", "cpu", "--compute", "f32", "--kv-dtype", "f32", folder=folder, secret=secret)
        self.assertEqual(code, 1)
        self.assertIn("0 snapshots copied", out)
        self.assertIn("cannot be recomputed here", error)
        self.assertEqual(self.snapshots(folder, secret), [])

    def test_a_tenant_may_trust_them(self):
        folder, secret = self.other("tenant")
        code, _, error = self.run_command("import", "--from", self.from_folder, "--with-secret-file", self.from_secret,
                                          "--tenant", "ada", folder=folder, secret=secret)
        self.assertEqual(code, 0, error)
        listed = self.snapshots(folder, secret)
        self.assertTrue(listed and all("ada" in one["namespace"] for one in listed), listed)
        exported, exported_secret = self.other("exported")
        code, out, error = self.run_command("export", "--to", exported, "--with-secret-file", exported_secret, folder=folder,
                                            secret=secret)
        self.assertEqual(code, 0, error)
        self.assertEqual(len(self.snapshots(exported, exported_secret)), len(listed))


class GoldenFilesTest(unittest.TestCase):
    """Those of tests/data/snapshots: today's version is whole, earlier ones are named."""

    FILES = pathlib.Path(__file__).resolve().parent / "data" / "snapshots"
    EARLIER, TODAY = ("v1",), "v2"

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)

    def run_command(self, command, version, name, *arguments):
        secret = pathlib.Path(self.temporary.name) / "secret"
        secret.write_text((self.FILES / {"folder": "secret", "export": "export.secret"}[name]).read_text())
        secret.chmod(0o600)
        done = run(PROGRAM, "snapshot", command, "--cache-dir", self.FILES / version / name, "--cache-secret-file", secret,
                   *arguments)
        return done.returncode, done.stdout, done.stderr

    def test_of_today(self):
        for name, slot in ("folder", (4 << 20) - 3096), ("export", 600):
            code, out, error = self.run_command("verify", self.TODAY, name)
            self.assertEqual((code, out, error), (0, "1 snapshots valid, 0 not\n", ""))
            code, out, _ = self.run_command("ls", self.TODAY, name, "--json")
            listed = json.loads(out)
            self.assertEqual(code, 0)
            self.assertEqual({key: listed[key] for key in ("namespace", "model", "arithmetic", "tokens", "origin", "bytes")},
                             {"namespace": "1 anna", "model": "0123456789abcdef", "arithmetic": "00000000000b111d",
                              "tokens": 150, "origin": "prompt_end", "bytes": 3 * 256 + slot})

    def test_of_earlier_versions(self):
        for version in self.EARLIER:
            for name in "folder", "export":
                code, out, _ = self.run_command("verify", version, name)
                self.assertEqual(code, 1)
                self.assertIn(f"version: it has the unknown version {version[1:]}\n0 snapshots valid, 1 not\n", out)
                code, out, error = self.run_command("ls", version, name)
                self.assertEqual((code, out), (0, ""))
                self.assertIn("version: it has the unknown version", error)


if __name__ == "__main__":
    unittest.main()
