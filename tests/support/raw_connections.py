"""Raw connections to a port on loopback, and the real listener to attack with them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp

from lintra_protocol.http.requests import media_type
from lintra_service.listener import listener

SECONDS = 20
"""How long anything here may take."""


@asynccontextmanager
async def listening(app: ASGIApp, max_connections: int = 200, header_seconds: float = 10) -> AsyncIterator[int]:
    """Serve an application on loopback, and give its port."""
    server = listener(app, "127.0.0.1", 0, max_connections, header_seconds)
    serving = asyncio.create_task(server.serve())
    async with asyncio.timeout(SECONDS):
        while not server.started:
            await asyncio.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        await serving


class Attacker:
    """Raw connections to one port."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self, sent: bytes = b"") -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers.append(writer)
        writer.write(sent)
        await writer.drain()
        return reader

    async def send(self, part: bytes) -> None:
        """Send something on every connection that is still open."""
        for writer in self._writers:
            if not writer.is_closing():
                writer.write(part)
                await writer.drain()

    async def trickle(self, part: bytes, seconds: float) -> None:
        while True:
            for writer in self._writers:
                writer.write(part)
            await asyncio.sleep(seconds)

    async def __aenter__(self) -> "Attacker":
        return self

    async def __aexit__(self, *_: object) -> None:
        for writer in self._writers:
            writer.close()


def upload_head(task_id: str, announced: int) -> bytes:
    return (
        f"POST /v1/tasks/{task_id}/reports HTTP/1.1\r\nhost: a\r\n"
        f"content-type: {media_type('reports')}\r\ncontent-length: {announced}\r\n\r\n"
    ).encode()


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    """Return what comes before the other side closes."""
    try:
        return await asyncio.wait_for(reader.read(), SECONDS)
    except ConnectionError:
        return b""
