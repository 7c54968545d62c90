"""Connections that are read in large pieces: a list of a million identifiers is 32 megabytes.

The HTTP library asks a connection for at most 64 KiB at a time, and a TLS connection gives one record, 16 KiB. Each
piece costs a walk through three libraries, half or a third of what receiving a list takes. Here a read gives whatever
has come already, up to 256 KiB; it waits for nothing that the library would not have waited for.
"""

import ssl
from collections.abc import Iterable
from typing import Any

import httpcore2
import httpx2

READ_BYTES = 1 << 18
"""At most so much, or one read of the event loop, is returned together."""


class WideStream(httpcore2.AsyncNetworkStream):
    """A connection of the HTTP library, read in larger pieces."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        """Read from a stream of the library."""
        self._stream = stream
        self._tls: ssl.SSLObject | None = stream.get_extra_info("ssl_object")

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return what has come, at most `READ_BYTES` or what was asked for, after waiting for the first of it."""
        size = max(max_bytes, READ_BYTES)
        first = await self._stream.read(size, timeout)
        if self._tls is None or not first:
            return first
        pieces, size = [first], size - len(first)
        while size > 0:
            try:
                piece = self._tls.read(size)
            except ssl.SSLError:
                break  # no whole record is there; if it is another error, the next read of the library meets it
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send some bytes."""
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        """Return the encrypted connection, read in larger pieces, too."""
        return WideStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        """Return what the library's stream says of itself."""
        return self._stream.get_extra_info(info)


class WideReads(httpcore2.AsyncNetworkBackend):
    """Opens the HTTP library's connections, each as a `WideStream`."""

    def __init__(self, backend: httpcore2.AsyncNetworkBackend) -> None:
        """Open connections as a backend of the library does."""
        self._backend = backend

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Open a connection."""
        return WideStream(await self._backend.connect_tcp(host, port, timeout, local_address, socket_options))

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._backend.sleep(seconds)


def read_widely(client: httpx2.AsyncClient) -> None:
    """Let a client, before its first request, read its connections in large pieces.

    The HTTP library's pool takes a backend, but the client's own transport hands none on: so it is exchanged there.
    Raises ValueError if the client has no connections of its own.
    """
    transport = client._transport
    if not isinstance(transport, httpx2.AsyncHTTPTransport):
        raise ValueError("a client without connections of its own was given")
    transport._pool._network_backend = WideReads(transport._pool._network_backend)
