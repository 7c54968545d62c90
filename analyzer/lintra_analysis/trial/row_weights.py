"""The rule by which rows are weighted: row bound, constant and target's bound, from n, epsilon and rows like those.

A row counts less the farther out it lies (docs/explanation/weighted-regression.md). Shrinking more rows makes the
noise smaller, and the weighted slopes differ more from the ordinary ones. The rule is fixed beforehand, and reads how
large the noise would be if columns were independent:

* nu = 1.02 q / (n mu), for q = p + 2 numbers in a row with p features, target and constant, and n rows;
* s = min(1, 40 nu) of the rows are shrunk, min(1, 4 nu) where no target is named;
* c^2 is the mean of all columns' mean squares, so that the constant is a column like others.

Where rows are at hand, `chosen_on` takes the share and the target's factor of the smallest expected error instead,
and nothing is shrunk where that does not pay. `turning_of` such rows gives the matrix that turns features which nearly
agree into ones that do not.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from lintra_analysis.estimators.ordinary_slopes import allowances
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

_TWO_SIDED = 1.96
_LEAST_SHARE = 0.001
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


def share_shrunk(noise: float, *, target: bool = True) -> float:
    """Return s, the share of rows that count less where `noise` is nu."""
    return min(1.0, (_SHRUNK if target else _SHRUNK_WITHOUT_TARGET) * noise)


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
        return _weighting(rows, "all", noise, share_shrunk(noise, target=False))
    by = by or ("features" if two_valued or noise < FEATURES_BELOW else "all")
    return _weighting(rows, by, noise, share_shrunk(noise), two_valued=two_valued)


def chosen_on(
    rows: FloatArray,
    num_rows: float,
    mu: float,
    *,
    two_valued: bool = False,
    by: WeightedBy | None = None,
    turn: FloatArray | None = None,
) -> RowWeighting:
    """Return the weighting of the smallest expected error of the median slope of these rows, the target last.

    Compared are the shares `SHARES` and, where weights are by all columns, the factors `FACTORS` of the target. What
    weights depend on is the rule's, and not chosen by the error. No row is shrunk where the median half-width of an
    interval for the ordinary slope, the allowance in it, would be larger than without shrinking. `turn` is the matrix
    that turned the features of `rows`; slopes are those of the features before, and the constant is then 1.
    """
    usual = row_weighting(rows, num_rows, mu, two_valued=two_valued, by=by)
    factors, constant = FACTORS if usual.by == "all" else (1.0,), None if turn is None else 1.0
    found = [
        _weighting(rows, usual.by, usual.noise, share, two_valued=two_valued, factor=factor, constant=constant)
        for share in SHARES
        for factor in factors
    ]
    best = min(found, key=lambda weighting: expected_error(rows, weighting, num_rows, mu, turn))
    plain = min(
        (each for each in found if not each.share), key=lambda each: expected_error(rows, each, num_rows, mu, turn)
    )
    return min(plain, best, key=lambda weighting: half_width(rows, weighting, num_rows, mu, turn))


def turning_of(features: FloatArray) -> FloatArray:
    """Return T = S^(-1/2), shape `(p, p)`, S the covariance of rows of shape `(m, p)`; T in decimals of 12 digits.

    Eigenvalues of S below a thousandth of the largest are raised to it.
    """
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(features.T)))
    raised = np.maximum(values, max(_LEAST_SHARE * float(values[-1]), 1e-300))
    root = (vectors / np.sqrt(raised)) @ vectors.T
    return np.array([[float(f"{entry:.12g}") for entry in row] for row in (root + root.T) / 2])


def half_width(
    rows: FloatArray, weighting: RowWeighting, num_rows: float, mu: float, turn: FloatArray | None = None
) -> float:
    """Return the median half-width of a 95 % interval for an ordinary slope, widened by the allowance of these rows.

    Rows and `turn` are as in `chosen_on`. Without shrinking there is nothing to allow for but the target's bound.
    """
    vectors, roots = weighting.vectors(rows)
    bounded = np.column_stack([vectors[:, :-1], vectors[:, -1] / weighting.target_factor])
    plain = np.column_stack([vectors[:, :1], rows])
    allowed = allowances(plain, bounded, np.square(roots), num_rows, turn)[0]
    deviation, unit = _noise_deviations(rows, weighting, num_rows, mu, turn)
    return float(np.median((_TWO_SIDED * deviation + allowed) * unit))


def expected_error(
    rows: FloatArray, weighting: RowWeighting, num_rows: float, mu: float, turn: FloatArray | None = None
) -> float:
    """Return the median over slopes of the root of squared bias and variance, in deviations of target over feature.

    The bias is the weighted less the ordinary slope of these rows, which have shape `(m, d)`, the target last. `turn`
    is as in `chosen_on`.
    """
    vectors, roots = weighting.vectors(rows)
    theirs, plain = vectors * roots[:, np.newaxis], np.column_stack([vectors[:, :1], rows])
    slopes = _solved(theirs.T @ theirs)[1] / weighting.target_factor
    bias = (slopes - _solved(plain.T @ plain)[1])[1:]
    deviation, unit = _noise_deviations(rows, weighting, num_rows, mu, turn)
    return float(np.median(np.hypot(bias if turn is None else bias @ turn, deviation) * unit))


def _noise_deviations(
    rows: FloatArray, weighting: RowWeighting, num_rows: float, mu: float, turn: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return the deviations of slopes that noise causes, and what makes them those of standardised columns, `(p,)`."""
    vectors, roots = weighting.vectors(rows)
    theirs = vectors * roots[:, np.newaxis]
    inverse, slopes = _solved(theirs.T @ theirs * (num_rows / len(rows)))
    theta = np.append(slopes, -1.0)
    kernel = 1 - 2 / (len(theta) + 1)
    spread = theta @ theta * np.eye(len(slopes)) + kernel * np.outer(slopes, slopes)
    covariance = (inverse @ spread @ inverse)[1:, 1:]
    features = rows[:, :-1]
    if turn is not None:
        covariance, features = turn.T @ covariance @ turn, features @ np.linalg.inv(turn).T
    deviation = weighting.row_bound**2 / mu / weighting.target_factor * np.sqrt(np.maximum(np.diagonal(covariance), 0))
    return deviation, features.std(axis=0) / max(float(rows[:, -1].std()), 1e-300)


def _weighting(
    rows: FloatArray,
    by: WeightedBy,
    noise: float,
    share: float,
    *,
    two_valued: bool = False,
    factor: float = 1.0,
    constant: float | None = None,
) -> RowWeighting:
    """Return the weighting that shrinks a share of some rows; the constant is a column like others if not given."""
    constant = math.sqrt(float(np.square(rows).mean())) if constant is None else constant
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
    fixed = ("intercept", "basis", "target_bound", "target_factor", "features_basis", "rounding")
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
    states is kept: its `target` (or else `target`) and whether `row_weights` are by features or by all. With `turned`
    the features are turned by `turning_of` the rows. `whole` is the share of rows in which no number is missing.
    `at_hand` says that the rows are a sample, so that the smallest expected error decides, and not draws column by
    column.

    Raises:
        InvalidTaskError: there is no such target, or nothing to turn features by.
    """
    encoded = Schema(tuple(columns), indicators=True).encoded
    names = [column.name for column in encoded]
    target, by = cast("str | None", mechanism.get("target") or target), mechanism.get("row_weights")
    if target is not None and target not in names:
        raise InvalidTaskError(f"target: {target!r} is none of the columns {', '.join(names)}")
    mu, count = gaussian_mu(claim.float_epsilon, claim.noise_delta), claim.min_clients * whole
    mechanism = dict(mechanism)
    turns, turn, scale = mechanism.pop("turned", False), None, 1.0
    if turns and (target is None or not at_hand or len(rows) <= len(names) + 1):
        raise InvalidTaskError(
            "turned: features are turned by the covariance of a public sample, for a target; give both, and more rows "
            "than columns"
        )
    if target is None:
        found = row_weighting(rows, count, mu, target=False)
    else:
        place = names.index(target)
        column, ordered = encoded[place], np.column_stack([np.delete(rows, place, axis=1), rows[:, place]])
        two_valued = column.kind == "boolean" or (
            column.kind == "integer" and float(column.upper) - float(column.lower) == 1
        )
        stated_by = cast("WeightedBy | None", by)
        if turns:
            turn, scale = turning_of(ordered[:, :-1]), max(float(ordered[:, -1].std()), 1e-12)
            ordered = np.column_stack([ordered[:, :-1] @ turn.T, ordered[:, -1] / scale])
        if at_hand and len(ordered) > len(names) + 1:
            found = chosen_on(ordered, count, mu, two_valued=two_valued, by=stated_by, turn=turn)
        else:
            found = row_weighting(ordered, count, mu, two_valued=two_valued, by=stated_by)
    fields: dict[str, object] = {"trace": True} | mechanism
    fields |= {"intercept": _rounded(found.constant), "row_weights": by or found.by}
    if target is not None:
        fields["target"] = target
    if found.target_bound is not None:
        fields["target_bound"] = _rounded(found.target_bound * scale * _UP)
    elif found.target_factor != scale:
        fields["target_factor"] = _rounded(found.target_factor / scale)
    if turn is not None:
        fields["features_basis"] = [[real(entry) for entry in row] for row in turn.tolist()]
    return fields, _rounded(found.row_bound)


def _rounded(value: float) -> Real:
    return real(f"{value:.4g}")
