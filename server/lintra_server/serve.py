"""The server's process: both listeners, hourly maintenance, and an end that loses nothing."""

import asyncio
from contextlib import suppress

import structlog

from lintra_server.settings import Settings
from lintra_server.web.app import create_app
from lintra_server.web.internal import create_internal_app
from lintra_server.web.upload_route import UploadRoute
from lintra_service import serve
from lintra_service.logs import configure_logging
from lintra_service.readiness import PROBE_SECONDS

MAINTENANCE_SECONDS = 3600

log = structlog.get_logger()


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, then finish what was begun.

    Raises:
        InvalidSettingsError: a key is missing, or the database is another version's or another root key's.
    """
    configure_logging(settings.log_level, settings.log_format)
    app = create_app(settings)
    log.info(
        "starting",
        public_url=settings.public_url,
        port=settings.port,
        internal_port=settings.internal_port,
        identity_key=app.node.identity.public_key,
    )
    try:
        serve.run(lambda: _serve(settings, app))
    finally:
        app.node.close()
        log.info("stopped")


async def _serve(settings: Settings, app: UploadRoute) -> None:
    maintenance = asyncio.create_task(serve.repeat(MAINTENANCE_SECONDS, app.node.maintain, "maintenance"))
    looking = asyncio.create_task(serve.repeat(PROBE_SECONDS, app.node.readiness.probe, "readiness"))
    await serve.serve_until_stopped(settings, app, create_internal_app(app.node))
    for background in (maintenance, looking):
        background.cancel()
        with suppress(asyncio.CancelledError):
            await background
