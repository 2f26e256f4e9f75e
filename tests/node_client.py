"""What tests in Node need of Python: their npm packages, and a server that is started and stopped."""

import json
import re
import shutil
import subprocess
import sys
import threading


def install(source, folder):
    """The package.json and the scripts of `source` into `folder`, with the packages, where they are not there."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in source / "package.json", *source.glob("*.mjs"):
        shutil.copy(path, folder / path.name)
    packages = json.loads((source / "package.json").read_text())["dependencies"]
    if not all((folder / "node_modules" / name).exists() for name in packages):
        command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)


class Server:
    """One that says "listening on URL" on stderr: with Server(COMMAND) as url."""

    def __init__(self, command):
        self.command = [str(word) for word in command]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"listening on (http://\S+)", line):
                # Whoever writes to a pipe that nobody reads waits for ever.
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return found.group(1)
        sys.exit(f"{self.command[0]}: ended before it listened")

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self.process.kill()
