"""The internal application: is it alive, is it ready, what does it count. For operators, on a port of its own."""

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from lintra_protocol.errors import LintraError, UnavailableError
from lintra_server.answers import problem
from lintra_server.metrics import CONTENT_TYPE
from lintra_server.node import Node


def create_internal_app(node: Node) -> ASGIApp:
    """Return the internal ASGI application of one server."""
    app = FastAPI(title="Lintra server, internal", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/healthz")
    async def alive() -> Response:
        return JSONResponse({"status": "alive"})

    @app.get("/readyz")
    async def ready() -> Response:
        try:
            await run_in_threadpool(node.check)
        except LintraError as error:
            return problem(error, node.new_request_id())
        except Exception as error:  # whatever keeps the store from answering
            return problem(UnavailableError(type(error).__name__), node.new_request_id())
        return JSONResponse({"status": "ready"})

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(node.metrics.text(), headers={"content-type": CONTENT_TYPE})

    return app
