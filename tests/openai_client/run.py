#!/usr/bin/env python3
"""Runs the official clients for Node (OpenAI's, Anthropic's) against a server that this starts and stops.
usage: run.py FOLDER [--scripted] SERVER [ARGUMENT]...     FOLDER takes the npm packages; SERVER says "listening on URL" """

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPTS = sorted(HERE.glob("*.mjs"))


def install(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for path in HERE / "package.json", *SCRIPTS:
        shutil.copy(path, folder / path.name)
    packages = json.loads((HERE / "package.json").read_text())["dependencies"]
    if not all((folder / "node_modules" / name).exists() for name in packages):
        command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)


def main():
    arguments = sys.argv[1:]
    folder = Path(arguments.pop(0)).resolve()
    scripted = ["--scripted"] if arguments[0] == "--scripted" else []
    install(folder)
    server = subprocess.Popen(arguments[len(scripted):], stderr=subprocess.PIPE, text=True)
    try:
        for line in server.stderr:
            if found := re.search(r"listening on (http://\S+)", line):
                break
        else:
            sys.exit("the server ended before it listened")
        failed = 0
        for script in SCRIPTS:
            print(f"-- {script.name}", flush=True)
            command = ["node", script.name, found.group(1), *scripted]
            failed |= subprocess.run(command, cwd=folder, timeout=300).returncode
        return failed
    finally:
        server.terminate()
        try:
            server.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            server.kill()


if __name__ == "__main__":
    sys.exit(main())
