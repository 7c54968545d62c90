"""The server's process: both listeners in one event loop, hourly maintenance, and an end that loses nothing."""

import asyncio
import logging
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import structlog
import uvicorn
from starlette.types import ASGIApp

from lintra_server.app import create_app
from lintra_server.internal import create_internal_app
from lintra_server.node import Node
from lintra_server.settings import Settings

MAINTENANCE_SECONDS = 3600
SHUTDOWN_SECONDS = 30
"""How long requests that were begun may take when the process is asked to stop."""

log = structlog.get_logger()


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, then finish what was begun.

    Raises:
        ValueError: a key is missing, or the database is another version's or another root key's.
    """
    configure_logging(settings.log_level)
    app = create_app(settings)
    node = app.node
    listeners = [
        _listener(app, settings.host, settings.port),
        _listener(create_internal_app(node), settings.internal_host, settings.internal_port),
    ]
    log.info(
        "starting",
        public_url=settings.public_url,
        port=settings.port,
        internal_port=settings.internal_port,
        identity_key=node.identity.public_key,
    )
    try:
        with asyncio.Runner(loop_factory=listeners[0].config.get_loop_factory()) as runner:
            runner.run(_serve(listeners, node))
    finally:
        node.close()
        log.info("stopped")


def configure_logging(level: str) -> None:
    """Write one JSON object per line to the standard error."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


class _Listener(uvicorn.Server):
    """One of several servers in a process: signals are not its business."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


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


async def _serve(listeners: list[_Listener], node: Node) -> None:
    def stop() -> None:
        for listener in listeners:
            listener.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    maintenance = asyncio.create_task(_maintain(node))
    servers = [asyncio.create_task(listener.serve()) for listener in listeners]
    # If one listener cannot start or fails, the other must not go on alone.
    await asyncio.wait(servers, return_when=asyncio.FIRST_COMPLETED)
    stop()
    await asyncio.gather(*servers)
    maintenance.cancel()
    with suppress(asyncio.CancelledError):
        await maintenance


async def _maintain(node: Node) -> None:
    while True:
        await asyncio.sleep(MAINTENANCE_SECONDS)
        try:
            await asyncio.to_thread(node.maintain)
        except Exception:  # an hour later it may work; the failure is in the log
            log.error("maintenance failed", traceback=traceback.format_exc())
