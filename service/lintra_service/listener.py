"""A listener that silent connections cannot exhaust: at most so many, and each must send its headers in time.

The reverse proxy before a service does the same, and more (deploy/proxy/). This is what is left if it fails or is
forgotten.
"""

from asyncio import BaseTransport, TimerHandle, Transport
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

SHUTDOWN_SECONDS = 30
"""How long requests that were begun may take when the process is asked to stop."""

HEADER_SECONDS = 10
"""A connection that has not sent whole headers after this long is closed; also one that has sent nothing."""

IDLE_SECONDS = 5
"""How long a connection may stay open between two requests."""


class Listener(uvicorn.Server):
    """One of several servers in a process: signals are not its business."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process."""
        yield


def listener(
    app: ASGIApp, host: str, port: int, max_connections: int, header_seconds: float = HEADER_SECONDS
) -> Listener:
    """Return a listener for an application.

    Args:
        app: the application.
        host: its address.
        port: its port; 0 takes a free one.
        max_connections: further ones are closed at once; a proxy in front should have a lower limit.
        header_seconds: within which every request's headers must be there.
    """

    class Bounded(BoundedProtocol):
        connections_allowed = max_connections
        seconds_allowed = header_seconds

    return Listener(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            http=Bounded,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            # Who a forwarded address may come from is this service's own setting (see `peers`).
            proxy_headers=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
    )


class BoundedProtocol(HttpToolsProtocol):
    """A connection that is refused if there are too many, and closed if its headers do not come."""

    connections_allowed: int
    seconds_allowed: float
    _deadline: TimerHandle | None = None

    def connection_made(self, transport: BaseTransport) -> None:
        """Begin to wait for headers, unless there are too many connections."""
        if len(self.connections) >= self.connections_allowed:
            cast("Transport", transport).abort()
            return
        super().connection_made(cast("Transport", transport))
        self._wait_for_headers()

    def on_message_begin(self) -> None:
        """Begin to wait for the headers of the next request."""
        super().on_message_begin()
        self._wait_for_headers()

    def on_headers_complete(self) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        if self in self.connections:
            self._stop_waiting()
            super().connection_lost(exc)

    def _wait_for_headers(self) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(self.seconds_allowed, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
