"""Second moments about the means, from a release whose constant column holds the sums of all others.

With the constant c in the first place, C = M_vv - M_v0 M_0v / M_00 = B^T M B for B = (-M_0v / M_00; I), and since B
minimises, an error N of M moves C by B^T N B to first order. Without a constant column the public centers stand for
the means.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lintra_analysis.releases.columns import ScaledColumn, centers, positions, scales
from lintra_analysis.releases.gram_error import GramEstimate, HasSecondMoment
from lintra_analysis.releases.noise_laws.combined_error import CombinedError
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

About = Literal["means", "centers"]
"""What second moments are about: the columns' means, or the public centers."""


@dataclass(frozen=True, eq=False, repr=False)
class Centred:
    """Second moments of the varying columns about their means, or about the public centers.

    Attributes:
        gram: in normalised units; its matrix is a sum of squares and products over the cohort.
        means: of the normalised columns; 0 where the public centers stand for them. Shape `(d,)`.
        about_means: whether a constant column made the means known.
        divisor: what makes a variance of a sum of squares: n - 1 about the means, else n; where rows have weights, all
            of them together in the place of n.
        whole: M of the constant column and the others, if the means are known.
        basis: B, the map from there, shape `(d + 1, d)`.
    """

    gram: GramEstimate
    means: FloatArray
    about_means: bool
    divisor: float
    whole: GramEstimate | None = None
    basis: FloatArray | None = None

    @property
    def columns(self) -> tuple[ScaledColumn, ...]:
        """The columns that vary."""
        return self.gram.columns

    @property
    def means_in_units(self) -> FloatArray:
        """The means, or the public centers that stand for them, in the columns' own units, shape `(d,)`."""
        return centers(self.columns) + scales(self.columns) * self.means


def centred(release: HasSecondMoment, columns: Sequence[str] | None = None, about: About = "means") -> Centred:
    """Take second moments about the means if the release holds a constant column, else about the public centers.

    `release` is a sketch or a second moment. `columns` are those that take part; by default all that vary. `about` is
    the "means" if there are any, or the public "centers" in any case.

    Raises:
        InvalidAnalysisError: the release holds no second moments, a named column does not vary or is unknown, or there
            are too few clients.
    """
    gram = release.second_moment()
    constants = [column for column in gram.columns if column.constant]
    names = [column.name for column in gram.columns if column not in constants]
    if columns is not None:
        chosen = [gram.columns[i] for i in positions(gram.columns, columns)]
        names = [column.name for column in chosen]
        if useless := [column.name for column in chosen if column in constants]:
            raise InvalidAnalysisError(
                f"{', '.join(map(repr, useless))} is the same for everybody, so it does not vary"
            )
    if not names:
        raise InvalidAnalysisError("every column of this release is the same for everybody, so nothing varies")
    if about not in ("means", "centers"):
        raise InvalidAnalysisError(f'second moments are about the "means" or the "centers", got {about!r}')
    if not constants or about == "centers":
        return Centred(gram.restrict(names), np.zeros(len(names)), False, gram.total_weight)
    constant, value = constants[0].name, float(constants[0].constant or 1.0)
    if gram.num_rows < 2:
        raise InvalidAnalysisError("a variance about the mean needs at least 2 clients")
    whole = gram.restrict([constant, *names])
    total, first = float(whole.matrix[0, 0]), np.zeros(len(names) + 1)
    first[0] = 1.0
    if total <= 2 * whole.errors.functional_sd(np.outer(first, first)):
        raise InvalidAnalysisError(f"noise has swallowed the constant column {constant!r}, and the means with it")
    slopes = whole.matrix[0, 1:] / total
    basis = np.vstack([-slopes, np.eye(len(names))])
    # The means adapt to the noise, so the products about them are too small by what the noise of the means explains.
    adapted = basis.T @ whole.errors.product_covariance(first) @ basis / total
    matrix = whole.matrix[1:, 1:] - np.outer(slopes, slopes) * total + adapted
    errors = CombinedError(whole.errors, whole.matrix, basis)
    gram = replace(gram, columns=whole.columns[1:], matrix=(matrix + matrix.T) / 2, errors=errors)
    return Centred(gram, slopes * value, True, max(gram.total_weight - 1, 1.0), whole, basis)


def sampling_functional_sd(weights: FloatArray, matrix: FloatArray, num_rows: int) -> float:
    """Return the sd of <weights, M> over draws of n rows, if rows are normal: sqrt(2 tr(W M W M) / n).

    Both have shape `(d, d)`. A second moment holds no fourth moments, so this cannot be had without an assumption.
    `matrix` is clipped to be positive semi-definite by the caller.
    """
    # Most weights name one or two columns; the others add nothing to the trace.
    named = np.flatnonzero(weights.any(axis=0))
    product = weights[np.ix_(named, named)] @ matrix[np.ix_(named, named)]
    return float(np.sqrt(max(2 * float(np.sum(product * product.T)) / num_rows, 0.0)))
