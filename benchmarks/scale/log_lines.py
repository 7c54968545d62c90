"""What the line costs that a server logs of each answer."""

import json
import os
from contextlib import redirect_stderr
from datetime import UTC, datetime
from pathlib import Path

import structlog
from bench_server import cpu

from lintra_service.logs import configure_logging
from lintra_service.settings import LogFormat

LOG_LINES = 4000


def log_lines(count: int = LOG_LINES) -> dict[str, float]:
    """Return microseconds of CPU of the line that a server logs of each answer, in both formats, written nowhere.

    Beside it what no line can leave out: a clock, JSON and a write.
    """
    names = {"method": "POST", "resource": "/v1/tasks/{task_id}/reports", "status": 200, "milliseconds": 1.25}
    found: dict[str, float] = {}
    before = structlog.get_config()
    with Path(os.devnull).open("w") as nowhere, redirect_stderr(nowhere):
        formats: tuple[LogFormat, ...] = ("json", "console")
        for log_format in formats:
            configure_logging("info", log_format)
            log = structlog.get_logger()
            log.info("request", request_id="0", **names)
            found[log_format] = cpu(
                lambda log=log: [log.info("request", request_id="0", **names) for _ in range(count)]
            )
        line = {"request_id": "0", "level": "info", "event": "request", **names}

        def bare() -> None:
            for _ in range(count):
                now = datetime.now(UTC).isoformat()
                nowhere.write(json.dumps(line | {"timestamp": now}) + "\n")
                nowhere.flush()

        found["bare"] = cpu(bare)
    structlog.configure(**before)
    return {name: 1e6 * seconds / count for name, seconds in found.items()}
