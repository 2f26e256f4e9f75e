"""HTTP over raw sockets, for well-behaved and misbehaving clients."""
import asyncio
import json
import socket
import struct

PATIENCE = 180  # seconds without a byte after which the server counts as hung


class Broken(Exception):
    """The connection ended before the answer was complete."""


def head(method, path, body=b"", key=None, close=True, extra=()):
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    if body or method == "POST":
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    if key:
        lines.append(f"Authorization: Bearer {key}")
    if close:
        lines.append("Connection: close")
    return "\r\n".join([*lines, *extra, "", ""]).encode()


class Wire:
    """A connection. `async with Wire(port) as wire:` closes it, or resets it if `rude`."""

    def __init__(self, port):
        self.port, self.rude = port, False

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.wait_for(
            asyncio.open_connection("127.0.0.1", self.port, limit=1 << 22), PATIENCE)
        return self

    async def __aexit__(self, *_):
        if self.rude:  # a reset instead of a close
            self.socket().setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except (OSError, asyncio.TimeoutError):
            pass

    def socket(self):
        return self.writer.get_extra_info("socket")

    async def send(self, data):
        self.writer.write(data)
        await asyncio.wait_for(self.writer.drain(), PATIENCE)

    async def line(self):
        line = await asyncio.wait_for(self.reader.readline(), PATIENCE)
        if not line.endswith(b"\n"):
            raise Broken("the connection ended within a line")
        return line

    async def status(self):
        """Returns (status, headers) of an answer."""
        first = (await self.line()).split()
        if len(first) < 2 or not first[0].startswith(b"HTTP/1."):
            raise Broken(f"no status line: {first}")
        headers = {}
        while (line := (await self.line()).strip()):
            name, _, value = line.partition(b":")
            headers[name.lower().decode()] = value.strip().decode("latin-1")
        return int(first[1]), headers

    async def body(self, headers):
        if headers.get("transfer-encoding") == "chunked":
            parts = []
            async for part in self.chunks():
                parts.append(part)
            return b"".join(parts)
        length = int(headers.get("content-length", 0))
        try:
            return await asyncio.wait_for(self.reader.readexactly(length), PATIENCE)
        except asyncio.IncompleteReadError as error:
            raise Broken("the connection ended within a body") from error

    async def chunks(self):
        while True:
            size = int((await self.line()).split(b";")[0], 16)
            try:
                part = await asyncio.wait_for(self.reader.readexactly(size + 2), PATIENCE)
            except asyncio.IncompleteReadError as error:
                raise Broken("the connection ended within a chunk") from error
            if size == 0:
                return
            yield part[:-2]

    async def events(self):
        """Yields the decoded `data:` of an event stream until [DONE]."""
        rest = b""
        async for part in self.chunks():
            rest += part
            *whole, rest = rest.split(b"\n\n")
            for event in whole:
                for line in event.split(b"\n"):
                    if line == b"data: [DONE]":
                        return
                    if line.startswith(b"data: "):
                        yield json.loads(line[6:])
        raise Broken("a stream ended without [DONE]")


async def ask(port, method, path, body=None, key=None):
    """Sends a request on a new connection; returns (status, decoded body)."""
    data = b"" if body is None else json.dumps(body).encode()
    async with Wire(port) as wire:
        await wire.send(head(method, path, data, key) + data)
        status, headers = await wire.status()
        text = await wire.body(headers)
    kind = headers.get("content-type", "")
    return status, json.loads(text) if "json" in kind else text.decode()
