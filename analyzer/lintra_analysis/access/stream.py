"""A stream of windows: the covariance of their noise, and windows of an interval added up to a release as any other.

What each server took back stands in the certificates (`ServerPart.remembered`). From it follows the matrix C_j that
server j really used, and with it the noise of any sum of windows (docs/proofs/together.md#streams).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lintra_analysis.certificate.certificate import ReleaseRecord
from lintra_analysis.kinds.decode import read
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.privacy.stream_matrix import STEPS, StreamMatrix
from lintra_protocol.task import Task

_ROUNDING = 1 / 12
"""Variance of what rounding to a whole step adds, in squared steps."""


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
        raise InvalidAnalysisError("the windows of this task are no stream: their noise is independent")
    return found


def noise_covariance(stream: StreamMatrix, released: Mapping[int, Sequence[Sequence[int]]]) -> FloatArray:
    """Return the covariance of the noise of released windows, all servers together, in variances of a fresh draw.

    `released` names, for each window that was released and each server, the windows whose memory entered. A window
    that only some servers released stays in their matrices; of what entered it nothing is stated, and it is taken as
    what the released window of that server before it says. Shape `(r, r)`, in the order of the windows.
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
        fresh, blurred = back, float(stream.blur) * back @ part
        places = [drawn.index(number) for number in numbers]
        covariance = fresh @ fresh.T + blurred @ blurred.T
        total += covariance[np.ix_(places, places)]
    return total


def release_between(task: Task, windows: Mapping[int, WindowNumbers], since: int, until: int) -> Release:
    """Return all released windows from `since` to `until` added up, as estimators read one release.

    `windows` are all that were released up to `until`, also those before `since`, since their noise was taken back.

    Raises:
        InvalidAnalysisError: the task has no stream, or no window of the interval was released.
    """
    if task.stream is None:
        raise InvalidAnalysisError("the windows of this task are no stream: their noise is independent")
    numbers = sorted(number for number in windows if number <= until)
    chosen = np.array([float(number >= since) for number in numbers])
    if not chosen.any():
        raise InvalidAnalysisError(f"no window from {since} to {until} was released")
    covariance = noise_covariance(task.stream, {number: windows[number].remembered for number in numbers})
    # Each row of each server is rounded once; the sum of all rows moves by less than that.
    rounded = _ROUNDING * task.num_servers * len(numbers) / task.mechanism.sigma**2
    draws = float(chosen @ covariance @ chosen) + rounded
    inside = [windows[number] for number in numbers if number >= since]
    sketch: IntArray = np.stack([each.sketch for each in inside]).sum(axis=0)
    counts: IntArray = np.stack([each.row_counts for each in inside]).sum(axis=0)
    return read(task.read_with(draws), sketch, counts)
