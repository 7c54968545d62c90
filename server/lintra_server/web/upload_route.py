"""The outermost ASGI function: request identifiers, log lines and problem documents for everything; and uploads.

Uploads (`POST /v1/tasks/{task_id}/reports`) are answered right here from raw bytes, because the framework's routing
would cost several times as much as storing a report. Everything else goes on to the control plane.
"""

import traceback

import structlog
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from lintra_protocol.errors import (
    InternalError,
    LintraError,
    MethodNotAllowedError,
)
from lintra_protocol.transport import require_media_type
from lintra_server.batches.intake import max_upload_bytes, screening
from lintra_server.node import Node
from lintra_service.answers import answer, problem, read_body
from lintra_service.exchange import Exchange

_PREFIX, _SUFFIX = "/v1/tasks/", "/reports"
_UPLOAD = "/v1/tasks/{task_id}/reports"

log = structlog.get_logger()


class UploadRoute:
    """An ASGI application in front of another one."""

    def __init__(self, node: Node, inner: ASGIApp) -> None:
        """Answer uploads with `node`, and give everything else to `inner`, with `node` in the request's state."""
        self.node = node
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return await self._inner(scope, receive, send)
        exchange = Exchange(self.node.metrics, self.node.new_request_id(), scope, send)
        try:
            if task_id := _uploaded_task(scope):
                exchange.resource = _UPLOAD
                response = await self._upload(scope, receive, task_id)
                await response(scope, receive, exchange.send)
            else:
                scope["state"]["node"] = self.node
                await self._inner(scope, receive, exchange.send)
        except LintraError as error:
            exchange.error = error.token
            await problem(error, exchange.request_id)(scope, receive, exchange.send)
        except Exception as error:  # the last resort: say that it failed, and nothing else
            exchange.error = type(error).__name__
            # As text: a renderer of its own might show local variables, shares among them.
            log.error("failed", request_id=exchange.request_id, traceback=traceback.format_exc())
            if exchange.status is None:
                await problem(InternalError(), exchange.request_id)(scope, receive, exchange.send)
        finally:
            exchange.finish()

    async def _upload(self, scope: Scope, receive: Receive, task_id: str) -> Response:
        if scope["method"] != "POST":
            raise MethodNotAllowedError("reports are uploaded with POST")
        headers = Headers(scope=scope)
        held = self.node.registry.find(task_id)
        require_media_type(headers.get("content-type"), "reports")
        self.node.readiness.require_space()
        # The room is kept until the reports are stored, so that it bounds everything an upload takes.
        with self.node.uploads.lease(self.node.peer(scope)) as lease:
            announced, limit = headers.get("content-length"), max_upload_bytes(held)
            body = await read_body(receive, announced, limit, lease, screening(held))
            uploaded = await self.node.intake.accept(held, body)
        return answer("upload-answer", uploaded.canonical())


def _uploaded_task(scope: Scope) -> str | None:
    """Return the task identifier if this is the resource that takes uploads."""
    path: str = scope["path"]
    if path.startswith(_PREFIX) and path.endswith(_SUFFIX):
        task_id = path[len(_PREFIX) : -len(_SUFFIX)]
        return task_id if "/" not in task_id else None
    return None
