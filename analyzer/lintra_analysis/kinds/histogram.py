"""`histogram`: rows in cells of equal width, or between edges that the analyst names."""

import math
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from math import prod
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from lintra_analysis.kinds.context import CalibrationContext
from lintra_analysis.kinds.kind import Kind, no_warnings
from lintra_analysis.kinds.options import MechanismSpecification, Number, SpecPart
from lintra_analysis.kinds.plausibility import of_histogram
from lintra_analysis.kinds.prediction import Expected
from lintra_analysis.kinds.released_parts import Earlier, number_of_rows, scaled_columns
from lintra_analysis.releases.cell_counts import CellCounts
from lintra_analysis.releases.crossed_cells import CrossedCells
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

FEW_CLIENTS, FEW_BINS, MANY_BINS = 10_000, 20, 60
"""Up to so many clients a survival curve has few bins, and many from there on: binning biases tests as sqrt n."""

_DIGITS = 12


class SurvivalSpecification(SpecPart):
    """Which columns are the duration and the event of a survival curve, and its public end."""

    time: Name
    event: Name
    end: Number


class HistogramSpecification(MechanismSpecification):
    """How many rows lie in each cell of each column.

    A number has `cells` cells of equal width between its bounds, an integer no more than it has values; or the cells
    between the `edges` given for it, which begin and end at its bounds. A boolean or category has one cell a level.
    `crossed` counts all combinations of cells together, at most 4,096 of them. `survival` does so with the cells of a
    duration that a survival curve needs; the other columns are the event and, if there are any, groups.
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
    crossed: bool = False
    survival: SurvivalSpecification | None = None

    def defaults(self, claim: Claim, columns: Sequence[Column], row_bound: Real | None) -> dict[str, object]:
        """Return how many cells a number has."""
        del claim, columns, row_bound
        return {"cells": self.cells}


def build(context: CalibrationContext[HistogramSpecification]) -> Measurement:
    """Return the histogram of all columns."""
    return context.calibrated(mechanism_of(context))


def mechanism_of(context: CalibrationContext[HistogramSpecification]) -> Histogram:
    """Return the histogram of all columns, not yet calibrated.

    Raises InvalidTaskError if a row bound was asked for, or edges of a column that there is not.
    """
    options = context.options
    edges = options.edges
    if context.row_bound is not None:
        raise InvalidTaskError("row_bound: a histogram clips no rows; leave it out")
    if strange := sorted(set(edges) - {column.name for column in context.columns}):
        raise InvalidTaskError(f"mechanism.edges: there is no column {strange[0]!r}")
    crossed = options.crossed or options.survival is not None
    if options.survival is not None:
        edges = {**edges, options.survival.time: survival_edges(context, options.survival)}
    mechanism = histogram_of(context.columns, options.cells, edges)
    cells = prod(mechanism.cells)
    if crossed and not (len(mechanism.cells) >= 2 and cells <= MAX_CELLS):
        raise InvalidTaskError(
            f"mechanism.crossed: {len(mechanism.cells)} columns have {cells} cells together; it takes 2 columns at "
            f"least and {MAX_CELLS} cells at most"
        )
    return mechanism.model_copy(update={"crossed": crossed})


def survival_edges(context: CalibrationContext[HistogramSpecification], asked: SurvivalSpecification) -> list[Real]:
    """Return bins of equal width from the duration's lower bound to the public end, and a last one beyond it.

    There are 20 bins up to 10,000 clients and 60 from there on. Raises InvalidTaskError if a column does not fit.
    """
    columns = {column.name: column for column in context.columns}
    for role, name, kinds in (("time", asked.time, ("real", "integer")), ("event", asked.event, ("boolean",))):
        if name not in columns or columns[name].kind not in kinds:
            raise InvalidTaskError(f"mechanism.survival.{role}: {name!r} is no column of the kind {' or '.join(kinds)}")
    column = columns[asked.time]
    lower, end, upper = (Decimal(one) for one in (column.lower, asked.end, column.upper))
    if not lower < end < upper:
        raise InvalidTaskError(
            f"mechanism.survival.end: expected more than {lower} and less than {upper}, the bounds of {asked.time!r}, "
            "so that what happens later has a cell of its own"
        )
    bins = FEW_BINS if context.claim.min_clients <= FEW_CLIENTS else MANY_BINS
    inner = [lower + (end - lower) * i / bins for i in range(1, bins)]
    return [column.lower, *(real(f"{edge:.{_DIGITS}g}") for edge in inner), asked.end, column.upper]


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
    if middle and not mechanism.crossed:
        deviations["share below an edge"] = cell * math.sqrt(middle) / clients
    return Expected(sigma, deviations)


def read(task: Task, mechanism: Histogram, sketch: IntArray, row_counts: IntArray, earlier: Earlier) -> Release:
    """Return the rows in each cell of each column, from a sketch of shape `(1, w)`."""
    del earlier
    num_reports = int(row_counts.sum())
    counts = mechanism.by_column(task.measurement.decode(sketch))
    columns, levels = scaled_columns(task), tuple(_levels(column) for column in task.columns)
    edges = tuple(np.array([float(fraction(end)) for end in ends]) for ends in mechanism.edges)
    noise_sd = float(task.measurement.layout.deviation("cells", num_reports))
    rows, counted = number_of_rows(task, sketch, row_counts), task.setting.count == "noisy"
    if mechanism.crossed:
        whole = counts[0][:-1].reshape(mechanism.cells)
        missing = float(counts[0][-1])
        return Release(crossed=CrossedCells(columns, edges, levels, whole, missing, noise_sd, rows, counted))
    missing_of_each = np.array([own[-1] for own in counts])
    each = tuple(own[:-1] for own in counts)
    return Release(cells=CellCounts(columns, edges, levels, each, missing_of_each, noise_sd, rows, counted))


def _levels(column: Column) -> tuple[str, ...]:
    return ("0", "1") if column.kind == "boolean" else column.levels


KIND = Kind(Histogram, HistogramSpecification, build, predict, read, no_warnings, own_units=True, totals=of_histogram)
