"""The server's process: its listeners, the operators' among them, hourly maintenance, and an end that loses nothing."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import structlog
from starlette.types import ASGIApp

from lintra_server.node import Node
from lintra_server.settings import Settings
from lintra_server.web.app import create_app
from lintra_server.web.upload_route import UploadRoute
from lintra_server.web.workers import Workers
from lintra_service import process
from lintra_service.health_app import internal_app
from lintra_service.logs import configure_logging
from lintra_service.readiness import PROBE_SECONDS
from lintra_service.supervisor import Supervisor, track_work

MAINTENANCE_SECONDS = 3600

log = structlog.get_logger()


def run(settings: Settings, workers: int = 1) -> None:
    """Serve until SIGTERM or SIGINT, then finish what was begun.

    With more than one of `workers`, so many processes take uploads, and this one is their gate.
    """
    configure_logging(settings.log_level, settings.log_format)
    app = create_app(settings)
    supervisor = Supervisor()
    app.node.supervise(supervisor)
    log.info(
        "starting",
        public_url=settings.public_url,
        port=settings.port,
        internal_port=settings.internal_port,
        identity_key=app.node.identity.public_key,
    )
    try:
        process.run(lambda: _serve(settings, app, workers, supervisor), supervisor)
    finally:
        with track_work("the end"):
            app.node.close()
        log.info("stopped")


async def _serve(settings: Settings, app: UploadRoute, workers: int, supervisor: Supervisor) -> None:
    maintenance = process.repeat(MAINTENANCE_SECONDS, app.node.maintain, "maintenance")
    looking = process.repeat(PROBE_SECONDS, app.node.readiness.probe, "readiness")
    if workers == 1:
        await process.serve_until_stopped(settings, app, create_internal_app(app.node))
    else:
        openers = Workers(app.node, app.inner, workers, supervisor)
        internal = create_internal_app(app.node, openers.check)
        try:
            await process.until_stopped([(process.operators_listener(settings, internal), None)])
        finally:
            await openers.stop()
    for background in (maintenance, looking):
        background.cancel()
        with suppress(asyncio.CancelledError):
            await background


def create_internal_app(node: Node, check: Callable[[], None] | None = None) -> ASGIApp:
    """Return the internal ASGI application of one server; `check` raises if requests cannot be served."""
    return internal_app("server", check or node.check, node.metrics, node.new_request_id)
