"""Kinds of clients: coroutines that behave once in their way and return; then the crowd starts another."""
import asyncio
import json
import random

from chaos_answers import tokens_of
from chaos_wire import Broken, Wire, ask, head

WORDS = "the old river runs under a bridge of stone where children count boats and say their names".split()


class Crowd:
    """State shared by the clients. `counts` counts events by kind; `findings` lists failures."""

    def __init__(self, port, keys, answers, counts, seed):
        self.port, self.keys, self.answers, self.counts = port, keys, answers, counts
        self.findings = []
        self.rng = random.Random(seed)
        self.ending = False
        # Prefixes shared by prompts, so that there is something to restore.
        self.openings = [[self.rng.randrange(3, 490) for _ in range(self.rng.choice((60, 200, 450)))] for _ in range(12)]
        self.histories = []  # prompts with their replies, to be continued

    def key(self):
        return self.rng.choice(self.keys)

    # -- questions

    def completion(self):
        """Returns the token ids of a new prompt, a repeated one, or a continued conversation."""
        rng = self.rng
        if self.histories and rng.random() < 0.4:
            prompt = rng.choice(self.histories) + [rng.randrange(3, 490) for _ in range(rng.randrange(1, 40))]
        else:
            prompt = rng.choice(self.openings) + [3 + rng.randrange(8) for _ in range(rng.randrange(1, 4))]
        body = {"model": "ids", "prompt": prompt[-1500:], "max_tokens": rng.choice((1, 4, 16, 48)), "ignore_eos": True,
                "return_token_ids": True, "temperature": 0}
        if rng.random() < 0.3:
            body.update(temperature=1, seed=rng.randrange(4))
        if rng.random() < 0.2:
            body["n"] = rng.choice((2, 3, 4))
        return "/v1/completions", body

    def chat(self):
        rng = self.rng
        messages = [{"role": "system", "content": " ".join(WORDS)}]
        for turn in range(rng.randrange(1, 4)):
            messages.append({"role": "user", "content": " ".join(WORDS[rng.randrange(4) * 3:][:5 + turn])})
            messages.append({"role": "assistant", "content": WORDS[turn]})
        return "/v1/chat/completions", {"model": "talk", "messages": messages[:-1], "max_tokens": rng.choice((4, 24)),
                                        "return_token_ids": True, "temperature": 0}

    def question(self):
        return self.chat() if self.rng.random() < 0.25 else self.completion()

    # -- answers

    def fine(self, path, body, choices):
        self.counts["answered"] += 1
        self.answers.note([path, body], tokens_of(choices))
        if path == "/v1/completions" and len(self.histories) < 200 and "n" not in body:
            self.histories.append(body["prompt"] + choices[0]["token_ids"])
        elif self.histories and self.rng.random() < 0.05:
            self.histories.pop(0)

    def refused(self, status, error):
        """Judges the error of a valid request: expected are those that say "later" and those explained by a damaged state."""
        code, message = error.get("code"), error.get("message", "")
        self.counts[f"refused {status or 'in stream'} {code}"] += 1
        later = code in ("too_many_requests", "overloaded", "unavailable", "server_busy")
        poisoned = "not finite" in message or "no usable logit" in message
        unloaded = code == "model_not_found"
        damaged = "checksum is wrong" in message  # the snapshot from which the choices of a request start
        expected = later or poisoned or unloaded or damaged
        if not expected:
            self.findings.append(f"a good request got {status} {code}: {message[:200]}")

    async def read_answer(self, wire, stream):
        """Returns the choices of an answer, or None after an error."""
        status, headers = await wire.status()
        if status != 200:
            self.refused(status, json.loads(await wire.body(headers))["error"])
            return None
        if not stream:
            return json.loads(await wire.body(headers))["choices"]
        choices = {}
        async for event in wire.events():
            if "error" in event:
                self.refused(0, event["error"])
                return None
            for part in event["choices"]:
                choices.setdefault(part["index"], []).extend(part.get("token_ids") or [])
        return [{"index": index, "token_ids": ids} for index, ids in choices.items()]

    # -- kinds of clients

    async def good(self):
        path, body = self.question()
        stream = self.rng.random() < 0.6
        data = json.dumps({**body, "stream": stream}).encode()
        async with Wire(self.port) as wire:
            await wire.send(head("POST", path, data, self.key()) + data)
            choices = await self.read_answer(wire, stream)
        if choices is not None:
            self.fine(path, body, choices)

    async def start_stream(self, wire, max_tokens):
        path, body = self.question()
        body["max_tokens"] = max_tokens
        data = json.dumps({**body, "stream": True}).encode()
        await wire.send(head("POST", path, data, self.key()) + data)
        return path, body

    async def vanishing(self):
        """Disconnects: at once, in the queue, in prefill, or after some tokens; by closing or by a reset."""
        async with Wire(self.port) as wire:
            await self.start_stream(wire, 2000)
            wire.rude = self.rng.random() < 0.5
            await asyncio.sleep(self.rng.choice((0, 0, 0.05, 0.5)))
            for _ in range(self.rng.choice((0, 1, 10))):
                try:
                    await asyncio.wait_for(wire.reader.readline(), 2)
                except asyncio.TimeoutError:
                    break

    async def stalling(self):
        """Reads nothing for a while, then everything or nothing."""
        async with Wire(self.port) as wire:
            path, body = await self.start_stream(wire, 300)
            await asyncio.sleep(self.rng.uniform(0.5, 6))
            if self.rng.random() < 0.5:
                return
            choices = await self.read_answer(wire, True)
        if choices is not None:
            self.fine(path, body, choices)

    async def half_closing(self):
        """Closes its sending side, which counts as a disconnect: the answer may stop anywhere."""
        async with Wire(self.port) as wire:
            await self.start_stream(wire, 500)
            wire.writer.write_eof()
            try:
                while await asyncio.wait_for(wire.reader.read(65536), 60):
                    pass
            except asyncio.TimeoutError:
                self.findings.append("a client that had closed its sending side was served for a minute")

    async def flooding(self):
        """Pipelines many requests on a connection, then reads the answers or not."""
        async with Wire(self.port) as wire:
            get = head("GET", self.rng.choice(("/health", "/v1/models", "/metrics")), key=self.key(), close=False)
            await wire.send(get * self.rng.choice((20, 200)))
            if self.rng.random() < 0.5:
                await asyncio.wait_for(wire.reader.read(65536), 60)
            if self.rng.random() < 0.5:
                await self.start_stream(wire, 2000)
                wire.writer.write(b"x" * 200_000)  # pipelined junk after a stream
                await asyncio.sleep(0.2)

    async def sending_junk(self):
        rng = self.rng
        noise = bytes(rng.randrange(256) for _ in range(rng.choice((1, 40, 400))))
        key = self.key()
        bodies = [b"{", b"[]", b"null", b'{"prompt": ' + b"[" * 500, b'{"model": "none", "prompt": [1]}',
                  b'{"prompt": [999999999]}', b'{"prompt": "x", "n": 999}', b'{"messages": [{"role": "user"}]}', noise,
                  b'{"prompt": [1], "max_tokens": -1}', json.dumps({"prompt": [1] * 5000, "max_tokens": 1}).encode()]
        body = rng.choice(bodies)
        path = rng.choice(("/v1/completions", "/v1/chat/completions", "/tokenize", "/apply-template", "/nowhere"))
        whole = head("POST", path, body, key) + body
        requests = [
            noise, whole, whole[:rng.randrange(len(whole))], b"GET / HTTP/9.9\r\n\r\n", b"POST " + b"/" * 70_000,
            head("POST", path, b"xx", key, extra=("Transfer-Encoding: gzip",)),
            head("POST", path, body, key, extra=("Transfer-Encoding: chunked",)) + b"zz\r\n",
            head("POST", path, b"", key, extra=("Content-Length: 99999999999",)),
            head("POST", path, body, "a-wrong-key") + body, head("DELETE", path, key=key)]
        async with Wire(self.port) as wire:
            await wire.send(rng.choice(requests))
            if rng.random() < 0.5:
                wire.writer.write_eof()
            try:
                first = await asyncio.wait_for(wire.reader.readline(), 5)
            except asyncio.TimeoutError:
                return  # the server waits for the rest
            parts = first.split()
            if len(parts) > 1 and parts[1].startswith(b"5") and parts[1] != b"503":
                self.findings.append(f"junk got {first.decode('latin-1').strip()}: {path} {body[:80]}")
            self.counts["junk answered"] += 1

    async def reconnecting(self):
        """Repeatedly sends half a request."""
        path, body = self.question()
        data = json.dumps(body).encode()
        whole = head("POST", path, data, self.key()) + data
        for _ in range(self.rng.randrange(1, 6)):
            async with Wire(self.port) as wire:
                wire.rude = self.rng.random() < 0.5
                await wire.send(whole[:self.rng.randrange(1, len(whole))])

    async def texting(self):
        key, rng = self.key(), self.rng
        text = " ".join(rng.choices(WORDS, k=rng.choice((1, 20, 2000, 40_000))))
        path, body = rng.choice([
            ("/tokenize", {"model": "talk", "content": text}), ("/detokenize", {"model": "talk", "tokens": [5, 6, 7]}),
            ("/apply-template", {"model": "talk", "messages": [{"role": "user", "content": text[:50]}]})])
        status, answer = await ask(self.port, "POST", path, body, key)
        if status == 200:
            self.counts["texts"] += 1
            self.answers.note([path, body], answer)
        else:
            self.refused(status, answer["error"])

    async def looking(self):
        """Health, metrics and models must always answer."""
        path = self.rng.choice(("/health", "/health/live", "/metrics", "/v1/models"))
        status, _ = await ask(self.port, "GET", path, key=self.key())
        if status not in ((200, 503) if path == "/health" else (200,)):
            self.findings.append(f"{path} answered {status}")
        self.counts["looks"] += 1

    KINDS = [(good, 40), (vanishing, 12), (stalling, 8), (half_closing, 5), (flooding, 4), (sending_junk, 10),
             (reconnecting, 6), (texting, 8), (looking, 7)]

    async def behave(self):
        """Runs one client after the other until the end."""
        kinds, weights = zip(*self.KINDS)
        while not self.ending:
            kind = self.rng.choices(kinds, weights)[0]
            try:
                await kind(self)
                self.counts[kind.__name__] += 1
            except (Broken, OSError, asyncio.IncompleteReadError) as error:
                self.counts[f"broken off: {kind.__name__}"] += 1
                if kind in (Crowd.good, Crowd.texting, Crowd.looking):
                    self.findings.append(f"{kind.__name__}: {type(error).__name__} {error}")
            except asyncio.TimeoutError:
                self.findings.append(f"{kind.__name__}: nothing came for minutes")
            await asyncio.sleep(self.rng.uniform(0, 0.1))
