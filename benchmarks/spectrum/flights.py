"""The flights of the NDIS papers: departure delay, a constant and arrival delay, each divided by its norm.

With them the published rule gives the printed noise to six digits, and without the constant to three. Bounds and scales
are taken from the data as in the papers, which is not private.
"""

import bz2

import numpy as np
from bench_ndis_survey import FLIGHTS
from showing import FloatArray

from lintra_curator.ndis.least_squares import influences

FLIGHT_SKETCH_ROWS = 1200


def flights() -> FloatArray:
    """Return departure delay, a constant and arrival delay, each divided by its norm: the flights of version 3."""
    with bz2.open(FLIGHTS) as stream:
        delays = np.load(stream, allow_pickle=False)[:, [4, 11]].astype(np.float64)
    rows = np.column_stack([delays[:, 0], np.ones(len(delays)), delays[:, 1]])
    scaled: FloatArray = rows / np.linalg.norm(rows, axis=0)
    return scaled


def longest(rows: FloatArray) -> float:
    """Return the largest norm of a row: the papers' l."""
    return float(np.linalg.norm(rows, axis=1).max())


def most_telling(rows: FloatArray) -> tuple[float, float]:
    """Return leverage p and residual share s of the row with the largest leverage p + s, the target last."""
    leverages, shares = influences(rows[:, :-1], rows[:, -1])
    worst = int(np.argmax(leverages + shares))
    return float(leverages[worst]), float(shares[worst])
