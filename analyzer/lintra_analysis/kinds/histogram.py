"""Asking for `histogram`: cells of equal width, or edges that the analyst names."""

from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from typing import ClassVar, Literal

from pydantic import Field

from lintra_analysis.kinds.kind import Asking, Circumstances, MechanismSpecification, Number, no_warnings
from lintra_protocol.encoding.documents import Real, fraction, real
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import Column, Name
from lintra_protocol.mechanisms.encoder import MIN_SIGMA
from lintra_protocol.mechanisms.histogram import MAX_CELLS, Histogram
from lintra_protocol.privacy.statement import Claim

USUAL_CELLS = 64

_DIGITS = 12


class HistogramSpecification(MechanismSpecification):
    """How many rows lie in each cell of each column.

    A number has `cells` cells of equal width between its bounds, an integer no more than it has values; or the cells
    between the `edges` given for it, which begin and end at its bounds. A boolean or category has one cell a level.
    """

    takes_missing: ClassVar[bool] = True
    takes_contributors: ClassVar[bool] = True
    takes_proofs: ClassVar[bool] = True
    takes_norm: ClassVar[bool] = False

    kind: Literal["histogram"]
    cells: int = Field(default=USUAL_CELLS, ge=1, le=MAX_CELLS, strict=True)
    edges: dict[Name, list[Number]] = Field(default_factory=dict)

    def chosen(self, claim: Claim, columns: Sequence[Column], row_bound: Real | None) -> dict[str, object]:
        """Return how many cells a number has."""
        del claim, columns, row_bound
        return {"cells": self.cells}

    def wanted(self, circumstances: Circumstances) -> tuple[Claim, Histogram]:
        """Return the histogram of all columns.

        Raises:
            InvalidTaskError: a row bound was asked for, or edges of a column that there is not.
        """
        if circumstances.row_bound is not None:
            raise InvalidTaskError("row_bound: a histogram clips no rows; leave it out")
        known = {column.name for column in circumstances.columns}
        if strange := sorted(set(self.edges) - known):
            raise InvalidTaskError(f"mechanism.edges: there is no column {strange[0]!r}")
        mechanism = histogram_of(circumstances.columns, self.cells, self.edges)
        return circumstances.claim, circumstances.calibrated(mechanism, circumstances.claim)


def histogram_of(columns: Sequence[Column], cells: int, edges: dict[str, list[Real]]) -> Histogram:
    """Return the histogram of some columns, not yet calibrated.

    `columns` are with their public bounds; `cells` are those of a number without edges of its own.

    Raises:
        InvalidTaskError: edges are given for a column that has levels, or they do not increase.
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


ASKING = Asking(Histogram, HistogramSpecification, no_warnings, own_units=True)
