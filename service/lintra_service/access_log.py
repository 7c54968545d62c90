"""Gives every HTTP answer a request identifier, a log line and a count."""

import time

import structlog
from starlette.types import Message, Scope, Send

from lintra_service.metrics import RequestMetrics

REQUEST_ID_HEADER = "lintra-request-id"
_REQUEST_ID = REQUEST_ID_HEADER.encode()
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")

_log = structlog.get_logger()


class LoggedRequest:
    """What is known of one request and its answer, for its log line and its metrics.

    Attributes:
        request_id: names the request in headers, problem documents and log lines.
        resource: the route's template; None to take the framework's.
        status: of the answer, once it has begun.
        finished: whether the answer left whole.
        error: token of the refusal, if it was one.
    """

    def __init__(self, metrics: RequestMetrics | None, request_id: str, scope: Scope, send: Send) -> None:
        """Begin to count time; the request's state carries the identifier from here on.

        Without metrics, the request is neither counted nor logged.
        """
        self.request_id = request_id
        self.resource: str | None = None
        self.status: int | None = None
        self.finished = False
        self.error: str | None = None
        self._metrics = metrics
        self._scope = scope
        self._send = send
        self._started = time.perf_counter()
        scope.setdefault("state", {})["request_id"] = request_id

    async def send(self, message: Message) -> None:
        """Pass a part of the answer on, with the request identifier in its headers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            named = (_REQUEST_ID, self.request_id.encode())
            message["headers"] = [*message.get("headers", ()), named, _NO_SNIFFING]
        else:
            self.finished = not message.get("more_body", False)
        await self._send(message)

    def finish(self) -> None:
        """Write the log line and count."""
        if self._metrics is None:
            return
        seconds = time.perf_counter() - self._started
        route = self._scope.get("route")
        resource = self.resource or str(getattr(route, "path", "unknown"))
        status = self.status or 500
        self._metrics.observe_request(resource, status, seconds)
        error = self.error or self._scope["state"].get("error")
        _log.info(
            "request",
            request_id=self.request_id,
            method=self._scope["method"],
            resource=resource,
            status=status,
            milliseconds=round(1000 * seconds, 2),
            **({"error": error} if error else {}),
        )
