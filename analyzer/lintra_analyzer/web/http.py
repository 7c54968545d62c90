"""What every HTTP answer has in common: a request identifier, a problem document where it is no success, a log line.

One ASGI layer around the application does it, so no route, known or unknown, can leave it out.
"""

import time
from collections.abc import Callable

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lintra_analyzer.web.metrics import Metrics
from lintra_protocol import problems
from lintra_protocol.errors import (
    InternalError,
    InvalidMessageError,
    LintraError,
    MessageTooLargeError,
    MethodNotAllowedError,
    OverloadedError,
    UnauthorizedError,
    UnavailableError,
    UnknownResourceError,
)
from lintra_protocol.randomness import RandomBytes

REQUEST_ID_HEADER = "lintra-request-id"
RETRY_AFTER = "2"
"""Seconds after which a client may ask again."""

_log = structlog.get_logger(__name__)
_REQUEST_ID_BYTES = 16


class Frame:
    """The layer around an application: identifiers, body limit, last resort, metrics and log line."""

    def __init__(self, app: ASGIApp, metrics: Metrics, random_bytes: RandomBytes, max_body_bytes: int) -> None:
        """Wrap `app`."""
        self._app = app
        self._metrics = metrics
        self._random_bytes = random_bytes
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = self._random_bytes(_REQUEST_ID_BYTES).hex()
        scope.setdefault("state", {})["request_id"] = request_id
        began, status = time.monotonic(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", []),
                    (REQUEST_ID_HEADER.encode(), request_id.encode()),
                    (b"x-content-type-options", b"nosniff"),
                ]
            await send(message)

        try:
            await self._answer(scope, receive, sending)
        finally:
            route = getattr(scope.get("route"), "path", "unknown")
            seconds = time.monotonic() - began
            self._metrics.request(scope["method"], route, status, seconds)
            _log.info(
                "request", request_id=request_id, method=scope["method"], route=route, status=status,
                seconds=round(seconds, 4),
            )  # fmt: skip

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = finished = False

        async def watching(message: Message) -> None:
            nonlocal started, finished
            started = True
            finished = message["type"] == "http.response.body" and not message.get("more_body")
            await send(message)

        try:
            # The framework would take a refusal while it reads for a broken body.
            await self._app(scope, await _read(receive, self._max_body_bytes), watching)
        except LintraError as error:
            await problem_response(error, Request(scope))(scope, receive, send)
        except Exception:
            _log.exception("unexpected", request_id=scope["state"]["request_id"])
            if not started:
                await problem_response(InternalError(), Request(scope))(scope, receive, send)
            elif not finished:
                # Half an answer cannot become a problem document; the connection breaks instead.
                raise


async def _read(receive: Receive, limit: int) -> Receive:
    """Read the whole body, and return a channel that gives it again.

    Raises:
        MessageTooLargeError: it exceeds the limit; the rest was not read.
    """
    body, more = bytearray(), True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > limit:
            raise MessageTooLargeError(f"at most {limit} bytes are taken")
    again: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def receiving() -> Message:
        return again.pop() if again else await receive()

    return receiving


def problem_response(error: LintraError, request: Request) -> JSONResponse:
    """Return the answer that an error becomes."""
    document = problems.to_problem(
        error,
        instance=f"urn:lintra:request:{request.scope['state']['request_id']}",
        task=request.path_params.get("task_id") or request.scope["state"].get("task_id"),
    )
    headers = {}
    if isinstance(error, UnauthorizedError):
        headers["www-authenticate"] = 'Bearer realm="lintra analyzer"'
    if isinstance(error, OverloadedError | UnavailableError):
        headers["retry-after"] = RETRY_AFTER
    return JSONResponse(document, int(document["status"]), headers, problems.MEDIA_TYPE)


def add_problem_handlers(app: FastAPI) -> None:
    """Make an application answer every error with a problem document."""

    def refused(request: Request, error: Exception) -> JSONResponse:
        return problem_response(as_lintra_error(error), request)

    for kind in (LintraError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, refused)


def as_lintra_error(error: Exception) -> LintraError:
    """Translate what the framework raises by itself."""
    if isinstance(error, LintraError):
        return error
    if isinstance(error, RequestValidationError):
        return InvalidMessageError(_complaint(error))
    if isinstance(error, HTTPException):
        known: dict[int, Callable[[], LintraError]] = {404: UnknownResourceError, 405: MethodNotAllowedError}
        return known.get(error.status_code, lambda: InvalidMessageError(str(error.detail)))()
    return InternalError()


def _complaint(error: RequestValidationError) -> str:
    """Say which field is wrong and why, without the offending value."""
    complaint = error.errors()[0]
    # "body" and the tags of unions are the framework's words, not the sender's.
    where = ".".join(str(part) for part in complaint["loc"][1:]) or "body"
    return f"{where}: {complaint['msg'].removeprefix('Value error, ')}"
