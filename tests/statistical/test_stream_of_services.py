"""Twelve windows of a stream from real servers: their noise is that of the table of docs/proofs/together.md#streams."""

from math import sqrt
from pathlib import Path

import numpy as np
import pytest

from lintra_analysis.spec.stream import StreamGain, gain_of
from lintra_protocol.crypto.ring import FloatArray
from support import analyzer_world
from support.analyzer_world import NOW, Life, living, seeded

pytestmark = pytest.mark.slow

MINUTE, WINDOWS, COLUMNS, CLIENTS = 60, 12, 300, 8
ASKED = {
    "time_precision": MINUTE, "noise": "servers", "epsilon": 8, "min_clients": CLIENTS, "row_bound": 1,
    "columns": [{"name": f"c{number}", "lower": -1, "upper": 1} for number in range(COLUMNS)],
}  # fmt: skip

TABLE = {1: ("0.65", 1.96, 1.24), 2: ("0.4", 2.48, 1.24), 4: ("0.25", 2.95, 1.24)}
"""By how many windows a source answers: the damping that is chosen, the total and a single window, by the law."""

MOST = 4.0 / sqrt(2 * COLUMNS)
"""Four sampling errors of a deviation over all columns, whose noise is independent: once in 16,000 comparisons."""


async def noise_of(life: Life, clock: pytest.MonkeyPatch, reports: int) -> tuple[FloatArray, StreamGain, str]:
    """Release all windows, whose rows are 0; return their noise as the table counts it, the law, and the damping."""
    windows = {"window_seconds": 4 * MINUTE, "grace_seconds": MINUTE, "max_windows": WINDOWS, "stream": {}}
    task = await life.create("sum", purpose=f"{reports}", windows=windows, reports_per_source=reports, **ASKED)
    zeros = np.zeros(COLUMNS)
    for window in range(WINDOWS + 1):  # all within an hour: a server does not believe a clock that moves further
        clock.setattr(analyzer_world, "NOW", NOW + (4 * window + 2) * MINUTE)
        if window < WINDOWS:
            rows = [(zeros, seeded(f"{reports} {window} {number}")) for number in range(CLIENTS)]
            await life.upload(task, rows=rows, batch=window)
        while started := life.service.schedule.look():
            for job in started:
                await life.service.jobs.finished(job.task_id, job.batch)
    records = [each.record for each in life.records() if each.record.task_id == task.task_id]
    assert sorted(record.batch for record in records) == list(range(WINDOWS))
    assert task.stream is not None
    assert task.windows is not None
    assert task.windows.stream is not None
    released = {record.batch: life.service.archive.read(record)[0][0] for record in records}
    # Of plain windows of the same promise the deviation is sqrt(k) / S_k times as large as that of a fresh draw.
    plain = task.mechanism.sigma * sqrt(task.num_servers * reports / float(task.stream.squared_norm))
    noise = np.array([released[window] for window in range(WINDOWS)], np.float64) / plain
    return noise[:, :COLUMNS], gain_of(task.stream), task.windows.stream.damping


async def test_noise_of_twelve_windows_is_the_tables(tmp_path: Path) -> None:
    for reports, (damping, total, single) in TABLE.items():
        with pytest.MonkeyPatch.context() as clock:
            async with living(tmp_path / str(reports)) as life:
                noise, law, chosen = await noise_of(life, clock, reports)
                assert chosen == damping
                assert (law.total, law.single) == (pytest.approx(total, abs=0.005), pytest.approx(single, abs=0.005))
                measured = float(np.sqrt(np.mean(noise.sum(axis=0) ** 2)))
                assert abs(measured / total - 1) < MOST, (reports, measured)
                assert abs(float(np.sqrt(np.mean(noise[-1] ** 2))) / single - 1) < MOST
                # Independent noise of the same promise would be seen.
                assert measured < (1 - MOST / 2) * sqrt(WINDOWS) * single
