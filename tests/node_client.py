"""What tests in Node need of Python: their npm packages."""

import json
import shutil
import subprocess
import sys


def install(source, folder):
    """The package.json and the scripts of `source` into `folder`, with the packages, where they are not there."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in source / "package.json", *source.glob("*.mjs"):
        shutil.copy(path, folder / path.name)
    packages = json.loads((source / "package.json").read_text())["dependencies"]
    if not all((folder / "node_modules" / name).exists() for name in packages):
        command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr, timeout=600)
