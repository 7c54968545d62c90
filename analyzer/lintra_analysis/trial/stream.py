"""A stream in one process: the rows of every window, the servers' noise with what each remembers, the releases."""

import time
from collections.abc import Mapping

import numpy as np

from lintra_analysis.access.stream import NO_STREAM, WindowNumbers, WindowStream
from lintra_analysis.trial.collection import exact_sums, trial_task
from lintra_protocol.crypto.randomness import RandomBytes, bulk_system_randomness
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.mechanisms.stream_noise import stream_noise
from lintra_protocol.rules.release import check_cohort


def stream_trial(
    specification: Mapping[str, object], windows: Mapping[int, FloatArray], random_bytes: RandomBytes | None = None
) -> WindowStream:
    """Collect rows of a table of yours window by window, as a stream of a real task would; nothing leaves the process.

    >>> import numpy as np
    >>> from lintra_analysis import stream_trial
    >>> asked = {
    ...     "purpose": "sleep, week by week",
    ...     "columns": [{"name": "sleep", "lower": 0, "upper": 14}],
    ...     "mechanism": {"kind": "sum"}, "row_bound": 1, "noise": "servers",
    ...     "epsilon": 1, "min_clients": 100, "reports_per_source": 1,
    ...     "windows": {"window_seconds": 604800, "grace_seconds": 86400, "max_windows": 52, "stream": {}},
    ... }
    >>> stream = stream_trial(asked, {week: np.full((100, 1), 7.5) for week in (0, 1, 3)})
    >>> stream.totals().gaps
    (2,)

    Args:
        specification: of a task whose windows are a stream.
        windows: the rows of each window in users' units, shape `(n, d)`; one that is not there is a gap.
        random_bytes: by default the operating system's.

    Returns:
        The released windows, as `AnalyzerClient.stream` gives those of a real task.

    Raises:
        InvalidAnalysisError: the windows of the specification are no stream.
        LintraError: the specification is impossible, a row is outside its columns, or a window has too few rows.
    """
    secret = bulk_system_randomness() if random_bytes is None else random_bytes
    task = trial_task(specification, int(time.time()), secret)
    if task.stream is None:
        raise InvalidAnalysisError(NO_STREAM)
    memories: list[dict[int, IntArray]] = [{} for _ in range(task.num_servers)]
    found = {}
    for window in sorted(windows):
        rows = task.schema_arrays.rows(windows[window])
        check_cohort(task, len(rows), len(rows))
        total = exact_sums(task, rows, secret)
        remembered = []
        for memory in memories:
            known = {earlier: memory[earlier] for earlier in task.stream.remembered_by(window) if earlier in memory}
            noise, memory[window] = stream_noise(task.measurement, window, known, secret)
            total += noise
            remembered.append(tuple(known))
        found[window] = WindowNumbers(tuple(remembered), total[np.newaxis], np.array([len(rows)], np.int64))
    return WindowStream(task, found)
