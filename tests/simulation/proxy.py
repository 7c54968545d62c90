"""A network between clients and one server that loses, cuts, repeats, delays and reorders, and answers 5xx itself."""

import asyncio
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

FAULTS = (
    "request swallowed",
    "answer swallowed",
    "request cut",
    "answer cut",
    "request doubled",
    "request delayed",
    "request much later",
    "502 instead of the request",
    "502 instead of the answer",
)
_BAD_GATEWAY = (
    b"HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\ncontent-length: 7\r\nconnection: close\r\n\r\n<html/>"
)


@dataclass
class Proxy:
    """Listens on one port and passes requests on to another; every connection carries one request.

    Attributes:
        chance: decides which requests suffer, and how.
        port: where it listens.
        target: where the server listens.
        share: of requests that suffer.
        counts: what it did.
    """

    chance: random.Random
    port: int
    target: int
    share: float = 0.15
    counts: Counter[str] = field(default_factory=Counter)
    listener: asyncio.Server | None = None
    under_way: set[asyncio.Task[bytes]] = field(default_factory=set)

    async def open(self) -> None:
        """Listen."""
        self.listener = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def close(self) -> None:
        """Listen no more, and forget what is still under way."""
        if self.listener is not None:
            self.listener.close()
        for task in self.under_way:
            task.cancel()
        await asyncio.gather(*self.under_way, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                writer.write(await self._answer(await self._read(reader)))
                await writer.drain()
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        return await read_message(reader)

    async def _answer(self, request: bytes) -> bytes:
        """Return what the client hears; nothing, if it is to hear nothing."""
        fault = self.chance.choice(FAULTS) if self.chance.random() < self.share else ""
        if fault:
            self.counts[f"proxy: {fault}"] += 1
        match fault:
            case "request swallowed":
                return b""
            case "502 instead of the request":
                return _BAD_GATEWAY
            case "request cut":
                return await self._pass(request[: self.chance.randrange(len(request))], whole=False)
            case "request much later":
                later = asyncio.create_task(self._pass(request, self.chance.uniform(0.1, 1.0)))
                self.under_way.add(later)
                later.add_done_callback(self.under_way.discard)
                return b""
            case "request delayed":
                return await self._pass(request, self.chance.uniform(0.005, 0.05))
        answer = await self._pass(request)
        match fault:
            case "answer swallowed":
                return b""
            case "502 instead of the answer":
                return _BAD_GATEWAY
            case "answer cut":
                return answer[: self.chance.randrange(len(answer))] if answer else b""
            case "request doubled":
                await self._pass(request)
        return answer

    async def _pass(self, request: bytes, delay: float = 0, *, whole: bool = True) -> bytes:
        """Send something to the server and return its answer; nothing, if the connection breaks."""
        if delay:
            await asyncio.sleep(delay)
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            return b""
        try:
            writer.write(request)
            if not whole:
                writer.write_eof()
            return await reader.read()
        except OSError:
            return b""
        finally:
            writer.close()


async def read_message(reader: asyncio.StreamReader) -> bytes:
    """Read one request, head and body."""
    head = await reader.readuntil(b"\r\n\r\n")
    (length,) = (line[16:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length: "))
    return head + await reader.readexactly(int(length))
