#!/usr/bin/env python3
"""Runs the web page in Chromium, against servers that this starts and stops.
usage: run.py FOLDER FIXTURE REPRISE [--screenshots DIR]

FOLDER takes the npm packages, FIXTURE is the scripted server (tests/protocol/http_fixture), REPRISE the program.
--screenshots writes the pictures of docs/page instead of testing."""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import node_client  # noqa: E402
from page.staged import Staged  # noqa: E402
from server import Server  # noqa: E402

KEY = "page-test-key"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("fixture", type=Path)
    parser.add_argument("reprise", type=Path)
    parser.add_argument("--screenshots", type=Path)
    options = parser.parse_args()
    chromium = os.environ.get("REPRISE_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("tests/page/run.py: there is no chromium; REPRISE_CHROMIUM may name one")
    folder = options.folder.resolve()
    node_client.install(HERE, folder)
    with Server(options.reprise) as real, Server(options.fixture, serve=()) as scripted, \
            Server(options.fixture, "--key", KEY, serve=()) as locked, Staged() as staged:
        environment = os.environ | {"CHROMIUM": chromium, "KEY": KEY, "REAL": real.url, "SCRIPTED": scripted.url, "STAGED": staged.url,
                                    "LOCKED": locked.url}
        if options.screenshots:
            options.screenshots.mkdir(parents=True, exist_ok=True)
            command = ["node", "screenshots.mjs", str(options.screenshots.resolve())]
        else:
            command = ["node", "test.mjs"]
        return subprocess.run(command, cwd=folder, env=environment, timeout=600).returncode


if __name__ == "__main__":
    sys.exit(main())
