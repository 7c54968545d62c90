"""Log lines: one for each event, to the standard error; a traceback never shows values.

To log never raises and never waits for long. A disk may be full that also holds the log, or nobody may read it; a
service goes on all the same, and the first line that can be written again says how many are missing.
"""

import io
import json
import logging
import os
import select
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from lintra_service.settings import LogFormat, LogLevel

WAIT_SECONDS = 1.0
"""How long a line waits for a reader who is slow; after a line that was lost, none waits until one was written."""

_AT_ONCE = 4096
"""Bytes that a pipe takes whole if it takes any (PIPE_BUF)."""


class NeverRaisingStream(io.TextIOBase):
    """A text stream to a descriptor, whose `write` neither raises nor waits for long."""

    def __init__(self, descriptor: int) -> None:
        """Write to a descriptor, past every buffer."""
        super().__init__()
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._ready = select.poll()
        self._ready.register(descriptor, select.POLLOUT)
        self._lost = 0
        self._torn = False

    def write(self, text: str) -> int:
        """Write one line with its end, or count it as lost."""
        if not self._lock.acquire(timeout=WAIT_SECONDS):  # another thread's write hangs
            self._lost += 1
            return len(text)
        try:
            lost = self._lost
            if lost:
                text = log_line("warning", "log lines were lost", lines=lost) + text
            if self._torn:
                text = "\n" + text
            self._put(text.encode("utf-8", "backslashreplace"), 0.0 if lost else WAIT_SECONDS)
            self._lost -= lost
        except Exception:  # a full disk, no reader, no memory
            self._lost += 1
        finally:
            self._lock.release()
        return len(text)

    def flush(self) -> None:
        """Do nothing: nothing is kept back."""

    def writable(self) -> bool:
        """Return that it can be written."""
        return True

    def _put(self, data: bytes, seconds: float) -> None:
        while data:
            if not self._ready.poll(1000 * seconds):
                raise TimeoutError
            data = data[os.write(self._descriptor, data[:_AT_ONCE]) :]
            self._torn = bool(data)


_as_json = False
_descriptor = 2


def configure_logging(level: LogLevel, log_format: LogFormat) -> None:
    """Write lines of at least `level`, as JSON objects or for a person's eyes; those of libraries from warnings on."""
    global _as_json, _descriptor
    _as_json = log_format == "json"
    # Without a standard error its number may be that of a file by now.
    _descriptor = sys.stderr.fileno() if sys.stderr else os.open(os.devnull, os.O_WRONLY)
    # The renderer's own traceback would show local variables, and rows, shares and keys are among them.
    console = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    renderers: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()] if _as_json else [console]
    )
    stream = cast("TextIO", NeverRaisingStream(_descriptor))
    processors: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        *renderers,
    ]
    structlog.configure(
        processors=[never_raising(processors)],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    logging.lastResort = logging.StreamHandler(stream)
    logging.lastResort.setLevel(logging.WARNING)


def never_raising(processors: Sequence[Processor]) -> Processor:
    """Return what does as some processors do, one after the other, and gives the bare event if one of them raises."""

    def rendered(logger: WrappedLogger, method: str, event: EventDict) -> str:
        found: object = dict(event)
        try:
            for each in processors:
                found = each(logger, method, found)  # type: ignore[arg-type]
            return str(found)
        except Exception as error:  # a value that cannot be shown
            return log_line(method, str(event.get("event")), unsaid=type(error).__name__).rstrip("\n")

    return rendered


def write_last_line(reason: str) -> None:
    """Write why the process ends, past everything that may be broken; nothing is raised."""
    with suppress(Exception):
        NeverRaisingStream(_descriptor).write(log_line("critical", "halted", reason=reason))


def log_line(level: str, event: str, **values: object) -> str:
    """Return a line of the plainest kind, with its end."""
    now = datetime.now(UTC).isoformat()
    if _as_json:
        return json.dumps({"event": event, **values, "level": level, "timestamp": now}, default=str) + "\n"
    return f"{now} [{level}] {event} {' '.join(f'{name}={value}' for name, value in values.items())}\n"
