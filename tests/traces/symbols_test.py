"""A program has Tracy's symbols where it was built with Tracy, and none of them elsewhere.

Usage: symbols_test.py NM PROGRAM with|without
"""
import subprocess
import sys

nm, program, expected = sys.argv[1:]
done = subprocess.run([nm, program], capture_output=True, text=True)
symbols = done.stdout.splitlines()
if done.returncode != 0 or not any("main" in symbol for symbol in symbols):
    sys.exit(f"{nm} {program} shows no symbols: {done.stderr}")
found = [symbol for symbol in symbols if "tracy" in symbol.lower()]
if bool(found) != (expected == "with"):
    sys.exit(f"built {expected} Tracy, but {program} has {len(found)} symbols of it: {found[:5]}")
print(f"{len(symbols)} symbols, {len(found)} of Tracy")
