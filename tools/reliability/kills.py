#!/usr/bin/env python3
"""A server that is killed again and again while it writes snapshots: every answer must be that of a cold run.

usage: tools/chaos --kills N [--seed 1] [--build DIR] [--device cpu|cpu-grid] [--model DIR] [--disk-mb 64]

Starts `reprise serve --cache-dir` on one folder, lets eight clients go on with conversations at once, and kills the server with
SIGKILL at a random moment; N times. Some of them write snapshots packed. In the first half `reprise snapshot verify` checks the
folder after each kill; in the second, files are damaged every so often while the server is down: cut, bits flipped, swapped,
replaced. Answers are compared, tokens and log-probabilities, with those of a server without a cache. A
summary on stdout; exit status 0 only if there was no wrong answer, no folder that was not whole and no failed start, and something
was restored from disk.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLIENTS, TURN = 8, 24
GONE = (urllib.error.URLError, ConnectionError, OSError, json.JSONDecodeError, ValueError)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", default=os.path.join(ROOT, "tests/data/models/qwen3_5_text"))
    parser.add_argument("--disk-mb", type=int, default=64)
    return parser.parse_args()


class Server:
    def __init__(self, options, folder, cache):
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        listener.close()
        command = [os.path.join(options.build, "reprise"), "serve", "--model", options.model, "--device", options.device,
                   "--port", str(self.port), "--threads", "1", "--cache-even-if-slower", "--log-level", "warning"]
        command += ["--cache-dir", cache, "--cache-disk-mb", str(options.disk_mb), "--cache-secret-file",
                    os.path.join(folder, "secret")] if cache else ["--no-cache"]
        self.log = open(os.path.join(folder, "server.log"), "ab")
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.log)

    def starts(self):
        deadline = time.time() + 60
        while time.time() < deadline and self.process.poll() is None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=1)
                return True
            except GONE:
                time.sleep(.02)
        return False

    def ask(self, prompt):
        body = json.dumps({"prompt": prompt, "max_tokens": 6, "temperature": 0, "ignore_eos": True, "logprobs": 1,
                           "return_token_ids": True}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/completions", data=body,
                                         headers={"Content-Type": "application/json"})
        answer = json.load(urllib.request.urlopen(request, timeout=60))
        choice = answer["choices"][0]
        return (choice["token_ids"], choice["logprobs"]["token_logprobs"]), answer["reprise"]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()


def damage(rng, cache):
    """Damages some of the files, as a broken disk, an operator or an attacker might."""
    files = [os.path.join(place, name) for place, _, names in os.walk(cache) for name in names if name[0] in "mc"]
    for path in rng.sample(files, len(files) // 10):
        with open(path, "rb") as file:
            data = bytearray(file.read())
        blow = rng.randrange(4)
        if blow == 0:
            data = data[:rng.randrange(len(data) + 1)]
        elif blow == 1 and data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif blow == 2:
            others = [file for file in files if file != path]
            if others:
                shutil.copyfile(rng.choice(others), path)
            continue
        else:
            data = bytearray(rng.randbytes(rng.randrange(1, 4096)))
        with open(path, "wb") as file:
            file.write(data)


class Conversations:
    """Conversations that grow by their answers, and all answers, for comparison with cold ones."""

    def __init__(self, rng):
        self.rng = rng
        self.open, self.answers = [], {}

    def next(self):
        if not self.open or self.rng.random() < .2:
            return [self.rng.randrange(3, 500) for _ in range(self.rng.randrange(100, 700))]
        base = self.rng.choice(self.open)
        if self.rng.random() < .2:  # branch off in the middle
            base = base[:self.rng.randrange(len(base) // 2, len(base))]
        return base + [self.rng.randrange(3, 500) for _ in range(TURN)]

    def answered(self, prompt, answer):
        self.answers[tuple(prompt)] = answer
        if len(prompt) < 1500:
            self.open = (self.open + [prompt + answer[0]])[-24:]


def main():
    options = parse()
    rng = random.Random(options.seed)
    folder = tempfile.mkdtemp(prefix="reprise-kills-")
    cache = os.path.join(folder, "cache")
    talk, counts, tiers, began = Conversations(rng), collections.Counter(), collections.Counter(), time.time()
    reference = Server(options, folder, None)
    if not reference.starts():
        sys.exit("the server without a cache does not start: see " + folder)
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
        for kill in range(options.kills):
            server = Server(options, folder, cache)
            counts["starts"] += 1
            if not server.starts():
                counts["failed starts"] += 1
                server.kill()
                continue
            end = time.time() + rng.random() * 1.5
            running = {}
            while time.time() < end:
                while len(running) < CLIENTS:
                    prompt = talk.next()
                    running[clients.submit(server.ask, prompt)] = prompt
                done, _ = concurrent.futures.wait(running, timeout=max(0, end - time.time()),
                                                  return_when=concurrent.futures.FIRST_COMPLETED)
                for one in done:
                    take(one, running.pop(one), talk, counts, tiers)
            server.kill()
            for one in list(running):
                take(one, running.pop(one), talk, counts, tiers)
            if kill < options.kills // 2:
                counts["not whole"] += not is_whole(options, folder, cache)
            elif kill % 10 == 9:
                damage(rng, cache)
                counts["times damaged"] += 1
        for prompt, answer in talk.answers.items():
            cold, _ = reference.ask(list(prompt))
            counts["wrong answers"] += cold != answer
    reference.kill()
    print(f"{counts['starts']} starts, {counts['failed starts']} failed; {counts['answers']} answers, {counts['cut off']} cut off; "
          f"{len(talk.answers)} compared with cold ones, {counts['wrong answers']} wrong; restored from {dict(tiers)}; "
          f"folders not whole after a kill {counts['not whole']} of {options.kills // 2}; "
          f"files damaged {counts['times damaged']} times; {time.time() - began:.0f} s")
    good = not counts["wrong answers"] and not counts["not whole"] and not counts["failed starts"] and tiers["disk"] > 0
    if good:
        shutil.rmtree(folder)
    else:
        print("logs and files are in " + folder)
    sys.exit(not good)


def is_whole(options, folder, cache):
    checked = subprocess.run([os.path.join(options.build, "reprise"), "snapshot", "verify", "--cache-dir", cache,
                              "--cache-secret-file", os.path.join(folder, "secret")], capture_output=True, text=True)
    if checked.returncode != 0:
        print(checked.stdout + checked.stderr, file=sys.stderr)
    return checked.returncode == 0


def take(future, prompt, talk, counts, tiers):
    try:
        answer, about = future.result()
    except GONE:
        counts["cut off"] += 1
        return
    counts["answers"] += 1
    tiers[about["restored_tier"] or "nothing"] += 1
    talk.answered(prompt, answer)


if __name__ == "__main__":
    main()
