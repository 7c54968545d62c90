"""The operator's listener: alive, ready, metrics. It is never the public one."""

from typing import Annotated

from fastapi import Depends, FastAPI, Response
from sqlalchemy.exc import SQLAlchemyError
from starlette.types import ASGIApp

from lintra_analyzer.service import Service
from lintra_analyzer.web.http import Frame, add_problem_handlers
from lintra_protocol.errors import UnavailableError
from lintra_protocol.randomness import RandomBytes, system_randomness

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def create_internal_app(service: Service, random_bytes: RandomBytes = system_randomness) -> ASGIApp:
    """Return the internal application."""
    app = FastAPI(title="lintra analyzer, internal", openapi_url=None, docs_url=None, redoc_url=None)

    def store_open() -> None:
        try:
            service.store.check()
        except SQLAlchemyError as error:
            raise UnavailableError(f"the database does not answer: {type(error).__name__}") from None

    @app.get("/healthz")
    def alive() -> dict[str, str]:
        """Say that the process answers."""
        return {"status": "alive"}

    @app.get("/readyz")
    def ready(_store: Annotated[None, Depends(store_open)]) -> dict[str, str]:
        """Say whether requests can be served."""
        return {"status": "ready"}

    @app.get("/metrics", response_class=Response)
    def metrics() -> Response:
        """Return the counters for Prometheus."""
        return Response(service.metrics.text(), media_type=_METRICS_TYPE)

    add_problem_handlers(app)
    return Frame(app, service.metrics, random_bytes, service.settings.max_body_bytes)
