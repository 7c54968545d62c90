"""Many releases of one table at once: its exact moments with noise drawn again and again.

Nothing is collected for a draw, so that hundreds of them take seconds. The noise follows from the moments themselves,
so that the same table has the same draws.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import special

from lintra_analysis.estimators.concentrated.equations import Equations
from lintra_analysis.estimators.concentrated.hyperplanes import Statements
from lintra_analysis.estimators.design import Design, design
from lintra_analysis.estimators.point import drawn_to_zero, released_means
from lintra_analysis.estimators.spectral import eigenvalues_reach
from lintra_analysis.releases.gram_error import GramEstimate
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.canonical import domain_hash
from lintra_protocol.errors import InvalidAnalysisError

CONFIDENCE = 0.95
LIMIT = float(special.chdtri(1, 1 - CONFIDENCE))

MANY, SOME, FEW = 200, 50, 20
"""Draws of tables of at most 24 columns, of at most 64, and of more."""

_CLEAR, _SURELY_NOT, _SURELY = 10.0, 1.5, 2.5
"""Where the least eigenvalue exceeds 10 sigma, a linearised z below 1.5 or above 2.5 says whether 0 is excluded."""

_AT_ONCE = 1 << 21


def usual_draws(columns: int) -> int:
    """Return how many draws are made of a table of so many columns, the constant and the target among them."""
    return MANY if columns <= 24 else SOME if columns <= 64 else FEW


@dataclass(frozen=True, eq=False)
class Draws:
    """B releases of the columns of one regression.

    Attributes:
        design: of the exact moments.
        noise: shape `(B, q, q)`.
        loudness: how many times as large the noise is, beside the moments, as where it was drawn.
    """

    design: Design
    noise: FloatArray
    loudness: float = 1.0

    @classmethod
    def of(
        cls, exact: GramEstimate, target: str, features: Sequence[str], count: int | None = None, seed: bytes = b""
    ) -> "Draws":
        """Draw the noise of `count` releases, or of the usual number.

        Raises:
            InvalidAnalysisError: the noise has no known Gaussian law, or there are as many features as rows.
        """
        chosen = design(exact, target, features)
        matrix = np.ascontiguousarray(chosen.gram.matrix)
        stream = expand(domain_hash("draws of a trial", matrix.tobytes() + seed), "noise")
        noise = chosen.gram.errors.draws(count or usual_draws(len(matrix)), len(matrix), stream)
        if noise is None or not chosen.gram.errors.spectral_sigma:
            raise InvalidAnalysisError("the noise of this release has no Gaussian law that is known")
        return cls(chosen, noise)

    @property
    def sigma(self) -> float:
        """Return the deviation of the noise in a product of two columns."""
        return float(self.design.gram.errors.spectral_sigma or 0.0) * self.loudness

    @cached_property
    def matrices(self) -> FloatArray:
        """The released products, shape `(B, q, q)`."""
        return np.asarray(self.design.gram.matrix + self.loudness * self.noise)

    def louder(self, times: float, count: int) -> "Draws":
        """Return the first `count` draws with noise so many times as large."""
        return replace(self, noise=self.noise[:count], loudness=self.loudness * times)

    def at(self, index: IntArray) -> "Draws":
        """Return the draws of these numbers, shape `(k,)`."""
        return replace(self, noise=self.noise[index])

    def of_features(self, names: Sequence[str]) -> "Draws":
        """Return the same draws of fewer features."""
        chosen = design(self.design.gram, self.design.target.name, names)
        place = {column.name: i for i, column in enumerate(self.design.gram.columns)}
        index = np.array([place[column.name] for column in chosen.gram.columns])
        return Draws(chosen, self.noise[:, index[:, np.newaxis], index], self.loudness)

    @property
    def start(self) -> int:
        """Return where the slopes begin, behind the constant."""
        return int(self.design.constant is not None)

    def drowned(self, least: float) -> tuple[str, ...]:
        """Return the features whose squares about the mean are less than `least` deviations of the noise."""
        matrix = self.design.gram.matrix
        squares = np.diagonal(matrix)[self.start : -1].copy()
        if self.start:
            squares -= matrix[0, 1:-1] ** 2 / matrix[0, 0]
        return tuple(self.design.names[i] for i in np.flatnonzero(squares < least * self.sigma).tolist())

    def solution(self) -> FloatArray:
        """Return the coefficients without noise, shape `(p,)`, as far as the rows determine them."""
        matrix = self.design.gram.matrix
        return np.asarray(np.linalg.lstsq(matrix[:-1, :-1], matrix[:-1, -1], rcond=None)[0], np.float64)

    def points(self) -> FloatArray:
        """Return the point that a regression prints of each draw, before it is moved into its interval, `(B, p)`."""
        found, none = [], np.zeros(1)
        for matrix in self.matrices:
            means = released_means(matrix, self.sigma) if self.start else None
            slopes = drawn_to_zero(matrix, self.sigma, means, none)[0][0]
            found.append(slopes if means is None else np.append(means[-1] - slopes @ means[:-1], slopes))
        return np.array(found)

    def statements(self, slopes: IntArray) -> list["DrawnSlopes"]:
        """Return what intervals say of some slopes, shape `(k,)`, numbered from 0; some draws at a time."""
        rows = np.eye(self.matrices.shape[1] - 1)[slopes + self.start]
        together = max(1, _AT_ONCE // self.matrices.shape[1] ** 2)
        parts = (self.matrices[first : first + together] for first in range(0, len(self.matrices), together))
        kernel = self.design.gram.errors.kernel(self.matrices.shape[1])
        assert kernel is not None
        return [DrawnSlopes.of(part, self.sigma, kernel, rows) for part in parts]


@dataclass(frozen=True, eq=False)
class DrawnSlopes:
    """What the intervals of B releases say of k slopes.

    Attributes:
        statements: k for each release whose features' products are positive definite; None if there is none.
        bounded: which releases have intervals, shape `(B,)`.
        places: numbers of the releases of the statements.
        clear: which of these have a least eigenvalue of the features' products above 10 sigma.
    """

    statements: Statements | None
    bounded: NDArray[np.bool_]
    places: IntArray
    clear: NDArray[np.bool_]

    @classmethod
    def of(cls, matrices: FloatArray, sigma: float, kernel: FloatArray, rows: FloatArray) -> "DrawnSlopes":
        """Solve the regressions of matrices of shape `(B, q, q)` for slopes, `rows` of shape `(k, p)`."""
        bounded = np.array([eigenvalues_reach(matrix[:-1, :-1], 0.0) for matrix in matrices])
        places = np.flatnonzero(bounded)
        clear = np.array([eigenvalues_reach(matrix[:-1, :-1], _CLEAR * sigma) for matrix in matrices[places]], bool)
        if not places.size:
            return cls(None, bounded, places, clear)
        statements = Statements.about(Equations.of_matrix(matrices[places], sigma, kernel), rows)
        bounded[places] = statements.at_infinity()[0] > LIMIT
        return cls(statements, bounded, places, clear)

    def excludes_zero(self) -> FloatArray:
        """Return the number of releases whose interval is bounded and excludes 0, for each slope, shape `(k,)`."""
        own = self.statements
        if own is None:
            return np.zeros(1)
        linear = np.abs(own.values / own.errors)
        bounded, clear = self.bounded[self.places][own.systems], self.clear[own.systems]
        found = bounded & (linear > _SURELY)
        open_ = np.flatnonzero(bounded & ~(clear & ((linear < _SURELY_NOT) | (linear > _SURELY))))
        if open_.size:
            found[open_] = own.at(np.zeros(open_.size), open_) > LIMIT
        return np.asarray(found.reshape(self.places.size, -1).sum(axis=0), np.float64)

    def intervals(self) -> FloatArray:
        """Return the intervals of all releases, none of which may be without, shape `(B, k, 2)`."""
        assert self.statements is not None
        return self.statements.intervals(LIMIT).reshape(self.places.size, -1, 2)
