"""The conformance data of `histogram_laplace`."""

from kinds.histogram import EDGES, decoded
from lintra_protocol.mechanisms import HistogramLaplace
from support.conformance import Conformance, Member, Reference, Small


def uncalibrated(small: Small) -> HistogramLaplace:
    """Return two cells a column, in steps fine enough to use a claim up."""
    cells = (EDGES,) * small.columns
    return HistogramLaplace(sigma=4, edges=cells, levels=(0,) * small.columns, indicator=1024)


CONFORMANCE = Conformance(
    uncalibrated=uncalibrated,
    decoded=decoded,
    run={"kind": "histogram_laplace", "cells": 4},
    task={"row_bound": None},
    row_bounds=(1,),
    members={"": Member(null_mu=0.506, null_tolerance=2e-3)},
    reference=Reference(
        {
            "kind": "histogram_laplace",
            "row_bound": "1",
            "fraction_bits": 0,
            "sigma": 256,
            "shares": 8,
            "indicator": 64,
            "edges": [["-1", "0", "1"], []],
            "levels": [0, 3],
        },
        num_words=7,
        decode=lambda words, columns: [((word ^ 2**63) - 2**63) / 64 for word in words[0]],
    ),
    squared_length=lambda mechanism, largest, num_words: len(mechanism.edges) * largest**2,
    noise_limits=(0.75, 3),
    noise_shared=True,
    cells=True,
)
