"""Log lines: one for each event, to the standard error; a traceback never shows values."""

import logging
import sys

import structlog

from lintra_service.settings import LogFormat, LogLevel


def configure_logging(level: LogLevel, log_format: LogFormat) -> None:
    """Write lines of at least `level`, as JSON objects or for a person's eyes."""
    # The renderer's own traceback would show local variables, and rows, shares and keys are among them.
    console = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    renderers = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if log_format == "json"
        else [console]
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
