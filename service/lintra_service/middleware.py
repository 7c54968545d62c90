"""The layer around an application: every answer has an identifier and a log line, every refusal is a problem.

One ASGI layer around the application does it, so no route, known or unknown, can leave it out.
"""

from collections.abc import Callable, Mapping, Sequence

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lintra_protocol.errors import InternalError, LintraError, UnauthorizedError
from lintra_service.access_log import LoggedRequest
from lintra_service.byte_budget import ByteBudget
from lintra_service.client_address import Network, peer_of
from lintra_service.metrics import RequestMetrics
from lintra_service.responses import as_lintra_error, problem, read_body

_CHALLENGE = {"www-authenticate": 'Bearer realm="lintra"'}

_log = structlog.get_logger()


class ServiceMiddleware:
    """An application with identifiers, a body limit, a last resort, metrics and log lines around it."""

    def __init__(
        self,
        app: FastAPI,
        new_request_id: Callable[[], str],
        max_body_bytes: int | Callable[[Scope], int],
        metrics: RequestMetrics | None,
        room: ByteBudget,
        *,
        trusted_proxies: Sequence[Network] = (),
        state: Mapping[str, object] | None = None,
    ) -> None:
        """Wrap `app`, and make it answer every error with a problem document.

        `max_body_bytes` is of any request, or of one; the body is read whole before the application sees it. With 0 it
        is not read, and the application refuses whoever may not send one. `metrics` says where answers are counted;
        without them they are not logged either. `room` is for the bodies of all requests that are being answered.
        `trusted_proxies` says whose word about a peer's address is believed. `state` is what every request's state
        carries besides, by name.
        """
        for kind in (LintraError, RequestValidationError, HTTPException, Exception):
            app.add_exception_handler(kind, _refused)
        self._app: ASGIApp = app
        self._new_request_id = new_request_id
        self._max_body_bytes = max_body_bytes
        self._metrics = metrics
        self._room = room
        self._trusted_proxies = trusted_proxies
        self._state = dict(state or {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = LoggedRequest(self._metrics, self._new_request_id(), scope, send)
        scope["state"].update(self._state)
        try:
            limit = self._limit(scope)
            if not limit:
                await self._app(scope, _again(b"", receive), exchange.send)
                return
            # The framework would take a refusal while it reads for a broken body, so the body is read before it.
            with self._room.lease(peer_of(scope, self._trusted_proxies)) as lease:
                body = await read_body(receive, Headers(scope=scope).get("content-length"), limit, lease)
                await self._app(scope, _again(body, receive), exchange.send)
        except LintraError as error:
            await _problem(error, Request(scope))(scope, receive, exchange.send)
        except Exception:
            _log.exception("failed", request_id=exchange.request_id)
            if exchange.status is None:
                await _problem(InternalError(), Request(scope))(scope, receive, exchange.send)
            elif not exchange.finished:
                # Half an answer cannot become a problem document; the connection breaks instead.
                raise
        finally:
            exchange.finish()

    def _limit(self, scope: Scope) -> int:
        return self._max_body_bytes if isinstance(self._max_body_bytes, int) else self._max_body_bytes(scope)


def _again(body: bytes, receive: Receive) -> Receive:
    """Return a channel that gives a body that was read."""
    again: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receiving() -> Message:
        return again.pop() if again else await receive()

    return receiving


def _refused(request: Request, error: Exception) -> Response:
    response = _problem(as_lintra_error(error), request)
    response.headers.update(getattr(error, "headers", None) or {})
    return response


def _problem(error: LintraError, request: Request) -> Response:
    state = request.scope["state"]
    state["error"] = error.token
    task = request.path_params.get("task_id") or state.get("task_id")
    headers = _CHALLENGE if isinstance(error, UnauthorizedError) else None
    return problem(error, state["request_id"], task=task, headers=headers)
