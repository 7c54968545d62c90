"""Releases as data: what a mechanism has made public, with all that an estimator must know about it.

A release is post-processed as often as the analyst likes. All numbers are in normalised units; a `repr` shows
the shape and never the numbers, so that logs hold none of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from lintra_analysis.releases.centred_products import CentredProducts
from lintra_analysis.releases.columns import Column, positions, require_distinct, require_workable
from lintra_analysis.releases.gram import ExchangeableRows, GramEstimate, SymmetricNoise
from lintra_analysis.releases.joint_sums import ProjectedSums
from lintra_protocol.errors import InvalidAnalysisError, InvalidReleaseError
from lintra_protocol.ring import FloatArray, IntArray

__all__ = ["Column", "Release", "SecondMoment", "Sketch", "Sum"]


@dataclass(frozen=True, eq=False, repr=False)
class Sketch:
    """The public matrix times noised rows, divided by gamma sqrt(s) (Burkhardt et al. 2025, Section 3).

    Attributes:
        columns: the d columns.
        values: shape `(m, d)`.
        row_counts: shape `(m,)`, the clients that met in each row.
        noise_variance: shape `(m,)`, the variance of the privacy noise in every entry of each row.
        num_clients: rows of Z that are in the sketch.
        row_bound: the L2 norm that no row of Z exceeds.
    """

    columns: tuple[Column, ...]
    values: FloatArray
    row_counts: IntArray
    noise_variance: FloatArray
    num_clients: int
    row_bound: float

    def __post_init__(self) -> None:
        _check_common(self.columns, self.num_clients, self.row_bound)
        rows = _checked_shape(self.values, (None, len(self.columns)))[0]
        if rows < 2:
            raise InvalidReleaseError(f"a sketch needs at least 2 rows, got {rows}")
        _checked_shape(self.row_counts, (rows,))
        _checked_shape(self.noise_variance, (rows,))
        if (self.row_counts < 0).any() or (self.noise_variance < 0).any():
            raise InvalidReleaseError("row counts and noise variances cannot be negative")
        require_workable(self.values, self.noise_variance, self.row_bound)

    def __repr__(self) -> str:
        rows, size = self.values.shape
        return f"Sketch(rows={rows}, columns={size}, num_clients={self.num_clients})"

    def restrict(self, names: Sequence[str]) -> "Sketch":
        """Return the release of the named columns only, in that order."""
        index = positions(self.columns, names)
        return replace(self, columns=tuple(self.columns[i] for i in index), values=self.values[:, index])

    def second_moment(self) -> GramEstimate:
        """Return Y^T Y - V I with V = sum_r v_r, unbiased over the noise and the public matrix."""
        total = float(self.noise_variance.sum())
        matrix = self.values.T @ self.values - total * np.eye(len(self.columns))
        errors = ExchangeableRows(self.values, self.noise_variance)
        return GramEstimate(self.columns, matrix, errors, self.num_clients, self.row_bound)


@dataclass(frozen=True, eq=False, repr=False)
class SecondMoment:
    """The noisy sum of z z^T ("Analyze Gauss": Dwork, Talwar, Thakurta, Zhang 2014).

    Attributes:
        columns: the d columns.
        values: shape `(d, d)`, symmetric.
        noise_sd: sd of the noise off the diagonal; on it, sqrt(2) times that, save for the two options.
        num_clients: rows of Z.
        row_bound: the L2 norm that no row of Z exceeds.
        trace_columns: over how many columns a noisy trace has tightened the diagonal; 0 for none. Of the whole
            release, also where this is a part of it.
        exact: name of a column whose product with itself is public, so that it carries no noise; empty for none.
        gaussian: whether the noise is Gaussian, and not only of these variances.
    """

    columns: tuple[Column, ...]
    values: FloatArray
    noise_sd: float
    num_clients: int
    row_bound: float
    trace_columns: int = 0
    exact: str = ""
    gaussian: bool = True

    def __post_init__(self) -> None:
        _check_common(self.columns, self.num_clients, self.row_bound)
        size = len(self.columns)
        _checked_shape(self.values, (size, size))
        _check_noise_sd(self.noise_sd)
        require_workable(self.values, self.noise_sd, self.row_bound)
        if not np.allclose(self.values, self.values.T, rtol=1e-9, atol=1e-9 * float(np.abs(self.values).max())):
            raise InvalidReleaseError("a second moment must be symmetric")
        if self.trace_columns < 0:
            raise InvalidReleaseError(f"a trace covers 0 columns or more, got {self.trace_columns}")
        if self.exact and self.exact not in [column.name for column in self.columns]:
            raise InvalidReleaseError(f"the release has no column {self.exact!r} that could be exact")

    def __repr__(self) -> str:
        return f"SecondMoment(columns={len(self.columns)}, num_clients={self.num_clients})"

    def restrict(self, names: Sequence[str]) -> "SecondMoment":
        """Return the release of the named columns only, in that order."""
        index = positions(self.columns, names)
        columns = tuple(self.columns[i] for i in index)
        exact = self.exact if self.exact in names else ""
        return replace(self, columns=columns, values=self.values[np.ix_(index, index)], exact=exact)

    def second_moment(self) -> GramEstimate:
        """Return the matrix itself, which is unbiased, with the law of its noise."""
        matrix = (self.values + self.values.T) / 2
        exact = [column.name for column in self.columns].index(self.exact) if self.exact else None
        errors = SymmetricNoise(self.noise_sd, self.trace_columns > 0, self.trace_columns, exact, self.gaussian)
        return GramEstimate(self.columns, matrix, errors, self.num_clients, self.row_bound)


@dataclass(frozen=True, eq=False, repr=False)
class Sum:
    """The noisy sum of the rows.

    Attributes:
        columns: the d columns.
        values: shape `(d,)`.
        noise_sd: sd of the noise in every entry.
        num_clients: rows of Z.
        row_bound: the L2 norm that no row of Z exceeds.
    """

    columns: tuple[Column, ...]
    values: FloatArray
    noise_sd: float
    num_clients: int
    row_bound: float

    def __post_init__(self) -> None:
        _check_common(self.columns, self.num_clients, self.row_bound)
        _checked_shape(self.values, (len(self.columns),))
        _check_noise_sd(self.noise_sd)
        require_workable(self.values, self.noise_sd, self.row_bound)

    def __repr__(self) -> str:
        return f"Sum(columns={len(self.columns)}, num_clients={self.num_clients})"

    def restrict(self, names: Sequence[str]) -> "Sum":
        """Return the release of the named columns only, in that order."""
        index = positions(self.columns, names)
        return replace(self, columns=tuple(self.columns[i] for i in index), values=self.values[index])

    def second_moment(self) -> NoReturn:
        """Refuse: a sum of rows says nothing about how columns move together.

        Raises:
            InvalidAnalysisError: always.
        """
        raise InvalidAnalysisError(
            "a sum of rows holds no second moments, so nothing about how columns vary together; "
            "release a second moment or a sketch of these columns instead"
        )


Release = Sketch | SecondMoment | Sum | ProjectedSums | CentredProducts


def _check_common(columns: tuple[Column, ...], num_clients: int, row_bound: float) -> None:
    """Refuse what no release may be, whatever its mechanism."""
    require_distinct(columns)
    if num_clients < 1:
        raise InvalidReleaseError(f"a release has at least 1 client, got {num_clients}")
    if not (math.isfinite(row_bound) and row_bound > 0):
        raise InvalidReleaseError(f"the row bound must be positive and finite, got {row_bound}")


def _check_noise_sd(noise_sd: float) -> None:
    """Refuse a noise level that is no standard deviation."""
    if not (math.isfinite(noise_sd) and noise_sd >= 0):
        raise InvalidReleaseError(f"the noise sd must be finite and not negative, got {noise_sd}")


def _checked_shape(values: FloatArray | IntArray, shape: tuple[int | None, ...]) -> tuple[int, ...]:
    """Return the shape of `values`, or refuse it; None allows any length."""
    expected = tuple("any" if length is None else length for length in shape)
    fits = values.ndim == len(shape) and all(
        want is None or got == want for got, want in zip(values.shape, shape, strict=True)
    )
    if not fits:
        raise InvalidReleaseError(f"an array of shape {values.shape} stands where {expected} belongs")
    if not np.isfinite(values).all():
        raise InvalidReleaseError("a release holds finite numbers only")
    return values.shape
