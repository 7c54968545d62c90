"""A listener that silent connections cannot exhaust: at most so many, and each must send its headers in time.

The reverse proxy before a service does the same, and more (deploy/proxy/). This is what is left if it fails or is
forgotten.
"""

import json
from asyncio import BaseTransport, TimerHandle, Transport
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from lintra_protocol.errors import HeadTooLargeError, InvalidMessageError, LintraError
from lintra_protocol.http.problems import MEDIA_TYPE, STATUS, to_problem

SHUTDOWN_SECONDS = 30
"""How long requests that were begun may take when the process is asked to stop."""

HEADER_SECONDS = 10
"""A connection that has not sent whole headers after this long is closed; also one that has sent nothing."""

IDLE_SECONDS = 5
"""How long a connection may stay open between two requests."""

HEAD_BYTES = 32 << 10
HEAD_FIELDS = 100
"""The most bytes and fields of a request's head (its first line and headers), and again of what follows its body."""

LINGER_SECONDS = 1
"""How long a refused connection is read, and what comes dropped, so that the sender gets to see the refusal."""


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

    `port` is its port; 0 takes a free one. Connections beyond `max_connections` are closed at once; a proxy in front
    should have a lower limit. `header_seconds` are those within which every request's headers must be there.
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
    """A connection that is refused if there are too many, and closed if its headers are too large or do not come."""

    connections_allowed: int
    seconds_allowed: float
    _deadline: TimerHandle | None = None
    _complaint: LintraError | None = None
    _refused = False
    _answered: RequestResponseCycle | None = None
    """The exchange that is being answered; `cycle` is the last one that came."""
    _unused = 0
    """Bytes that came since the last end of a head and the last byte of a body: what the parser may hold."""

    def connection_made(self, transport: BaseTransport) -> None:
        """Begin to wait for headers, unless there are too many connections."""
        if len(self.connections) >= self.connections_allowed:
            cast("Transport", transport).abort()
            return
        super().connection_made(cast("Transport", transport))
        self._wait_for_headers()

    def data_received(self, data: bytes) -> None:
        """Read what came, and refuse a head that has become too large."""
        if self._refused:
            return
        self._unused += len(data)
        super().data_received(data)
        if self._refused or self.transport.is_closing():
            return
        if self._unused > HEAD_BYTES:
            self._refuse(_too_large())
        elif self._deadline is None and (self.cycle is None or self.cycle.response_complete):
            # Blank lines before a request begin no message, and would hold the connection for ever.
            self._wait_for_headers()

    def on_message_begin(self) -> None:
        """Begin to wait for the headers of the next request."""
        super().on_message_begin()
        self._wait_for_headers()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field, unless there are too many."""
        if len(self.headers) >= HEAD_FIELDS:
            raise self._complained()
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Stop waiting."""
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEAD_BYTES:
            raise self._complained()
        self._unused = 0
        self._stop_waiting()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body on."""
        self._unused = 0
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser did not take."""
        self._refuse(self._complaint or InvalidMessageError(msg))

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        if self in self.connections:
            self._stop_waiting()
            if self._answered is not None:
                # Or it would write, if another request waits behind it, to a connection that is gone.
                self._answered.disconnected = True
                self._answered.message_event.set()
            super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def _complained(self) -> LintraError:
        self._complaint = _too_large()
        return self._complaint

    def _refuse(self, error: LintraError) -> None:
        """Answer with a problem document, and close."""
        self._refused = True
        self._stop_waiting()
        if self.cycle is not None and not self.cycle.response_complete:
            # Another answer of this connection has begun, or will: nothing may come between.
            self.transport.close()
            return
        body = json.dumps(to_problem(error)).encode()
        self.transport.write(
            b"HTTP/1.1 %d Refused\r\ncontent-type: %b\r\ncontent-length: %d\r\n"
            b"x-content-type-options: nosniff\r\nconnection: close\r\n\r\n%b"
            % (STATUS[type(error)], MEDIA_TYPE.encode(), len(body), body)
        )
        self.transport.write_eof()
        # Closed at once, with bytes that nobody read, the connection would be reset, and the answer lost.
        self._deadline = self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _wait_for_headers(self) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(self.seconds_allowed, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _too_large() -> LintraError:
    return HeadTooLargeError(f"at most {HEAD_BYTES} bytes and {HEAD_FIELDS} fields")
