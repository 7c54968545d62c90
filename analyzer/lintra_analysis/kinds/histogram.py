"""`histogram`: rows in cells of equal width, or between edges that the analyst names."""

import math
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from lintra_analysis.kinds.context import CalibrationContext
from lintra_analysis.kinds.kind import Kind, no_warnings
from lintra_analysis.kinds.options import MechanismSpecification, Number
from lintra_analysis.kinds.plausibility import of_histogram
from lintra_analysis.kinds.prediction import Expected
from lintra_analysis.kinds.released_parts import Earlier, number_of_rows, scaled_columns
from lintra_analysis.releases.cell_counts import CellCounts
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.documents import Real, fraction, real
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import Column, Name
from lintra_protocol.mechanisms.histogram import MAX_CELLS, Histogram
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.noise_law import MIN_SIGMA
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import Task

USUAL_CELLS = 64

_DIGITS = 12


class HistogramSpecification(MechanismSpecification):
    """How many rows lie in each cell of each column.

    A number has `cells` cells of equal width between its bounds, an integer no more than it has values; or the cells
    between the `edges` given for it, which begin and end at its bounds. A boolean or category has one cell a level.
    """

    takes_server_noise: ClassVar[bool] = True
    takes_missing: ClassVar[bool] = True
    takes_contributors: ClassVar[bool] = True
    takes_proofs: ClassVar[bool] = True
    takes_floor: ClassVar[bool] = True
    takes_norm: ClassVar[bool] = False

    kind: Literal["histogram"]
    cells: int = Field(default=USUAL_CELLS, ge=1, le=MAX_CELLS, strict=True)
    edges: dict[Name, list[Number]] = Field(default_factory=dict)

    def defaults(self, claim: Claim, columns: Sequence[Column], row_bound: Real | None) -> dict[str, object]:
        """Return how many cells a number has."""
        del claim, columns, row_bound
        return {"cells": self.cells}


def build(context: CalibrationContext[HistogramSpecification]) -> Measurement:
    """Return the histogram of all columns.

    Raises InvalidTaskError if a row bound was asked for, or edges of a column that there is not.
    """
    edges = context.options.edges
    if context.row_bound is not None:
        raise InvalidTaskError("row_bound: a histogram clips no rows; leave it out")
    if strange := sorted(set(edges) - {column.name for column in context.columns}):
        raise InvalidTaskError(f"mechanism.edges: there is no column {strange[0]!r}")
    mechanism = histogram_of(context.columns, context.options.cells, edges)
    return context.calibrated(mechanism)


def histogram_of(columns: Sequence[Column], cells: int, edges: dict[str, list[Real]]) -> Histogram:
    """Return the histogram of some columns, not yet calibrated.

    `columns` have public bounds; `cells` are those of a number without edges of its own. Raises InvalidTaskError if
    edges are given for a column that has levels, or they do not increase.
    """
    found, levels = [], []
    for column in columns:
        count = 2 if column.kind == "boolean" else len(column.levels)
        own = edges.get(column.name)
        if own is not None and count:
            raise InvalidTaskError(f"mechanism.edges: {column.name!r} has one cell for each of its {count} levels")
        levels.append(count)
        found.append(() if count else tuple(own) if own is not None else _equal_width(column, cells))
    for column, ends in zip(columns, found, strict=True):
        rising = all(fraction(low) < fraction(high) for low, high in pairwise(ends))
        if not rising or len(ends) == 1:
            raise InvalidTaskError(f"mechanism.edges: those of {column.name!r} are not 2 or more that increase")
    return Histogram(sigma=MIN_SIGMA, edges=tuple(found), levels=tuple(levels))


def _equal_width(column: Column, cells: int) -> tuple[Real, ...]:
    """Return edges of equal width; those of integers lie halfway between two of them, so that none is on an edge."""
    lower, upper = Decimal(column.lower), Decimal(column.upper)
    if column.kind == "integer":
        values = int(upper - lower) + 1
        count = min(cells, values)
        inner = [lower + values * i // count - Decimal("0.5") for i in range(1, count)]
    else:
        inner = [lower + (upper - lower) * i / cells for i in range(1, cells)]
    spelled = [real(f"{edge:.{_DIGITS}g}") for edge in inner]
    return (column.lower, *spelled, column.upper)


def predict(context: CalibrationContext[HistogramSpecification], mechanism: Histogram) -> Expected:
    """Predict the error of a cell, of a share, and of the part of the rows below an edge, of the first column.

    The error of a part of the rows is that in the middle of a column, where it is largest, if no value is missing: with
    all cells brought into line with the number of rows its variance is
    v (i (m + 1 - i) - 2 F i + F^2 m) / (m + 1) after i of m cells, F = i / m, v a cell's.
    """
    clients, layout = context.claim.min_clients, context.measured(mechanism).layout
    sigma, cell = float(layout.own_deviation("cells")), float(layout.deviation("cells", clients))
    cells = mechanism.cells[0]
    half = cells // 2
    middle = (half * (cells + 1 - half) - 2 * half**2 / cells + half**2 / cells) / (cells + 1)
    deviations = {"cell": cell, "share of a cell": cell / clients}
    if middle:
        deviations["share below an edge"] = cell * math.sqrt(middle) / clients
    return Expected(sigma, deviations)


def read(task: Task, mechanism: Histogram, sketch: IntArray, row_counts: IntArray, earlier: Earlier) -> Release:
    """Return the rows in each cell of each column, from a sketch of shape `(1, w)`."""
    del earlier
    num_reports = int(row_counts.sum())
    counts = mechanism.by_column(task.measurement.decode(sketch))
    cells = CellCounts(
        columns=scaled_columns(task),
        edges=tuple(np.array([float(fraction(end)) for end in ends]) for ends in mechanism.edges),
        levels=tuple(_levels(column) for column in task.columns),
        counts=tuple(own[:-1] for own in counts),
        missing=np.array([own[-1] for own in counts]),
        noise_sd=float(task.measurement.layout.deviation("cells", num_reports)),
        num_clients=number_of_rows(task, sketch, row_counts),
        counted=task.setting.count == "noisy",
    )
    return Release(cells=cells)


def _levels(column: Column) -> tuple[str, ...]:
    return ("0", "1") if column.kind == "boolean" else column.levels


KIND = Kind(Histogram, HistogramSpecification, build, predict, read, no_warnings, own_units=True, totals=of_histogram)
