"""The released windows of a stream: the covariance of their noise, and what can be asked of any interval of them.

What each server took back stands in the certificates (`ServerPart.remembered`). From it follows the matrix C_j that
server j really used, and with it the noise of any sum of windows (docs/proofs/together.md#streams).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lintra_analysis.access.stream_certificate import StreamCertificate, stream_certificate
from lintra_analysis.certificate.certificate import ReleaseRecord
from lintra_analysis.estimators.estimates import Of
from lintra_analysis.estimators.timeline import Over, Timeline, timeline
from lintra_analysis.estimators.trend import TrendEstimate, trend
from lintra_analysis.kinds.decode import read
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.privacy.stream_matrix import STEPS, StreamMatrix
from lintra_protocol.task import Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NO_STREAM = "the windows of this task are no stream: their noise is independent"
_ROUNDING = 1 / 12
"""Variance of what rounding to a whole step adds to a window, in squared steps."""


@dataclass(frozen=True)
class WindowNumbers:
    """A window that was released: what each server took back for it, its integers and its row counts.

    `remembered` names earlier windows, one tuple for each server. `sketch` has shape `(1, w)`, `row_counts` `(1,)`.
    """

    remembered: tuple[tuple[int, ...], ...]
    sketch: IntArray
    row_counts: IntArray


def remembered_in(record: ReleaseRecord) -> tuple[tuple[int, ...], ...]:
    """Return which windows entered a release at each server, or raise InvalidAnalysisError if it is no stream's."""
    found = tuple(part.remembered for part in record.servers if part.remembered is not None)
    if len(found) < len(record.servers):
        raise InvalidAnalysisError(NO_STREAM)
    return found


def noise_covariance(
    stream: StreamMatrix, released: Mapping[int, Sequence[Sequence[int]]], rounding: float = 0.0
) -> FloatArray:
    """Return the covariance of the noise of released windows, all servers together, in variances of a fresh draw.

    `released` names, for each window that was released and each server, the windows whose memory entered. A window
    that only some servers released stays in their matrices; of what entered it nothing is stated, and it is taken as
    what the released window of that server before it says. `rounding` is the variance that rounding adds to what is
    taken back. Shape `(r, r)`, in the order of the windows.
    """
    numbers = sorted(released)
    total = np.zeros((len(numbers), len(numbers)))
    for server in range(len(released[numbers[0]])):
        used = {number: set(released[number][server]) for number in numbers}
        drawn = sorted(set(numbers).union(*used.values()))
        part = np.zeros((len(drawn), len(drawn)))
        known = set[int]()
        for row, number in enumerate(drawn):
            entered = used.get(number, known)
            known = entered | {number}
            for column, earlier in enumerate(drawn[:row]):
                if earlier in entered and earlier in stream.remembered_by(number):
                    part[row, column] = stream.steps[number - earlier] / STEPS
        back = np.linalg.inv(np.eye(len(drawn)) + part)
        blurred = float(stream.blur) * back @ part
        places = [drawn.index(number) for number in numbers]
        covariance = (1 + rounding) * back @ back.T + blurred @ blurred.T
        total += covariance[np.ix_(places, places)]
    return total


class WindowStream:
    """The windows of a stream that were released, by number; errors come from the whole covariance of their noise.

    `AnalyzerClient.stream` opens one. An interval is from `since` to `until`, both part of it; all windows by default.

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
    >>> stream.numbers, stream.release(0, 1).num_clients
    ((0, 1, 3), 200)
    """

    def __init__(self, task: Task, windows: Mapping[int, WindowNumbers]) -> None:
        """Read windows of a task, also those before the ones that are asked about, since their noise was taken back.

        Raises:
            InvalidAnalysisError: the task has no stream, or none of its windows was released.
        """
        if task.stream is None:
            raise InvalidAnalysisError(NO_STREAM)
        if not windows:
            raise InvalidAnalysisError("no window of this stream was released yet")
        self.task = task
        self.numbers = tuple(sorted(windows))
        self._stream, self._windows = task.stream, windows

    def __repr__(self) -> str:
        return f"WindowStream({len(self.numbers)} windows released)"

    @cached_property
    def covariance(self) -> FloatArray:
        """Return that of the noise of the released windows, in variances of one server's fresh draw."""
        return noise_covariance(self._stream, self._remembered, _ROUNDING / self.task.mechanism.sigma**2)

    @property
    def _remembered(self) -> dict[int, tuple[tuple[int, ...], ...]]:
        return {number: self._windows[number].remembered for number in self.numbers}

    def certificate(self) -> StreamCertificate:
        """Return what the certificates of all windows say together: the promise, gaps, and what servers lost.

        Raises:
            InvalidMessageError: a server named windows that cannot have entered.
        """
        return stream_certificate(self.task, self._remembered, float(self.covariance.sum()))

    def release(self, since: int = 0, until: int | None = None) -> Release:
        """Return the windows of an interval added up, as estimators read any release.

        What estimators say of a population takes all reports for those of different people.

        Raises:
            InvalidAnalysisError: no window of the interval was released.
        """
        numbers = self._between(since, until)
        chosen = np.isin(self.numbers, numbers).astype(np.float64)
        inside = [self._windows[number] for number in numbers]
        sketch: IntArray = np.sum([each.sketch for each in inside], axis=0)
        counts: IntArray = np.sum([each.row_counts for each in inside], axis=0)
        return read(self.task.read_with(float(chosen @ self.covariance @ chosen)), sketch, counts)

    def windows(self, columns: Sequence[str] | None = None, confidence: float = 0.95, *, of: Of = "cohort") -> Timeline:
        """Return the mean and the total of columns in every window; of all columns by default."""
        return self.moving(1, columns, confidence, of=of)

    def totals(
        self,
        columns: Sequence[str] | None = None,
        confidence: float = 0.95,
        *,
        of: Of = "cohort",
        since: int = 0,
        until: int | None = None,
    ) -> Timeline:
        """Return the mean and the total of columns from `since` to every window up to `until`."""
        spans = [self._span(since, number) for number in self._between(since, until)]
        return timeline("totals", spans, self.release, columns, confidence, of)

    def moving(
        self,
        width: int,
        columns: Sequence[str] | None = None,
        confidence: float = 0.95,
        *,
        of: Of = "cohort",
        since: int = 0,
        until: int | None = None,
    ) -> Timeline:
        """Return the mean and the total of columns in `width` windows in a row, up to every window of an interval.

        Raises:
            InvalidAnalysisError: the width is not at least 1, or fewer windows have passed.
        """
        if width < 1:
            raise InvalidAnalysisError(f"width: a moving sum has at least one window, got {width}")
        spans = [self._span(last - width + 1, last) for last in self._between(since, until) if last - width + 1 >= 0]
        if not spans:
            raise InvalidAnalysisError(f"width: no {width} windows in a row have passed yet")
        over: Over = "windows" if width == 1 else "moving"
        return timeline(over, spans, self.release, columns, confidence, of)

    def trend(
        self,
        column: str,
        confidence: float = 0.95,
        *,
        of: Of = "population",
        since: int = 0,
        until: int | None = None,
    ) -> TrendEstimate:
        """Return the mean of a column in every window, in all together, and how it changes."""
        numbers = self._between(since, until)
        places = np.flatnonzero(np.isin(self.numbers, numbers))
        covariance = self.covariance[np.ix_(places, places)]
        deviations = np.sqrt(covariance.diagonal())
        correlation = covariance / np.outer(deviations, deviations)
        releases = {number: self.release(number, number) for number in numbers}
        return trend(releases, column, confidence, of=of, noise_correlation=correlation)

    def plot(self, column: str, axes: "Axes | None" = None) -> "Axes":
        """Draw the mean of a column in every window, with a band; needs `lintra[plot]`."""
        return self.windows([column]).plot(axes)

    def _span(self, first: int, last: int) -> tuple[int, int, list[int]]:
        return first, last, self._between(first, last)

    def _between(self, since: int, until: int | None) -> list[int]:
        last = self.numbers[-1] if until is None else until
        numbers = [number for number in self.numbers if since <= number <= last]
        if not numbers:
            raise InvalidAnalysisError(f"no window from {since} to {last} was released")
        return numbers
