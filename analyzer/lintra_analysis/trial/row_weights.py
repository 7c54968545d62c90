"""The rule by which rows are weighted: row bound, constant and target's bound, from n, epsilon and rows like those.

A row counts less the farther out it lies (docs/explanation/weighted-regression.md). Shrinking more rows makes the
noise smaller, and the weighted slopes differ more from the ordinary ones. The rule is fixed beforehand, and reads how
large the noise would be if columns were independent:

* nu = 1.02 q / (n mu), for q = p + 2 numbers in a row with p features, target and constant, and n rows;
* s = min(1, 40 nu) of the rows are shrunk, min(1, 4 nu) where no target is named;
* c^2 is the mean of all columns' mean squares, so that the constant is a column like others.

Where rows are at hand, `chosen_on` takes the share and the target's factor of the smallest expected error instead.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.documents import Real, real
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import Column, Schema
from lintra_protocol.mechanisms.row_weights import WeightedBy
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.statement import Claim

FEATURES_BELOW = 0.003
"""Below this nu rows are weighted by their features alone, since noise is no longer what limits slopes."""

SHARES = (1.0, 0.7, 0.4, 0.1, 0.01, 0.0)
FACTORS = (0.7, 1.0, 1.4)
_SHRUNK, _SHRUNK_WITHOUT_TARGET = 40.0, 4.0
_TARGET_INSIDE = 0.95
_UP = 1.0005
"""A target's bound is rounded to four digits, and never below."""

_CUT_OFF = 1e-9
"""Directions of the features below this part of the largest eigenvalue count as dependent."""


@dataclass(frozen=True)
class RowWeighting:
    """How rows are weighted, in normalised units.

    Attributes:
        by: what the weight of a row depends on.
        row_bound: R, of the whole vector: constant, features and target.
        constant: c.
        target_bound: Y under "features", where the target is moved into [-Y, Y]; else None.
        target_factor: k, by which the target is multiplied; under "features" R / (sqrt(2) Y).
        noise: nu.
        share: s, of the rows that are shrunk.
    """

    by: WeightedBy
    row_bound: float
    constant: float
    target_bound: float | None
    target_factor: float
    noise: float
    share: float

    @classmethod
    def stated(cls, specification: Mapping[str, object]) -> "RowWeighting | None":
        """Return how a specification weights rows whose target, if any, is the last column; None if it does not."""
        mechanism = cast("Mapping[str, str]", specification["mechanism"])
        by = cast("WeightedBy | None", mechanism.get("row_weights"))
        if by is None:
            return None
        bound, constant = float(cast("str", specification["row_bound"])), float(mechanism["intercept"])
        if by == "all":
            return cls("all", bound, constant, None, float(mechanism.get("target_factor", 1)), math.nan, math.nan)
        reach = float(mechanism["target_bound"])
        return cls("features", bound, constant, reach, bound / math.sqrt(2) / reach, math.nan, math.nan)

    def vectors(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the vectors (c, z, k z_y), shape `(n, q)`, and the roots t of the rows' weights, shape `(n,)`.

        `rows` are normalised, shape `(n, q - 1)`, the target last if there is one.
        """
        block = np.column_stack([np.full(len(rows), self.constant), rows])
        if self.target_bound is None:
            block[:, -1] *= self.target_factor
            length, most = np.linalg.norm(block, axis=1), self.row_bound
        else:
            block[:, -1] = np.clip(block[:, -1], -self.target_bound, self.target_bound) * self.target_factor
            length, most = np.linalg.norm(block[:, :-1], axis=1), self.row_bound / math.sqrt(2)
        return block, most / np.maximum(length, most)


def relative_noise(num_numbers: int, num_rows: float, mu: float) -> float:
    """Return nu = 1.02 q / (n mu): the noise of a slope if all columns were independent and had deviation 1."""
    return 1.02 * num_numbers / (max(num_rows, 1.0) * mu)


def row_weighting(
    rows: FloatArray,
    num_rows: float,
    mu: float,
    *,
    target: bool = True,
    two_valued: bool = False,
    by: WeightedBy | None = None,
) -> RowWeighting:
    """Return the weighting that the rule gives.

    `rows` are like those that will be collected, normalised, shape `(m, d)`; with a `target` it is the last column,
    which may be `two_valued`. `num_rows` is n, those expected to be collected without a gap. `mu` is the promise. `by`
    is the author's choice; the rule's if None, and "all" without a target.
    """
    noise = relative_noise(rows.shape[1] + 1, num_rows, mu)
    if not target:
        return _weighting(rows, "all", noise, min(1.0, _SHRUNK_WITHOUT_TARGET * noise))
    by = by or ("features" if two_valued or noise < FEATURES_BELOW else "all")
    return _weighting(rows, by, noise, min(1.0, _SHRUNK * noise), two_valued=two_valued)


def chosen_on(
    rows: FloatArray, num_rows: float, mu: float, *, two_valued: bool = False, by: WeightedBy | None = None
) -> RowWeighting:
    """Return the weighting of the smallest expected error of the median slope of these rows, the target last.

    Compared are the shares `SHARES` and, where weights are by all columns, the factors `FACTORS` of the target. What
    weights depend on is the rule's, and not chosen by the error.
    """
    usual = row_weighting(rows, num_rows, mu, two_valued=two_valued, by=by)
    factors = FACTORS if usual.by == "all" else (1.0,)
    found = [
        _weighting(rows, usual.by, usual.noise, share, two_valued=two_valued, factor=factor)
        for share in SHARES
        for factor in factors
    ]
    return min(found, key=lambda weighting: expected_error(rows, weighting, num_rows, mu))


def expected_error(rows: FloatArray, weighting: RowWeighting, num_rows: float, mu: float) -> float:
    """Return the median over slopes of the root of squared bias and variance, in deviations of target over feature.

    The bias is the weighted less the ordinary slope of these rows, which have shape `(m, d)`, the target last.
    """
    vectors, roots = weighting.vectors(rows)
    theirs = vectors * roots[:, np.newaxis]
    inverse, slopes = _solved(theirs.T @ theirs * (num_rows / len(rows)))
    plain = np.column_stack([vectors[:, :1], rows])
    ordinary = _solved(plain.T @ plain)[1]
    theta = np.append(slopes, -1.0)
    kernel = 1 - 2 / (len(theta) + 1)
    spread = theta @ theta * np.eye(len(slopes)) + kernel * np.outer(slopes, slopes)
    variance = (weighting.row_bound**2 / mu) ** 2 * np.diagonal(inverse @ spread @ inverse)
    bias = slopes / weighting.target_factor - ordinary
    error = np.sqrt(bias**2 + variance / weighting.target_factor**2)[1:]
    deviations = rows.std(axis=0)
    return float(np.median(error * deviations[:-1]) / max(deviations[-1], 1e-300))


def _weighting(
    rows: FloatArray, by: WeightedBy, noise: float, share: float, *, two_valued: bool = False, factor: float = 1.0
) -> RowWeighting:
    """Return the weighting that shrinks a share of some rows."""
    constant = math.sqrt(float(np.square(rows).mean()))
    if by == "all":
        scaled = rows.copy()
        scaled[:, -1] *= factor
        bound = _bound(scaled, constant, share)
        return RowWeighting("all", bound, constant, None, factor, noise, share)
    features = _bound(rows[:, :-1], constant, share)
    sizes = np.abs(rows[:, -1])
    inside = 1.0 if two_valued else max(_TARGET_INSIDE, 1 - 10 * noise)
    reach = float(np.quantile(sizes, inside))
    reach = reach if reach > 0 else max(float(sizes.max()), 1.0)
    return RowWeighting("features", math.sqrt(2) * features, constant, reach, features / reach, noise, share)


def _bound(columns: FloatArray, constant: float, share: float) -> float:
    """Return the length with the constant that a share of the rows exceeds, at least c."""
    squares = constant**2 + np.square(columns).sum(axis=1)
    return math.sqrt(max(constant**2, float(np.quantile(squares, 1 - share))))


def _solved(gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the inverse of the features' products and the solution, without directions that depend on others."""
    inverse = np.linalg.pinv(gram[:-1, :-1], rcond=_CUT_OFF, hermitian=True)
    return np.asarray(inverse, np.float64), np.asarray(inverse @ gram[:-1, -1], np.float64)


def applies_to(mechanism: Mapping[str, object], study: Mapping[str, object]) -> bool:
    """Return whether the rule chooses for a specification: products of single rows whose bounds are not stated."""
    fixed = ("intercept", "basis", "target_bound", "target_factor", "rounding")
    return (
        mechanism.get("kind") == "second_moment"
        and study.get("row_bound") is None
        and study.get("contributors") is None
        and not any(mechanism.get(field) is not None for field in fixed)
    )


def weighted_document(
    columns: Sequence[Column],
    rows: FloatArray,
    claim: Claim,
    mechanism: Mapping[str, object],
    *,
    target: str | None = None,
    whole: float = 1.0,
    at_hand: bool = False,
) -> tuple[dict[str, object], Real]:
    """Return the mechanism of a specification with row weights, and its row bound.

    `rows` are like those that will be collected, normalised, shape `(m, d)`, as `columns` encode them. What `mechanism`
    states is kept: its `target` (or else `target`) and whether `row_weights` are by features or by all. `whole` is the
    share of rows in which no number is missing. `at_hand` says that the rows are a sample, so that the smallest
    expected error decides, and not draws column by column.

    Raises:
        InvalidTaskError: there is no such target.
    """
    encoded = Schema(tuple(columns), indicators=True).encoded
    names = [column.name for column in encoded]
    target, by = cast("str | None", mechanism.get("target") or target), mechanism.get("row_weights")
    if target is not None and target not in names:
        raise InvalidTaskError(f"target: {target!r} is none of the columns {', '.join(names)}")
    mu, count = gaussian_mu(claim.float_epsilon, claim.noise_delta), claim.min_clients * whole
    if target is None:
        found = row_weighting(rows, count, mu, target=False)
    else:
        place = names.index(target)
        column, ordered = encoded[place], np.column_stack([np.delete(rows, place, axis=1), rows[:, place]])
        two_valued = column.kind == "boolean" or (
            column.kind == "integer" and float(column.upper) - float(column.lower) == 1
        )
        rule = chosen_on if at_hand and len(ordered) > len(names) + 1 else row_weighting
        found = rule(ordered, count, mu, two_valued=two_valued, by=cast("WeightedBy | None", by))
    fields: dict[str, object] = {"trace": True} | dict(mechanism)
    fields |= {"intercept": _rounded(found.constant), "row_weights": by or found.by}
    if target is not None:
        fields["target"] = target
    if found.target_bound is not None:
        fields["target_bound"] = _rounded(found.target_bound * _UP)
    elif found.target_factor != 1:
        fields["target_factor"] = _rounded(found.target_factor)
    return fields, _rounded(found.row_bound)


def _rounded(value: float) -> Real:
    return real(f"{value:.4g}")
