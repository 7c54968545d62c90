"""The noise of a server in one window of a stream: fresh noise, less a public part of what it added to earlier windows.

A server remembers m_i = e_i + f_i of window i, where e_i is the noise that it added and f_i is blur. It keeps neither
e_i nor the fresh noise (docs/proofs/together.md#streams).
"""

from collections.abc import Mapping

import numpy as np

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.noise_law import drawn_together
from lintra_protocol.privacy.stream_matrix import STEPS, StreamMatrix


def stream_noise(
    measurement: Measurement, row: int, memories: Mapping[int, IntArray], random_bytes: RandomBytes
) -> tuple[IntArray, IntArray]:
    """Draw a server's noise of a window, and what it remembers of it; once for each window.

    Args:
        measurement: of a task whose windows are a stream.
        row: the number of the window.
        memories: what is remembered of earlier windows, by their number, each of shape `(w,)`; what is missing is 0.
        random_bytes: the server's own; fresh noise is read first, then blur.

    Returns:
        e and m, both of shape `(w,)`, in ring units. Only e enters the release, and only m is kept.

    Raises:
        ValueError: the task has no stream.
    """
    stream = measurement.setting.stream
    if stream is None:
        raise ValueError("only windows of a stream remember noise")
    fresh = measurement.noise(1, random_bytes)[0]
    noise: IntArray = fresh - carried(stream, row, memories, fresh.size)
    runs = [(blur_deviation(stream, sigma), places) for sigma, places in measurement.layout.words_by_sigma]
    if not stream.blur:
        return noise, noise.copy()
    return noise, noise + drawn_together(runs, (1, fresh.size), random_bytes)[0]


def carried(stream: StreamMatrix, row: int, memories: Mapping[int, IntArray], size: int) -> IntArray:
    """Return the sum of T[row, i] m_i over earlier windows, rounded to integers, halves up; shape `(size,)`."""
    total = np.full(size, STEPS // 2, np.int64)
    for window in stream.remembered_by(row):
        if window in memories:
            total += stream.steps[row - window] * memories[window]
    return total // STEPS


def blur_deviation(stream: StreamMatrix, sigma: int) -> int:
    """Return ceil(rho sigma), the deviation of the blur of a word whose noise has deviation `sigma`."""
    return -int(-stream.blur * sigma // 1)
