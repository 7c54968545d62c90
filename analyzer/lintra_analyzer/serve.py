"""The analyzer's process: both listeners in one event loop, and an end that leaves every job resumable."""

import asyncio
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
import uvicorn
from starlette.types import ASGIApp

from lintra_analyzer.service import Service, World, http_client
from lintra_analyzer.settings import Settings
from lintra_analyzer.storage.keys import load_keys
from lintra_analyzer.web.app import create_app
from lintra_analyzer.web.internal import create_internal_app
from lintra_protocol.randomness import system_randomness

SHUTDOWN_SECONDS = 30
"""How long requests that were begun may take when the process is asked to stop."""

_log = structlog.get_logger(__name__)


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        InvalidSettingsError: a key is missing, or the database is another version's.
    """
    configure_logging(settings.log_format)
    asyncio.run(_serve(settings))
    _log.info("stopped")


def configure_logging(log_format: str) -> None:
    """Write one line for each event to the standard error; a traceback never shows values."""
    console = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    renderer = structlog.processors.JSONRenderer() if log_format == "json" else console
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([structlog.processors.format_exc_info] if log_format == "json" else []),
            renderer,
        ],
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


class _Listener(uvicorn.Server):
    """One of two servers in a process: signals are not its business."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(settings: Settings) -> None:
    keys = load_keys(settings.data_dir / "keys", settings.create_keys, system_randomness)
    async with http_client(settings) as http:
        service = Service(settings, keys, World(http, lambda: int(time.time()), system_randomness))
        listeners = [
            _listener(create_app(service), settings.host, settings.port),
            _listener(create_internal_app(service), settings.internal_host, settings.internal_port),
        ]
        _log.info("starting", port=settings.port, internal_port=settings.internal_port, **_public(service))
        if not settings.token_hashes:
            _log.warning("no token is known, so nobody is let in; see `lintra analyzer token`")
        async with service.running():
            await _until_stopped(listeners)


async def _until_stopped(listeners: list[_Listener]) -> None:
    def stop() -> None:
        for listener in listeners:
            listener.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    serving = [asyncio.create_task(listener.serve()) for listener in listeners]
    # If one listener cannot start or fails, the other must not go on alone.
    await asyncio.wait(serving, return_when=asyncio.FIRST_COMPLETED)
    stop()
    await asyncio.gather(*serving)


def _listener(app: ASGIApp, host: str, port: int) -> _Listener:
    return _Listener(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
    )


def _public(service: Service) -> dict[str, str]:
    return {"identity_key": service.keys.identity.public_key, "author_key": service.keys.author.public_key}
