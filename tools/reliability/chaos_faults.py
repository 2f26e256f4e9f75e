"""Faults for the server: device faults, actor crashes, scarce memory, a scarce heap, reloads, clock jumps."""
import asyncio
import random
import time


class FaultSchedule:
    """Injects events a few seconds apart, chosen by a seeded generator."""

    def __init__(self, server, models, counts, seed, pause, with_heap=False):
        self.server, self.models, self.counts, self.pause = server, models, counts, pause
        self.rng = random.Random(seed)
        self.findings = []
        self.events = self.EVENTS + ([(FaultSchedule.scarce_heap, 4)] if with_heap else [])
        self.last = {}

    async def tell(self, command):
        answer = await self.server.tell(command)
        if answer is None or "error" in answer:
            self.findings.append(f"'{command}' got {answer}")
        return answer

    def rarely(self, what, seconds):
        """Limits the rate of crashes, since an actor may restart only a few times within a window."""
        if time.monotonic() - self.last.get(what, -1e9) < seconds:
            return False
        self.last[what] = time.monotonic()
        return True

    async def fault(self):
        kind = self.rng.choice(("step", "oom", "nan", "damage"))
        self.counts[f"fault {kind}"] += 1
        await self.tell(f"fault {kind}")

    async def hang(self):
        if self.rarely("hang", 20):
            self.counts["hangs"] += 1
            await self.tell("fault hang 9000")

    async def crash(self):
        kind, seconds = self.rng.choice((("texts", 15), ("registries", 25), ("device", 10), ("supervisor", 250)))
        if self.rarely(kind, seconds):
            self.counts[f"crash of {kind}"] += 1
            await self.tell(f"crash {kind}")

    async def scarcity(self):
        self.counts["times of scarce memory"] += 1
        await self.tell(f"scarce {self.rng.choice((2, 5, 20, 100))}")
        await asyncio.sleep(self.rng.uniform(1, 5))
        await self.tell("scarce 0")

    async def scarce_heap(self):
        self.counts["times of a scarce heap"] += 1
        await self.tell(f"heap {self.rng.choice((2, 5, 20))} {self.rng.randrange(1 << 32)}")
        await asyncio.sleep(self.rng.uniform(1, 5))
        await self.tell("heap 0")

    async def reload(self):
        model = self.rng.choice(self.models)
        unloaded = await self.tell(f"unload {model}")
        self.counts["unloads" if unloaded and unloaded.get("ok") else "unloads refused"] += 1
        await asyncio.sleep(self.rng.uniform(0, 1))
        await self.tell(f"load {model}")

    async def stopped_clock(self):
        self.counts["stops of the process"] += 1
        await self.server.freeze(self.rng.uniform(0.5, 8))

    async def jumping_clock(self):
        if self.server.faketime:
            self.counts["jumps of the wall clock"] += 1
            self.server.set_clock(self.rng.choice((-86400 * 400, -3600, 0, 59, 3600, 86400 * 400)))

    EVENTS = [(fault, 6), (hang, 2), (crash, 4), (scarcity, 5), (reload, 3), (stopped_clock, 2), (jumping_clock, 3)]

    async def run(self, until):
        events, weights = zip(*self.events)
        while time.monotonic() < until and self.server.alive():
            await asyncio.sleep(self.rng.uniform(0.2, 1.8) * self.pause)
            await self.rng.choices(events, weights)[0](self)
        await self.tell("scarce 0")
        if self.server.faketime:
            self.server.set_clock(0)
