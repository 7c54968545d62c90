"""The outermost ASGI function: request identifiers, log lines and problem documents for everything; and uploads.

Uploads (`POST /v1/tasks/{task_id}/reports`) are answered right here from raw bytes, because the framework's routing
would cost several times as much as storing a report. Everything else goes on to the control plane.
"""

import time
import traceback
from typing import Protocol

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from lintra_protocol.errors import InternalError, LintraError, MethodNotAllowedError, UnavailableError
from lintra_protocol.http.requests import require_media_type
from lintra_server.batches.intake import Intake, screening
from lintra_server.batches.registry import RegisteredTask
from lintra_server.durability.disk_reserve import is_full
from lintra_server.node import Node
from lintra_server.web.page_access import Origins, answer_preflight, is_open, page_headers, sent_with
from lintra_service.access_log import LoggedRequest
from lintra_service.byte_budget import ByteBudget
from lintra_service.metrics import RequestMetrics
from lintra_service.responses import content_headers, problem, read_body, send_message

_PREFIX, _SUFFIX = "/v1/tasks/", "/reports"
_UPLOAD = "/v1/tasks/{task_id}/reports"
_PREFLIGHT = "preflight"

log = structlog.get_logger()


class UploadTasks(Protocol):
    """Where tasks are found; see `Registry`."""

    def find(self, task_id: str) -> RegisteredTask:
        """Return a registered task, or raise `UnknownTaskError`."""


class UploadBudget(Protocol):
    """Whether there is room on the disk; see `Readiness`."""

    def require_space(self) -> None:
        """Raise `UnavailableError` if there is not."""


class Taker(Protocol):
    """What takes uploads: a server, or one of its openers."""

    @property
    def registry(self) -> UploadTasks:
        """Where tasks are found."""

    @property
    def readiness(self) -> UploadBudget:
        """Whether there is room on the disk."""

    @property
    def uploads(self) -> ByteBudget:
        """The room for what is being read, opened or written."""

    @property
    def intake(self) -> Intake:
        """The way in."""

    @property
    def metrics(self) -> RequestMetrics:
        """What is counted."""

    @property
    def page_origins(self) -> Origins:
        """Whose pages may use this server."""

    def new_request_id(self) -> str:
        """Return a name for one request."""

    def peer(self, scope: Scope) -> str:
        """Return whose budget a request is counted against."""


class Front:
    """An ASGI application in front of another one."""

    def __init__(self, taker: Taker, inner: ASGIApp) -> None:
        """Answer uploads with `taker`, and give everything else to `inner`, with it in the request's state."""
        self._taker = taker
        self.inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return await self.inner(scope, receive, send)
        if is_open(scope) and (headers := page_headers(scope, self._taker.page_origins)):
            if scope["method"] == "OPTIONS":  # browsers ask often: counted, and not logged
                begun = time.perf_counter()
                await answer_preflight(headers, send)
                return self._taker.metrics.observe_request(_PREFLIGHT, 204, time.perf_counter() - begun)
            send = sent_with(headers, send)
        exchange = LoggedRequest(self._taker.metrics, self._taker.new_request_id(), scope, send)
        try:
            if task_id := _uploaded_task(scope):
                exchange.resource = _UPLOAD
                await send_message(exchange.send, "upload-answer", await self._upload(scope, receive, task_id))
            else:
                scope["state"]["node"] = self._taker
                await self.inner(scope, receive, exchange.send)
        except LintraError as error:
            exchange.error = error.token
            # Half an answer cannot become a problem document; without its end the connection breaks instead.
            if exchange.status is None:
                await problem(error, exchange.request_id)(scope, receive, exchange.send)
        except Exception as error:  # the last resort: say that it failed, and nothing else
            exchange.error = type(error).__name__
            refused: LintraError = UnavailableError("the disk is full") if is_full(error) else InternalError()
            # As text: a renderer of its own might show local variables, shares among them.
            log.error("failed", request_id=exchange.request_id, traceback=traceback.format_exc())
            if exchange.status is None:
                await problem(refused, exchange.request_id)(scope, receive, exchange.send)
        finally:
            exchange.finish()

    async def _upload(self, scope: Scope, receive: Receive, task_id: str) -> bytes:
        if scope["method"] != "POST":
            raise MethodNotAllowedError("reports are uploaded with POST")
        content_type, announced = content_headers(scope)
        held = self._taker.registry.find(task_id)
        require_media_type(content_type, "reports")
        self._taker.readiness.require_space()
        # The room is kept until the reports are stored, so that it bounds everything an upload takes.
        with self._taker.uploads.lease(self._taker.peer(scope)) as lease:
            body = await read_body(receive, announced, held.max_upload_bytes, lease, screening(held))
            return await self._taker.intake.accept(held, body)


class UploadRoute(Front):
    """The public application of a server that takes uploads itself."""

    def __init__(self, node: Node, inner: ASGIApp) -> None:
        """Answer uploads with `node`, and give everything else to `inner`."""
        super().__init__(node, inner)
        self.node = node


def _uploaded_task(scope: Scope) -> str | None:
    """Return the task identifier if this is the resource that takes uploads."""
    path: str = scope["path"]
    if path.startswith(_PREFIX) and path.endswith(_SUFFIX):
        task_id = path[len(_PREFIX) : -len(_SUFFIX)]
        return task_id if "/" not in task_id else None
    return None
