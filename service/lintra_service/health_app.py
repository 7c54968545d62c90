"""The internal application: is it alive, is it ready, what does it count. For operators, on a port of its own."""

from collections.abc import Callable, Sequence

import structlog
from fastapi import APIRouter, FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from lintra_protocol.errors import LintraError, UnavailableError
from lintra_service.byte_budget import ByteBudget
from lintra_service.metrics import CONTENT_TYPE, RequestMetrics
from lintra_service.middleware import ServiceMiddleware

MAX_BODY_BYTES = 1 << 16
ROOM_BYTES = 1 << 20
"""For what an operator sends: no stranger can use it up, since no stranger reaches this port."""

_log = structlog.get_logger()


def internal_app(
    service: str,
    check: Callable[[], None],
    metrics: RequestMetrics,
    new_request_id: Callable[[], str],
    routers: Sequence[APIRouter] = (),
) -> ASGIApp:
    """Return the internal application.

    `check` raises if requests cannot be served; called in a worker thread. `metrics` are what `/metrics` shows.
    """
    app = FastAPI(title=f"Lintra {service}, internal", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/healthz")
    async def alive() -> Response:
        return JSONResponse({"status": "alive"})

    @app.get("/readyz")
    async def ready() -> Response:
        try:
            await run_in_threadpool(check)
        except LintraError:
            raise
        except Exception as error:  # whatever keeps the store from answering
            _log.warning("not ready", error=type(error).__name__)
            raise UnavailableError(type(error).__name__) from None
        return JSONResponse({"status": "ready"})

    @app.get("/metrics")
    async def shown() -> Response:
        return Response(metrics.text(), headers={"content-type": CONTENT_TYPE})

    for router in routers:
        app.include_router(router)
    return ServiceMiddleware(app, new_request_id, MAX_BODY_BYTES, None, ByteBudget(ROOM_BYTES))
