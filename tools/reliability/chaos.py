#!/usr/bin/env python3
"""Everything at once against one server, for as long as you like; then it must be as if nothing had been.

usage: tools/chaos [--minutes 2] [--seed 1] [--streams 256] [--build DIR] [--device cpu|cpu-grid] [--state-mb 24] [--report FILE]

Clients that are good, vanish, stall, close half, flood, send junk and reconnect, of three tenants that fight for a small state
memory; models that fault, hang, crash and are unloaded and loaded again; blocks of memory and large allocations refused at
random; a process that is stopped and a wall clock that jumps. Every hit of the cache is computed again cold and compared.

Then peace: the server must come to rest, answer a sample of all questions cold as it answered them in the storm, and with its
models unloaded hold no sequence, suspended handler, lease, flight, pin, snapshot, block, thread or descriptor, in no more memory
than before. A summary in Markdown on stdout; exit status 0 only if there is nothing to find fault with.
"""
import argparse
import asyncio
import collections
import os
import shlex
import sys
import tempfile
import time

from chaos_answers import Answers, tokens_of
from chaos_clients import Crowd
from chaos_process import Server
from chaos_faults import FaultSchedule
from chaos_wire import ask

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = {"ids": "tests/data/models/qwen3_5_text", "talk": "models/builtin"}
KEYS = {"key-of-anna": "anna", "key-of-bert": "bert", "key-of-cleo": "cleo"}
HELD = ["reprise_sequences", "reprise_requests_waiting", "reprise_requests_running", "reprise_cache_leases",
        "reprise_cache_flights", "reprise_cache_pinned"]
MIB = 1 << 20
# Bound of resident memory at the end, with the models loaded, relative to that after a sixth of the run.
MEMORY_GROWTH, MEMORY_SLACK = 1.25, 64 * MIB
WARM = 200  # questions repeated twice with the cache
SETTLING = 180  # seconds within which the server must become idle


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--streams", type=int, default=256, help="clients at once")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="where reprise_chaos_server was built")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--state-mb", type=int, default=24)
    parser.add_argument("--pause", type=float, default=3, help="seconds between two faults, on average")
    parser.add_argument("--cold", type=int, default=2000, help="answers compared with cold ones, at most")
    parser.add_argument("--no-fake-clock", action="store_true", help="leave the wall clock alone")
    parser.add_argument("--heap", action="store_true",
                        help="refuse large allocations of the heap too, which the server does not survive in every case yet")
    parser.add_argument("--report", help="write the summary to a file as well")
    return parser.parse_args()


class Chaos:
    def __init__(self, options, folder):
        self.options = options
        self.log = open(os.path.join(folder, "server.log"), "wb")
        command = [os.path.join(options.build, "tools/reliability/reprise_chaos_server"), "--state-mb",
                   str(options.state_mb), "--device", options.device]
        for name, path in MODELS.items():
            command += ["--model", f"{name}={os.path.join(ROOT, path)}"]
        for key, tenant in KEYS.items():
            command += ["--key", f"{key} {tenant}"]
        self.server = Server(command, folder, self.log, not options.no_fake_clock)
        self.answers, self.counts = Answers(), collections.Counter()
        self.findings = collections.Counter()
        self.resident = []  # (seconds since the start, bytes)
        self.rows = []

    def find(self, text):
        self.findings[text] += 1

    async def state(self):
        state = await self.server.tell("state")
        if state is None:
            raise RuntimeError("the server does not answer any more")
        return state

    # -- phases

    async def storm(self):
        options = self.options
        begin = time.monotonic()
        until = begin + options.minutes * 60
        crowd = Crowd(self.server.port, list(KEYS), self.answers, self.counts, options.seed)
        faults = FaultSchedule(self.server, list(MODELS), self.counts, options.seed + 1, options.pause, options.heap)
        clients = [asyncio.create_task(crowd.behave()) for _ in range(options.streams)]
        injecting = asyncio.create_task(faults.run(until))
        while time.monotonic() < until and self.server.alive():
            await asyncio.sleep(5)
            self.resident.append((time.monotonic() - begin, (await self.state())["resident_bytes"]))
        await injecting
        crowd.ending = True
        _, late = await asyncio.wait(clients, timeout=SETTLING + 120)
        if late:
            self.find(f"{len(late)} clients had no answer minutes after the storm")
            for client in late:
                client.cancel()
        for client in clients:
            if client.done() and not client.cancelled() and client.exception():
                self.find(f"a client failed: {client.exception()!r}")
        for text in crowd.findings + faults.findings:
            self.find(text)

    async def rest(self):
        """Waits until nothing is held for a request; idle work and verification may still run."""
        until = time.monotonic() + SETTLING
        while True:
            state = await self.state()
            left = {name: state["figures"].get(name, 0) for name in HELD if state["figures"].get(name, 0)}
            left.update({name: state[name] for name in ("requests", "suspended_handlers") if state[name]})
            if not left and state["ready"]:
                return state
            if time.monotonic() > until:
                self.find(f"left behind: {left}, ready {state['ready']} {state['detail']}")
                return state
            await asyncio.sleep(0.5)

    async def compare(self):
        """Asks without the cache, a few at a time, without faults."""
        questions = self.answers.sample(self.options.cold, self.options.seed)
        gate = asyncio.Semaphore(8)
        compared = 0

        async def one(question, answer):
            nonlocal compared
            path, body = question
            async with gate:
                for _ in range(20):
                    wish = dict(body, cache_prompt=False) if path.startswith("/v1/") else body
                    status, cold = await ask(self.server.port, "POST", path, wish, next(iter(KEYS)))
                    if status not in (429, 503):
                        break
                    await asyncio.sleep(0.5)
            if status != 200:
                self.find(f"a cold question got {status}: {str(cold)[:200]}")
            elif (tokens_of(cold["choices"]) if path.startswith("/v1/") else cold) != answer:
                self.find(f"not the cold answer: {path} {str(body)[:300]}")
            else:
                compared += 1

        await asyncio.gather(*(one(question, answer) for question, answer in questions))
        self.rows.append(("answers in the storm", self.answers.total()))
        self.rows.append(("questions that differ", len(self.answers.known)))
        self.rows.append(("of these asked again cold, and equal", compared))
        for differing in self.answers.differing:
            self.find(f"two answers to one question: {str(differing)[:300]}")

    async def verified(self):
        """Checks that every hit is verified before its answer ends, without faults."""
        before = (await self.rest())["figures"]
        hits = 0
        for (path, body), _ in self.answers.sample(WARM, self.options.seed + 2):
            if path.startswith("/v1/"):
                for _ in range(2):
                    status, warm = await ask(self.server.port, "POST", path, body, next(iter(KEYS)))
                    hits += status == 200 and warm["reprise"]["restored_tokens"] > 0
        after = (await self.rest())["figures"]
        done = after["reprise_cache_verified_total"] - before["reprise_cache_verified_total"]
        self.rows.append(("hits in peace, and how many of them were verified", f"{hits}, {done:.0f}"))
        if done < hits:
            self.find(f"only {done:.0f} of {hits} hits were verified")
        self.log.flush()
        with open(self.log.name, "rb") as log:
            wrong = sum(b"differs from a cold run" in line for line in log)
        if wrong:
            self.find(f"{wrong} hits differed from a cold run; see the server's log")

    def judge_memory(self, now):
        span = self.options.minutes * 60
        early = max((size for at, size in self.resident if at <= max(span / 6, 15)), default=now)
        peak = max((size for _, size in self.resident), default=now)
        self.rows.append(("resident MiB: first sixth, peak, end",
                          f"{early / MIB:.0f}, {peak / MIB:.0f}, {now / MIB:.0f}"))
        if now > early * MEMORY_GROWTH + MEMORY_SLACK:
            self.find(f"memory grew from {early / MIB:.0f} to {now / MIB:.0f} MiB")

    async def judge(self, before, rested):
        figures = rested["figures"]
        self.rows.append(("hits verified since the last load of each model, and not for lack of memory or of a client",
                          f"{figures['reprise_cache_verified_total']:.0f}, "
                          f"{figures['reprise_cache_unverified_total']:.0f}"))
        self.judge_memory(rested["resident_bytes"])
        for model in MODELS:
            if not (await self.server.tell(f"unload {model}") or {}).get("ok"):
                self.find(f"model {model} could not be unloaded")
        until = time.monotonic() + 30
        while True:
            state = await self.state()
            held = {"snapshots": state["figures"]["reprise_snapshots"],
                    "state bytes": state["figures"]["reprise_state_used_bytes"], "blocks": state["block_bytes"],
                    "descriptors": max(0, state["descriptors"] - before["descriptors"]),
                    "threads": max(0, state["threads"] - before["threads"])}
            left = {name: value for name, value in held.items() if value}
            if not left or time.monotonic() > until:
                break
            await asyncio.sleep(0.5)
        if left:
            self.find(f"left behind without models: {left}")
        self.rows.append(("descriptors before and after", f"{before['descriptors']}, {state['descriptors']}"))
        self.rows.append(("threads before and after", f"{before['threads']}, {state['threads']}"))
        self.rows.append(("blocks refused", state["refused_blocks"]))
        self.rows.append(("large allocations refused", state["refused_allocations"]))
        for name, value in figures.items():
            if name in ("reprise_preemptions_total", "reprise_device_faults_total", "reprise_actor_restarts_total",
                        "reprise_damaged_snapshots_total", "reprise_unhealthy_states_total", "reprise_steps_total"):
                self.rows.append((name.removeprefix("reprise_").removesuffix("_total").replace("_", " "), f"{value:.0f}"))

    async def run(self):
        await self.server.start()
        try:
            before = await self.rest()
            await self.storm()
            await self.rest()
            await self.compare()
            await self.verified()
            await self.judge(before, await self.rest())
        except (RuntimeError, OSError) as error:
            self.find(f"the server is gone: {error}")
        status = await self.server.end()
        if status != 0:
            self.find(f"the server ended with {status}")

    def summary(self):
        lines = [f"## chaos: {'nothing found' if not self.findings else f'{len(self.findings)} findings'}", "",
                 f"`tools/chaos {shlex.join(sys.argv[1:])}` (seed {self.options.seed}, {self.options.streams} clients, "
                 f"{self.options.minutes:g} minutes)", "", "| | |", "|---|---|"]
        lines += [f"| {name} | {value} |" for name, value in self.rows]
        lines += ["", "| event | times |", "|---|---|"]
        lines += [f"| {name} | {count} |" for name, count in sorted(self.counts.items())]
        if self.findings:
            lines += ["", "Findings:", ""] + [f"- {count} x {text}" for text, count in self.findings.most_common(50)]
        return "\n".join(lines) + "\n"


def main():
    options = parse()
    folder = tempfile.mkdtemp(prefix="reprise_chaos_")
    print(f"== the server's log: {folder}/server.log", file=sys.stderr)
    chaos = Chaos(options, folder)
    asyncio.run(chaos.run())
    summary = chaos.summary()
    print(summary)
    if options.report:
        with open(options.report, "w") as file:
            file.write(summary)
    sys.exit(1 if chaos.findings else 0)


if __name__ == "__main__":
    main()
