"""A service's process: both listeners in one event loop, until SIGTERM or SIGINT, and then what was begun is ended."""

import asyncio
import signal
import socket
from collections.abc import Callable, Coroutine, Sequence

import structlog
import uvicorn
from starlette.types import ASGIApp

from lintra_service.listener import Listener, listener
from lintra_service.memory import give_back_large_blocks
from lintra_service.settings import ServiceSettings
from lintra_service.supervisor import Supervisor, require_endless

OPERATOR_CONNECTIONS = 100

_log = structlog.get_logger()


def run(main: Callable[[], Coroutine[None, None, None]], supervisor: Supervisor) -> None:
    """Run a service's main coroutine in the fastest event loop that is installed, under a supervisor."""
    give_back_large_blocks()
    with asyncio.Runner(loop_factory=uvicorn.Config(_no_app, log_config=None).get_loop_factory()) as runner:
        supervisor.watch_loop(runner.get_loop())
        supervisor.start()
        runner.run(main())


async def serve_until_stopped(settings: ServiceSettings, public: ASGIApp, internal: ASGIApp) -> None:
    """Serve both applications until the process is asked to stop, and end what was begun."""
    public_one = listener(public, settings.host, settings.port, settings.max_connections)
    await until_stopped([(public_one, None), (operators_listener(settings, internal), None)])


def operators_listener(settings: ServiceSettings, internal: ASGIApp) -> Listener:
    """Return the listener for operators."""
    return listener(internal, settings.internal_host, settings.internal_port, OPERATOR_CONNECTIONS)


async def until_stopped(listeners: Sequence[tuple[Listener, list[socket.socket] | None]]) -> None:
    """Serve with some listeners until the process is asked to stop, and end what was begun.

    `listeners` are each with the sockets that it listens on; its own, if none are given.
    """

    def stop() -> None:
        for one, _ in listeners:
            one.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    serving = [asyncio.create_task(one.serve(sockets)) for one, sockets in listeners]
    # If one listener cannot start or fails, the other must not go on alone.
    await asyncio.wait(serving, return_when=asyncio.FIRST_COMPLETED)
    stop()
    await asyncio.gather(*serving)


def repeat(seconds: float, work: Callable[[], None], name: str) -> asyncio.Task[None]:
    """Begin to do `work` in a thread every so many seconds, until the task that is returned is cancelled.

    A failure is logged, and the next time it may succeed.
    """
    return require_endless(asyncio.create_task(_repeat(seconds, work, name), name=name))


async def _repeat(seconds: float, work: Callable[[], None], name: str) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            await asyncio.to_thread(work)
        except Exception:
            _log.exception("failed", work=name)


async def _no_app(*_: object) -> None:
    """Stand for an application where only the event loop is asked for."""
