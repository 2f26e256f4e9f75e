#!/usr/bin/env python3
"""The commands of README.md and docs/quickstart.md, as they are printed. Usage: quickstart_test.py PROGRAM SOURCE_FOLDER

Blocks fenced as `sh` are run in their order; indented blocks are not (they install, or are parts of an output). A block fenced as
`text` is what the block before it prints. `reprise` is the program under test, and tools/serve starts it without building. A server
takes the place of the one before it. The environment gives it another port than 8080, the CPU, and our own hub instead of
Hugging Face's; in other commands the port is replaced.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from hub import Hub
from require import main, needs
from server import PATIENCE, Server, environment

PROGRAM, SOURCE = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
SERVES = re.compile(r"(tools/serve|reprise serve)\b")


def blocks(page):
    """(language, text) of each fenced block."""
    with open(os.path.join(SOURCE, page), encoding="utf-8") as file:
        return re.findall(r"^```(\w+)\n(.*?)^```$", file.read(), re.M | re.S)


HAS_CURL = shutil.which("curl") is not None


class Quickstart(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.hub = Hub()
        self.addCleanup(self.hub.server_close)
        self.addCleanup(self.hub.shutdown)
        model = os.path.join(SOURCE, "models", "builtin")
        self.files = {}
        for name in os.listdir(model):
            with open(os.path.join(model, name), "rb") as file:
                self.files[name] = file.read()
        for path in "bin", "tools":
            os.mkdir(os.path.join(self.folder, path))
        for path in "bin/reprise", "tools/serve":
            with open(os.path.join(self.folder, path), "w", encoding="utf-8") as script:
                script.write(f'#!/bin/sh\nexec "{PROGRAM}" {"serve " if "serve" in path else ""}"$@"\n')
            os.chmod(os.path.join(self.folder, path), 0o755)
        self.variables = {"PATH": os.path.join(self.folder, "bin") + os.pathsep + os.environ["PATH"],
                          "HOME": self.folder, "HF_ENDPOINT": self.hub.url, "REPRISE_ENGINE_DEVICE": "cpu",
                          "REPRISE_HTTP_PORT": "0", "REPRISE_MODELS": os.path.join(self.folder, "models"),
                          "REPRISE_BUILTIN_MODEL": model}
        self.server = None
        self.addCleanup(self.stop)

    def stop(self):
        server, self.server = self.server, None
        if server:
            server.__exit__()

    def serve(self, command):
        self.stop()
        self.server = Server("bash", "-e", "-c", "exec " + command, serve=(), variables=self.variables, cwd=self.folder)
        self.server.wait_until_ready()

    def run_block(self, text):
        """What it printed. The builtin model's dialogue is what somebody types into a chat."""
        if self.server:
            text = text.replace("127.0.0.1:8080", f"127.0.0.1:{self.server.port}")
        done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", text], input="My name is Ada.\nWhat is my name?\n",
                              capture_output=True, text=True, timeout=PATIENCE, env=environment(self.variables), cwd=self.folder)
        self.assertEqual(done.returncode, 0, f"{text}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def run_page(self, page):
        """What each block that is no server printed."""
        printed = []
        for language, text in blocks(page):
            if language == "text":
                self.assertEqual(printed[-1][1], text, f"{page}: {printed[-1][0]}")
            elif SERVES.match(text):
                self.assertEqual(len(text.splitlines()), 1, text)
                self.serve(text.strip())
            elif language == "sh":
                self.hub.files.update({name: self.files for name in re.findall(r"\breprise pull ([\w.-]+/[\w.-]+)", text)})
                printed.append((text, self.run_block(text)))
        return printed

    @needs("curl", HAS_CURL, "no curl in PATH")
    def test_readme(self):
        printed = self.run_page("README.md")
        self.assertTrue(any("restored_tokens" in out for _, out in printed))

    @needs("curl", HAS_CURL, "no curl in PATH")
    def test_quickstart(self):
        printed = dict(self.run_page("docs/quickstart.md"))
        out = {word: text for command, text in printed.items() for word in ("doctor", "chat --url", "pull", "inspect", "v1/models")
               if word in command}
        self.assertIn("model", out["doctor"])
        self.assertIn("Ada", out["chat --url"])
        self.assertIn("state per token", out["pull"])
        self.assertIn('"Qwen3.5-0.8B"', out["v1/models"])
        self.assertTrue(self.hub.requests)
        self.assertTrue(os.path.isdir(os.path.join(self.folder, "snapshots")))


if __name__ == "__main__":
    main()
