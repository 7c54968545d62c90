"""The audits of `histogram`: rows that share no cell, values on the edges of cells, and missing numbers."""

from functools import partial
from typing import cast

import numpy as np

from lintra_audit.kinds.kind_audit import KindAudit, Planted
from lintra_audit.kinds.organisations import organisation_audit
from lintra_audit.trials.audit_case import Case, make_case_task, numbers
from lintra_audit.trials.neighbours import Pair
from lintra_audit.trials.planted_faults import noiseless, only_for, without_noise_in
from lintra_audit.trials.scaled_task import MAX_CLIENTS, twin_of
from lintra_audit.trials.simulated_release import encode
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.histogram import Histogram
from lintra_protocol.mechanisms.layout import Layout
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.noise.discrete_gaussian import discrete_gaussian
from lintra_protocol.privacy.statement import Neighbours
from lintra_protocol.task import Task

_EDGES = ("-1", "0", "1")


def cases() -> list[Case]:
    """Return two columns of two cells, against a row and against the null row."""
    return [
        Case("histogram", "cells of two columns, n = 10, d = 2, t = 1", partial(_task, "replace-one"), 10),
        Case("histogram-null-row", "the same, row or null row", partial(_task, "zero-out"), 10),
    ]


def _task(neighbours: Neighbours) -> Task:
    plain = _of_columns(2, indicator=64)
    return make_case_task(plain, num_columns=2, min_clients=10, max_corrupt_clients=1, neighbours=neighbours)


def _of_columns(num_columns: int, indicator: int) -> Histogram:
    edges, levels = (_EDGES,) * num_columns, (0,) * num_columns
    return Histogram(sigma=4, edges=edges, levels=levels, indicator=indicator)


def farthest(task: Task) -> Pair:
    """Return a row at all lower bounds and one at all upper bounds, which share no cell."""
    columns = task.schema_arrays
    return columns.lower.copy(), columns.upper.copy()


def nearest(task: Task) -> Pair:
    """Return two rows that lie in the same cells."""
    mechanism, lower = cast("Histogram", task.mechanism), task.schema_arrays.lower
    inside = [float(ends[0]) / 2 + float(ends[1]) / 2 if ends else 0.0 for ends in mechanism.edges]
    return lower.copy(), np.array(inside)


def hostile(mechanism: Mechanism, num_columns: int) -> FloatArray:
    """Return rows on and around every edge, far beyond the outer ones, and without numbers, shape `(k, d)`."""
    ends = {float(end) for column in cast("Histogram", mechanism).edges for end in column} | {0.0, 1.0}
    values = sorted(ends | {np.nextafter(end, side) for end in ends for side in (-np.inf, np.inf)} | {-1e300, 1e300})
    same = np.repeat(np.array(values)[:, np.newaxis], num_columns, axis=1)
    other = same.copy()
    other[:, 1::2] = same[::-1, 1::2]
    missing = same.copy()
    missing[:, 0] = np.nan
    return np.concatenate([same, other, missing, np.full((1, num_columns), np.nan)])


def twin(task: Task) -> Task:
    """Return one or two columns of two cells."""
    mechanism, columns = cast("Histogram", task.mechanism), min(task.num_columns, 2)
    small = _of_columns(columns, mechanism.indicator)
    return twin_of(task, small, min(task.claim.min_clients, MAX_CLIENTS), numbers(columns))


def _closed_cells(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode with cells closed on both sides: a value on an inner edge counts in both."""
    noised, own = encode(measurement, rows, random_bytes), cast("Histogram", measurement.mechanism)
    start = 0
    for column, ends in enumerate(own.edges):
        for cell, edge in enumerate(ends[1:-1]):
            noised[..., start + cell] += own.indicator * (rows[..., column] == float(edge))
        start += own.cells[column] + 1
    return noised


def _noise_of_one_column(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode with the noise that one column alone would need."""
    exact = noiseless(measurement, rows)
    alone = round(measurement.mechanism.sigma / len(cast("Histogram", measurement.mechanism).edges) ** 0.5)
    return exact + discrete_gaussian(exact.shape, alone, random_bytes)


def _last_cells(layout: Layout) -> slice:
    words = layout.num_words
    # The last cell is that of missing values.
    return slice(words - 2, words - 1)


AUDIT = KindAudit(
    cases=cases,
    faults={
        "noise-of-one-column": Planted(
            "the noise is that of one column, though a row is counted in two",
            only_for("histogram", _noise_of_one_column),
            "histogram",
            frozenset({"optimal test", "noise law"}),
        ),
        "closed-cells": Planted(
            "a value on an edge is counted in both cells",
            only_for("histogram", _closed_cells),
            "histogram",
            frozenset({"encoder"}),
        ),
        "bare-last-cell": Planted(
            "the last cell is what is left of the rows, without noise of its own",
            without_noise_in("histogram", _last_cells),
            "histogram",
            frozenset({"optimal test", "black box", "noise law"}),
        ),
    },
    farthest=farthest,
    nearest=nearest,
    hostile=hostile,
    twin=twin,
    organisations=organisation_audit("cells", _of_columns(2, indicator=64)),
)
