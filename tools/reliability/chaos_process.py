"""The server process under test: takes commands by lines, and is suspended, resumed and inspected."""
import asyncio
import json
import os
import signal

FAKETIME = [f"/usr/lib/{machine}-linux-gnu/faketime/libfaketimeMT.so.1" for machine in ("aarch64", "x86_64")]


class Server:
    def __init__(self, command, folder, log, fake_clock):
        self.command, self.log = command, log
        self.clock_file = os.path.join(folder, "clock")
        self.lock = asyncio.Lock()
        self.faketime = next((path for path in FAKETIME if os.path.exists(path)), None) if fake_clock else None

    async def start(self):
        env = dict(os.environ)
        if self.faketime:
            self.set_clock(0)
            # Only the wall clock: timers use the monotonic clock, for which SIGSTOP is a jump.
            env.update(LD_PRELOAD=self.faketime, FAKETIME_TIMESTAMP_FILE=self.clock_file, FAKETIME_CACHE_DURATION="1",
                       DONT_FAKE_MONOTONIC="1", FAKETIME_DONT_FAKE_MONOTONIC="1", FAKETIME_DONT_RESET="1")
        self.process = await asyncio.create_subprocess_exec(
            *self.command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=self.log, env=env,
            limit=1 << 20)
        line = await asyncio.wait_for(self.process.stdout.readline(), 300)
        if not line:
            raise SystemExit(f"the server did not start; see {self.log.name}")
        self.port = json.loads(line)["port"]

    async def tell(self, command):
        """Sends a command and returns the answer; None if the server is gone."""
        async with self.lock:
            try:
                self.process.stdin.write(command.encode() + b"\n")
                await self.process.stdin.drain()
                line = await asyncio.wait_for(self.process.stdout.readline(), 200)
            except (OSError, asyncio.TimeoutError):
                return None
        return json.loads(line) if line else None

    def alive(self):
        return self.process.returncode is None

    def set_clock(self, seconds):
        with open(self.clock_file + ".new", "w") as file:
            file.write(f"{seconds:+d}\n")
        os.replace(self.clock_file + ".new", self.clock_file)

    async def freeze(self, seconds):
        """Suspends the process, so that its time jumps."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.process.send_signal(signal.SIGCONT)

    async def end(self):
        """Returns the exit status; None if the process had to be killed."""
        if self.alive():
            self.process.stdin.close()
            try:
                await asyncio.wait_for(self.process.wait(), 60)
            except asyncio.TimeoutError:
                self.process.kill()
                await self.process.wait()
                return None
        return self.process.returncode
