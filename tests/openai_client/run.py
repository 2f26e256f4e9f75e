#!/usr/bin/env python3
"""Runs the official clients for Node (OpenAI's, Anthropic's) against a server that this starts and stops.
usage: run.py FOLDER [--scripted] SERVER [ARGUMENT]...     FOLDER takes the npm packages; SERVER says "listening on URL" """

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import node_client  # noqa: E402
from server import Server  # noqa: E402


def main():
    arguments = sys.argv[1:]
    folder = Path(arguments.pop(0)).resolve()
    scripted = ["--scripted"] if arguments[0] == "--scripted" else []
    node_client.install(HERE, folder)
    failed = 0
    with Server(*arguments[len(scripted):], serve=()) as server:
        for script in sorted(HERE.glob("*.mjs")):
            print(f"-- {script.name}", flush=True)
            command = ["node", script.name, server.url + "/", *scripted]
            failed |= subprocess.run(command, cwd=folder, timeout=300).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
