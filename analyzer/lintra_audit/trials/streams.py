"""A stream under audit: the windows of one honest server, many runs at a time, and the mistakes that are planted there.

Against everybody else a source is hidden by one server's noise in the windows that it answers. Runs are words of one
report, as in `simulated_release`: a task of one column becomes one of as many columns as there are runs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import sqrt

import numpy as np

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.stream_noise import stream_noise
from lintra_protocol.privacy.stream_matrix import StreamMatrix
from lintra_protocol.task import Task

DrawWindows = Callable[[Measurement, RandomBytes], IntArray]
"""From a measurement of a stream to one server's noise in all windows, shape `(windows, w)`."""

MOST_WINDOWS = 8
"""Of an audited stream: the worst set of windows is found by trying all."""


def stream_windows(measurement: Measurement, random_bytes: RandomBytes) -> IntArray:
    """Return one server's noise in all windows of a stream of which nothing is lost, shape `(windows, w)`."""
    memories, found = dict[int, IntArray](), []
    for row in range(_stream_of(measurement).rows):
        noise, memories[row] = stream_noise(measurement, row, memories, random_bytes)
        found.append(noise)
    return np.array(found)


def _fresh_noise_twice(measurement: Measurement, random_bytes: RandomBytes) -> IntArray:
    """Draw window 1 with the fresh noise of window 0 once more, as a server does that drew it again after a crash."""
    given: list[bytes] = []

    def recorded(count: int) -> bytes:
        given.append(random_bytes(count))
        return given[-1]

    memories, found = dict[int, IntArray](), []
    for row in range(_stream_of(measurement).rows):
        again = iter(tuple(given))
        source = (lambda _count, again=again: next(again)) if row == 1 else recorded if row == 0 else random_bytes
        noise, memories[row] = stream_noise(measurement, row, memories, source)
        found.append(noise)
    return np.array(found)


def _other_matrix(measurement: Measurement, random_bytes: RandomBytes) -> IntArray:
    """Take back as if the damping were 1, where the promise was computed with that of the task."""
    stream = replace(_stream_of(measurement), damping=Fraction(1))
    return stream_windows(replace(measurement, setting=replace(measurement.setting, stream=stream)), random_bytes)


def _root_of_k(measurement: Measurement, random_bytes: RandomBytes) -> IntArray:
    """Draw noise for sqrt(k) times one report, the formula of independent windows, in the place of S_k."""
    stream = _stream_of(measurement)
    part = sqrt(stream.reports / float(stream.squared_norm))
    return stream_windows(measurement.changed(sigma=round(measurement.mechanism.sigma * part)), random_bytes)


STREAM_FAULTS: dict[str, DrawWindows] = {
    "fresh-noise-twice": _fresh_noise_twice,
    "other-matrix": _other_matrix,
    "root-of-k": _root_of_k,
}
"""By name; each replaces how a server draws its windows."""


@dataclass(frozen=True)
class StreamScene:
    """Everything public about an audited stream.

    Attributes:
        shift: by how much a source moves each window, in ring units, shape `(windows,)`: it answers the worst set.
        covariance: of one server's noise, shape `(windows, windows)`, in squared ring units.
        exact_mu: of that shift: S_k D / sigma, where S_k is that of the worst set of all.
    """

    measurement: Measurement
    shift: IntArray
    covariance: FloatArray
    exact_mu: float

    @classmethod
    def of(cls, task: Task) -> "StreamScene":
        """Return the scene of a task of one column and at most `MOST_WINDOWS` windows."""
        stream, measurement = _stream_of(task.measurement), task.measurement
        dense, sigma = stream.dense(), float(task.mechanism.sigma)
        gram = dense.T @ dense
        sets = [list(chosen) for chosen in combinations(range(stream.rows), stream.reports)]
        worst = max(sets, key=lambda chosen: float(gram[np.ix_(chosen, chosen)].sum()))
        distance = int(sqrt(float(measurement.squared_distance)))
        shift = np.zeros(stream.rows, np.int64)
        shift[worst] = distance
        back, part = np.linalg.inv(dense), dense - np.eye(stream.rows)
        blur = float(stream.blur) ** 2 * part @ part.T
        covariance = sigma**2 * back @ (np.eye(stream.rows) + blur) @ back.T
        exact = sqrt(float(gram[np.ix_(worst, worst)].sum())) * distance / sigma
        return cls(measurement, shift, covariance, exact)

    def runs(self, trials: int, random_bytes: RandomBytes, draw: DrawWindows) -> IntArray:
        """Return the released windows of so many runs without the source, shape `(trials, windows)`."""
        many = replace(self.measurement, num_columns=trials)
        return draw(many, random_bytes).T.copy()

    def scores(self, released: IntArray) -> FloatArray:
        """Return the stated law's log-likelihood ratio, up to a factor; positive says that the source is there."""
        weights = np.linalg.solve(self.covariance, self.shift.astype(np.float64))
        scores: FloatArray = (released - self.shift / 2) @ weights
        return scores


def _stream_of(measurement: Measurement) -> StreamMatrix:
    stream = measurement.setting.stream
    if stream is None:
        raise ValueError("an audited stream is one")
    return stream
