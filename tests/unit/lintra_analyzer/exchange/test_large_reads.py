"""Connections that are read in large pieces, with a real server behind a socket, plain and encrypted."""

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from lintra_analyzer.exchange.large_reads import READ_BYTES, read_widely
from lintra_analyzer.service import http_client
from support.certificates import certificates_of

BODY = random.Random(1).randbytes(4_000_001)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n"
Serve = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Answer each request on loopback by a function; give the address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await serve(writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(answer, "localhost", 0, family=2, ssl=tls) as server:
        yield f"http{'s' if tls else ''}://localhost:{server.sockets[0].getsockname()[1]}/"


async def whole(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD % len(BODY) + BODY)


async def pieces(client: httpx2.AsyncClient, url: str) -> list[bytes]:
    async with client.stream("GET", url) as response:
        return [piece async for piece in response.aiter_raw()]


def encrypted(folder: Path) -> tuple[ssl.SSLContext, httpx2.AsyncClient]:
    """Return what a server speaks TLS with, and a client that trusts it."""
    (files,) = certificates_of(folder, "authority", "localhost")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(files.certificate, files.key)
    trusting = ssl.create_default_context(cafile=str(files.authority))
    trusting.check_hostname = False  # the certificate has a name, but no alternative one
    return server, httpx2.AsyncClient(verify=trusting)


async def test_a_plain_connection_of_the_analyzer_is_read_in_larger_pieces_than_the_library_asks_for() -> None:
    settings: Any = SimpleNamespace(server_timeout_seconds=10)
    async with serving(whole) as url, http_client(settings) as client, httpx2.AsyncClient() as plain:
        for _ in range(2):  # the connection is used again
            came = await pieces(client, url)
            assert b"".join(came) == BODY
            assert 1 << 16 < max(map(len, came)) <= READ_BYTES
        assert max(map(len, await pieces(plain, url))) <= 1 << 16


async def test_an_encrypted_connection_gives_several_records_at_once(tmp_path: Path) -> None:
    tls, client = encrypted(tmp_path)
    async with serving(whole, tls) as url, client:
        records = await pieces(client, url)
        assert b"".join(records) == BODY
        assert max(map(len, records)) <= 1 << 14
    tls, client = encrypted(tmp_path)
    read_widely(client)
    async with serving(whole, tls) as url, client:
        for _ in range(2):
            came = await pieces(client, url)
            assert b"".join(came) == BODY
            assert 1 << 14 < max(map(len, came)) <= READ_BYTES
            assert len(came) < len(records) // 2


@pytest.mark.parametrize("secret", [False, True])
async def test_what_has_come_is_given_at_once_and_a_broken_answer_is_an_error(tmp_path: Path, secret: bool) -> None:
    tls, client = encrypted(tmp_path) if secret else (None, httpx2.AsyncClient())
    read_widely(client)
    arrived = asyncio.Event()

    async def in_two(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD % 30 + b"a" * 10)
        await writer.drain()
        await asyncio.wait_for(arrived.wait(), 10)  # whoever waits for more before it gives any never comes here
        writer.write(b"b" * 10)
        writer.close()

    came: list[bytes] = []

    async def read(url: str) -> None:
        async with client.stream("GET", url) as response:
            async for piece in response.aiter_raw():
                came.append(piece)
                arrived.set()

    async with serving(in_two, tls) as url, client:
        with pytest.raises(httpx2.TransportError):
            await read(url)
        assert b"".join(came) == b"a" * 10 + b"b" * 10


async def test_a_client_without_connections_is_refused() -> None:
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(200))) as client:
        with pytest.raises(ValueError, match="without connections of its own"):
            read_widely(client)
