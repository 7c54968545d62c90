"""The analyzer's process: both listeners, and an end that leaves every job resumable."""

import asyncio
import time

import structlog
from starlette.types import ASGIApp

from lintra_analyzer.service import Service, World, http_client
from lintra_analyzer.settings import Settings
from lintra_analyzer.storage.keys import load_keys
from lintra_analyzer.web.app import create_app
from lintra_protocol.crypto.randomness import system_randomness
from lintra_service import process
from lintra_service.health_app import internal_app
from lintra_service.logs import configure_logging
from lintra_service.supervisor import Supervisor

log = structlog.get_logger()


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT."""
    configure_logging(settings.log_level, settings.log_format)
    process.run(lambda: _serve(settings), Supervisor())
    log.info("stopped")


def create_internal_app(service: Service) -> ASGIApp:
    """Return the internal application."""
    return internal_app("analyzer", service.readiness.require, service.metrics, service.new_request_id)


async def _serve(settings: Settings) -> None:
    keys = load_keys(settings.key_folder, settings.create_keys, system_randomness)
    async with http_client(settings) as http:
        service = Service(settings, keys, World(http, lambda: int(time.time()), system_randomness))
        log.info(
            "starting",
            port=settings.port,
            internal_port=settings.internal_port,
            identity_key=keys.identity.public_key,
            author_key=keys.author.public_key,
        )
        if service.access.lets_nobody_in:
            log.warning("no token is valid, so nobody is let in; see `lintra analyzer access add`")
        async with service.running():
            warming = asyncio.create_task(service.work.warm_up(), name="the processes of plans and analyses")
            try:
                await process.serve_until_stopped(settings, create_app(service), create_internal_app(service))
            finally:
                warming.cancel()
