"""HTTP/1.1 to servers: kept connections, a request in one write, an answer of bounded length.

h11 knows the grammar, asyncio the sockets. httpx2 takes over where a caller brings a transport, or the system a proxy:
three requests through it take as long as all else that sending a row needs, and loading it longer.
"""

import asyncio
import os
import ssl
import sys
import time
from collections.abc import Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

import h11

if TYPE_CHECKING:
    import httpx2

MAX_ANSWER_BYTES = 64 << 20
"""No answer is read beyond this; the largest honest one is the definition of a task with very many columns."""

MAX_CONNECTIONS = 100
"""Connections of one client that are in use at once; more requests wait."""

KEPT_SECONDS = 4.0
"""How long a connection is kept that nobody uses; less than servers keep it."""

_READ_BYTES = 1 << 16
_TOGETHER = 1 << 16
"""Bodies up to so many bytes are written together with the head of their request."""


class AnswerTooLongError(Exception):
    """An answer has more than `MAX_ANSWER_BYTES`."""

    def __init__(self) -> None:
        """Say so."""
        super().__init__(f"an answer longer than {MAX_ANSWER_BYTES} bytes")


class BrokenAnswerError(OSError):
    """What came back is not HTTP, or ends too early."""


@dataclass(frozen=True)
class HttpAnswer:
    """What a server answered; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Http(Protocol):
    """Sends requests, on connections that it keeps."""

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """Send one request, and return what was answered.

        Raises:
            OSError: no answer came.
            AnswerTooLongError: it is too long.
        """

    async def close(self) -> None:
        """Close all connections."""


def http_of(transport: "httpx2.AsyncBaseTransport | None", timeout: float) -> Http:
    """Return what sends requests: by itself, or through httpx2 where there is a transport or a proxy.

    `timeout` is what httpx2 waits for one step, in seconds; whoever sends bounds the whole.
    """
    return Connections() if transport is None and not _is_proxied() else ThroughHttpx(transport, timeout)


def _is_proxied() -> bool:
    """Return whether environment or system name a proxy."""
    if sys.platform in ("win32", "darwin"):
        from urllib.request import getproxies

        return bool(getproxies())
    return any(
        name.lower() in ("http_proxy", "https_proxy", "all_proxy") for name, value in os.environ.items() if value
    )


class Connections:
    """Connections to any servers, each used for one request at a time."""

    def __init__(self) -> None:
        """Connect to nothing yet."""
        self._free: dict[str, list[_Connection]] = {}
        self._room = asyncio.Semaphore(MAX_CONNECTIONS)
        self._tls: ssl.SSLContext | None = None

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """Send one request, and return what was answered (see `Http`)."""
        origin, target = _parts(url)
        async with self._room:
            connection = self._kept(origin) or await self._opened(origin)
            try:
                answer = await connection.exchange(method, target, headers, body)
            except BaseException:
                connection.close()
                raise
            if connection.renewed():
                self._free.setdefault(origin, []).append(connection)
            else:
                connection.close()
            return answer

    async def close(self) -> None:
        """Close all connections that nobody uses."""
        for connection in [each for free in self._free.values() for each in free]:
            connection.close()
        self._free = {}
        await asyncio.sleep(0)  # sockets are closed in the next turn of the loop

    def _kept(self, origin: str) -> "_Connection | None":
        free = self._free.get(origin, [])
        while free:
            connection = free.pop()
            if connection.is_usable:
                return connection
            connection.close()
        return None

    async def _opened(self, origin: str) -> "_Connection":
        parts = urlsplit(origin)
        secure = parts.scheme == "https"
        if secure and self._tls is None:
            from httpx2 import create_ssl_context  # whom to trust is no decision of ours

            self._tls = create_ssl_context()
        reader, writer = await asyncio.open_connection(
            parts.hostname,
            parts.port or (443 if secure else 80),
            ssl=self._tls if secure else None,
            happy_eyeballs_delay=0.25,
        )
        return _Connection(parts.netloc, reader, writer)


@lru_cache(maxsize=256)
def _parts(url: str) -> tuple[str, str]:
    """Return scheme and host of a URL, and what a request line asks for."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}", (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


class _Connection:
    """One connection: a request, its answer, the next request."""

    def __init__(self, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Use an open connection; `host` is its server, as requests name it."""
        self._host = host
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT)
        self._used = time.monotonic()

    @property
    def is_usable(self) -> bool:
        """Whether the server has not closed it, nor is about to."""
        return not self._reader.at_eof() and time.monotonic() - self._used < KEPT_SECONDS

    def renewed(self) -> bool:
        """Make it ready for the next request; return whether it may be kept."""
        done = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        if not done or self._http.trailing_data[0]:
            return False
        self._http.start_next_cycle()
        self._used = time.monotonic()
        return True

    def close(self) -> None:
        """Close it at once: nothing is under way that anybody waits for."""
        self._writer.transport.abort()

    async def exchange(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """Send a request and read its answer."""
        try:
            with suppress(ConnectionError):  # a server that refuses early says why before it hangs up
                await self._write(method, target, headers, body)
            return await self._read()
        except h11.RemoteProtocolError as error:
            raise BrokenAnswerError(str(error)) from None

    async def _write(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> None:
        named = [("host", self._host), *headers.items()]
        if method != "GET":
            named.append(("content-length", str(len(body))))
        data = self._http.send(h11.Request(method=method, target=target, headers=named)) or b""
        if body:
            self._http.send(h11.Data(data=body))
        self._http.send(h11.EndOfMessage())
        if len(body) <= _TOGETHER:
            self._writer.write(data + body)
            return
        self._writer.write(data)
        self._writer.write(body)
        await self._writer.drain()

    async def _read(self) -> HttpAnswer:
        head: h11.Response | None = None
        data = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(_READ_BYTES))
            elif isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                data += event.data
                if len(data) > MAX_ANSWER_BYTES:
                    raise AnswerTooLongError
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                named = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
                return HttpAnswer(head.status_code, named, bytes(data))
            elif isinstance(event, h11.ConnectionClosed):
                raise BrokenAnswerError("the server closed the connection")


class ThroughHttpx:
    """Requests through httpx2."""

    def __init__(self, transport: "httpx2.AsyncBaseTransport | None", timeout: float) -> None:
        """Use a transport, which is closed at the end; without one, that of the system's proxies."""
        import httpx2

        self._library = httpx2
        self._client = httpx2.AsyncClient(transport=transport, timeout=timeout)

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """Send one request, and return what was answered (see `Http`)."""
        # Not built by the client, which would add its cookies: no server asks for one, none needs to know who comes.
        request = self._library.Request(method, url, content=body, headers=dict(headers))
        data = bytearray()
        try:
            async with aclosing(await self._client.send(request, stream=True)) as response:
                async for chunk in response.aiter_bytes():
                    data += chunk
                    if len(data) > MAX_ANSWER_BYTES:
                        raise AnswerTooLongError
        except self._library.RequestError as error:
            raise _named(error) from None
        named = {name.lower(): value for name, value in response.headers.items()}
        return HttpAnswer(response.status_code, named, bytes(data))

    async def close(self) -> None:
        """Close all connections, and the transport."""
        await self._client.aclose()


def _named(error: Exception) -> OSError:
    """Return an error of the system under the name of a library's, whose text may quote what was sent."""
    named: OSError = type(type(error).__name__, (OSError,), {})()
    return named
