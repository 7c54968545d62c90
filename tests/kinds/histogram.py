"""The conformance data of `histogram`."""

import numpy as np

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.mechanisms import Histogram
from support.conformance import Conformance, Member, Small

EDGES = ("-1", "0", "1")


def uncalibrated(small: Small) -> Histogram:
    """Return two cells a column; a row bound has no meaning here."""
    return Histogram(sigma=4, edges=(EDGES,) * small.columns, levels=(0,) * small.columns)


def decoded(mechanism: Histogram, row: FloatArray, bound: float) -> FloatArray:
    """Return a 1 in the cell of each column; the last of three is for missing values."""
    del mechanism, bound
    cells: FloatArray = np.concatenate([np.eye(3)[int(value >= 0)] for value in row])
    return cells


CONFORMANCE = Conformance(
    uncalibrated=uncalibrated,
    decoded=decoded,
    run={"kind": "histogram", "cells": 4},
    task={"row_bound": None},
    row_bounds=(1,),
    members={"": Member(null_mu=2**-0.5)},
    squared_length=lambda mechanism, largest, num_words: len(mechanism.edges) * largest**2,
    cells=True,
)
