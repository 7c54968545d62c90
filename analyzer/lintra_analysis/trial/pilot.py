"""A pilot: a first task, a histogram, that gives the main task its bounds where nobody knows how large values are.

Both tasks go to the same clients and share one promise: their mu add up in squares, also though the second is made from
the first's release (Dong, Roth, Su 2022, Corollary 2). Both name their study, so that a device charges both when the
pilot's report leaves. Any use of the pilot's release costs no further privacy. The rule is still fixed beforehand and
the same for every table.
"""

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np
from pydantic import ValidationError

from lintra_analysis.estimators.histogram import at_quantile, distribution
from lintra_analysis.kinds.histogram import USUAL_CELLS
from lintra_analysis.kinds.two_rounds import claim_of_part
from lintra_analysis.releases.cell_counts import CellCounts
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.spec.build_task import claim_of
from lintra_analysis.spec.specification import ColumnSpecification, Specification
from lintra_analysis.trial.files.bounds import INNER, LOWER, UPPER, Bounds, ColumnSpread, bounded_column, row_bound_of
from lintra_analysis.trial.row_weights import applies_to, weighted_document
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.documents import first_complaint, real, real_below
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import Column, Kind, Schema
from lintra_protocol.privacy.statement import Claim

SHARE = Fraction(1, 10)
"""Which part of mu^2 the pilot has: it costs the main task 5.4 % more noise."""

DRAWN = 4000
"""So many rows are drawn from the cells, from which the row bound follows."""

Document = dict[str, object]

_NOT_OF_A_PILOT = ("row_bound", "mechanism", "epsilon", "epsilon_alone", "delta", "delta_coalition", "threat")


def pilot_document(study: Mapping[str, object], cells: int = USUAL_CELLS, share: Fraction = SHARE) -> Document:
    """Return the specification of the pilot of a study.

    `study` is a specification whose promise is that of pilot and main task together, and whose columns have the widest
    public bounds. `cells` is the number of cells of each number; `share` is the pilot's share of mu^2.
    """
    asked = _specification(study)
    total = claim_of(asked)
    claim = claim_of_part(total, float(_within(share)))
    columns = [
        {name: value for name, value in _document_of(column).items() if name not in ("center", "scale")}
        for column in asked.columns
    ]
    kept = {name: value for name, value in study.items() if name not in _NOT_OF_A_PILOT}
    return (
        kept
        | {
            "purpose": f"Pilot, how values are spread; then: {asked.purpose}"[:2000],
            "columns": columns,
            "mechanism": {"kind": "histogram", "cells": cells},
            **_epsilons(claim),
            # A part of delta that is kept for crowded rows is the main task's: a histogram has one row.
            "delta": real(Decimal(total.delta) - Decimal(total.delta_coalition)),
        }
        | _study(asked, total, share)
    )


def main_document(study: Mapping[str, object], release: CellCounts, pilot: str, share: Fraction = SHARE) -> Document:
    """Return the specification of the main task of a study, with bounds from the release of its pilot.

    `study` is the one that `pilot_document` was given; `pilot` is the identifier of the pilot's task. `share` is the
    one that `pilot_document` was given.

    Raises:
        InvalidTaskError: the study is malformed, or the release is of other columns.
    """
    asked = _specification(study)
    total = claim_of(asked)
    claim = claim_of_part(total, float(1 - _within(share)))
    names = [column.name for column in asked.columns]
    if names != [column.name for column in release.columns]:
        raise InvalidTaskError(
            f"columns: the study has {', '.join(names)}; the pilot's release has "
            f"{', '.join(column.name for column in release.columns)}"
        )
    found = bounds_of_pilot(release)
    mechanism, bound = asked.mechanism.model_dump(mode="json", exclude_unset=True), found.row_bound
    if applies_to(mechanism, study):
        rows, whole = rows_of_cells(release, found.columns, pilot)
        mechanism, bound = weighted_document(found.columns, rows, claim, mechanism, whole=whole)
    elif asked.mechanism.kind == "second_moment":
        mechanism = {"intercept": found.intercept} | mechanism
    return (
        dict(study)
        | {
            "columns": [
                _document_of(given) | ({} if column.kind == "category" else _numbers_of(column))
                for given, column in zip(asked.columns, found.columns, strict=True)
            ],
            "mechanism": mechanism,
            "row_bound": bound,
            **_epsilons(claim),
            "delta": total.delta,
            "delta_coalition": total.delta_coalition,
        }
        | _study(asked, total, share, pilot)
    )


def _epsilons(claim: Claim) -> Document:
    """Return what a task of a study promises, and who adds the noise: as for both together."""
    if claim.epsilon_alone is None:
        return {"epsilon": claim.epsilon}
    return {"epsilon": claim.epsilon, "epsilon_alone": claim.epsilon_alone, "noise": "both"}


def _study(asked: Specification, total: Claim, share: Fraction, pilot: str | None = None) -> Document:
    """Return the field `study` of both tasks; none if the main task is two rounds, which would be three tasks."""
    if asked.mechanism.num_rounds > 1:
        return {}
    named: Document = {"epsilon": total.epsilon, "delta": total.delta, "share": real_below(share)}
    if total.delta_coalition != "0":
        named["delta_coalition"] = total.delta_coalition
    if total.epsilon_alone is not None:
        named["epsilon_alone"] = total.epsilon_alone
    return {"study": named if pilot is None else named | {"pilot": pilot}}


def bounds_of_pilot(release: CellCounts) -> Bounds:
    """Apply the rule of `trial.files.bounds` to counted cells, each of which stands for its middle.

    The bounds of a number are its .1 % and 99.9 % points, inside the pilot's own.
    """
    columns, spreads = [], []
    for i, column in enumerate(release.columns):
        rising = distribution(release.counts[i], float(release.missing[i]), release.num_clients)
        parts = np.diff(rising)
        found = _column(column, release.levels[i], release.edges[i], rising)
        columns.append(found)
        spreads += _spreads(found, release.edges[i], parts)
    return row_bound_of(tuple(columns), spreads)


def rows_of_cells(release: CellCounts, columns: Sequence[Column], seed: str) -> tuple[FloatArray, float]:
    """Return `DRAWN` normalised rows drawn column by column from counted cells, shape `(DRAWN, k)`.

    Every draw stands for the middle of its cell. `columns` are the main task's; `seed` names the draws, as the pilot's
    task does, so that everybody draws the same.

    Returns:
        The rows, and the share of rows in which no number is expected to be missing.
    """
    parts, whole = [], 1.0
    for i, column in enumerate(columns):
        rising = distribution(release.counts[i], float(release.missing[i]), release.num_clients)
        whole *= 1 - min(max(float(release.missing[i]) / release.num_clients, 0.0), 0.99)
        drawn = np.frombuffer(expand(bytes(32), f"rows of pilot {seed}, column {i}")(8 * DRAWN), "<u8") / 2.0**64
        cells = np.minimum(np.searchsorted(rising[1:], drawn), len(rising) - 2)
        middles = (release.edges[i][:-1] + release.edges[i][1:]) / 2
        whole_numbers = column.kind in ("boolean", "category")
        parts.append(cells.astype(np.float64) if whole_numbers else middles[cells])
    return Schema(tuple(columns), indicators=True).normalise(np.column_stack(parts)), whole


def _column(column: ScaledColumn, levels: tuple[str, ...], edges: FloatArray, rising: FloatArray) -> Column:
    if column.kind == "category":
        return Column(name=column.name, lower="0", upper=str(len(levels) - 1), kind="category", levels=levels)
    points = [LOWER, *INNER, UPPER]
    if column.kind == "boolean":
        share = float(np.diff(rising)[1])
        return bounded_column(column.name, "boolean", (0.0, 0.0, 1.0, 1.0), share)
    low, tenth, ninetieth, high = (at_quantile(edges, rising, point / 100) for point in points)
    if column.kind == "integer":
        # Edges lie halfway between whole numbers, so that a point belongs to the nearest.
        low, high = math.floor(low + 0.5), math.ceil(high - 0.5)
    if not low < high:
        low, high = column.lower, column.upper
    middles = np.clip((edges[:-1] + edges[1:]) / 2, low, high)
    center = float(np.diff(rising) @ middles)
    within = (column.lower, column.upper)
    kind: Kind = "integer" if column.kind == "integer" else "real"
    return bounded_column(column.name, kind, (low, tenth, ninetieth, high), center, unit=column.unit, within=within)


def _spreads(column: Column, edges: FloatArray, parts: FloatArray) -> list[ColumnSpread]:
    """Return mean and deviation of each squared normalised number that a column becomes."""
    if column.kind == "category":
        return [ColumnSpread(float(part), math.sqrt(max(part * (1 - part), 0.0))) for part in parts[1:]]
    values = np.array([0.0, 1.0]) if column.kind == "boolean" else (edges[:-1] + edges[1:]) / 2
    inside = np.clip(values, float(column.lower), float(column.upper))
    squares = np.square((inside - float(column.center)) / float(column.scale))
    mean = float(parts @ squares)
    return [ColumnSpread(mean, math.sqrt(max(float(parts @ np.square(squares)) - mean**2, 0.0)))]


def _specification(study: Mapping[str, object]) -> Specification:
    try:
        asked = Specification.model_validate(dict(study))
    except ValidationError as error:
        raise InvalidTaskError(first_complaint(error)) from None
    if asked.mechanism.kind == "second_moment_wishart":
        # A part of its delta is no Gaussian's, and would be spent beside what mu^2 shares out.
        raise InvalidTaskError("mechanism: Wishart noise has no mu to share with a pilot; `second_moment` has")
    return asked


def _document_of(column: ColumnSpecification) -> Document:
    """Return a column as it was asked for, without the bounds that its kind alone gives."""
    known = {"boolean": ("lower", "upper"), "category": ("lower", "upper", "center", "scale")}.get(column.kind, ())
    document = column.model_dump(mode="json", exclude_unset=True)
    return {name: value for name, value in document.items() if name not in known}


def _numbers_of(column: Column) -> Document:
    names = ("center", "scale") if column.kind == "boolean" else ("lower", "upper", "center", "scale")
    return {name: getattr(column, name) for name in names}


def _within(share: Fraction) -> Fraction:
    if not 0 < share < 1:
        raise InvalidTaskError(f"the pilot's share of mu^2 lies between 0 and 1, got {float(share):g}")
    return share
