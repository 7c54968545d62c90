"""A curator's release of second moments as data: the matrix, its noise, and the promise it keeps.

It is a release like those of `lintra_analysis.releases`: the estimators read it through `second_moment()`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lintra_analysis.releases.columns import ScaledColumn, positions
from lintra_analysis.releases.gram_error import GramEstimate
from lintra_analysis.releases.noise_laws.law import ErrorLaw
from lintra_analysis.releases.noise_laws.symmetric_noise import SymmetricNoise
from lintra_curator.projection.wishart_error import WishartError
from lintra_curator.second_moment.adaptive import LOOK_SHARE, gaussian_then_projection
from lintra_curator.second_moment.curves import projection_delta, wishart_delta
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.discrete import discrete_delta
from lintra_protocol.privacy.statement import Claim

Mechanism = Literal["gaussian", "projection", "wishart", "inverse-wishart"]
Calibration = Literal["exact", "published"]

INTEGER_LAW = "discrete, exact integers"
"""What a release says whose noise is discrete Gaussian on integer products: its promise has no floating-point gap."""


@dataclass(frozen=True)
class NoiseRecord:
    """How the noise of a release was made, and the privacy that follows from it.

    All in normalised units, so that sigma, `ridge` and `debias` are in units of a squared row.
    """

    mechanism: Mechanism  #: which of the four
    claim: Claim  #: what was asked for. With published calibrations `delta_at` may say that it is not kept.
    calibration: Calibration  #: "exact" from the mechanism's own curve; "published" from the paper, for comparison only
    law: str  #: "discrete, exact integers" or "continuous, floating point"
    sigma: float  #: sd of an entry off the diagonal where there are no data: sigma, sqrt(k) c B^2, w2 / sqrt(r) in turn
    num_columns: int  #: d at the time of the release
    mu: float | None = None  #: of the Gaussian mechanism, else None
    #: K of Theorem D1, the price of integers (docs/proofs/integers.md#integers); 0 for continuous laws
    slack: float = 0.0
    degrees: float | None = None  #: r of a projection, k of Wishart noise, nu of an inverse Wishart draw
    scale: float | None = None  #: c of Wishart noise
    weight: float | None = None  #: q = B^2 / w2, what one row can weigh against the planned ridge
    ridge: float = 0.0  #: what was added to the diagonal before the draw, w2 or less
    debias: float = 0.0  #: what was subtracted from the diagonal after it
    trace_tight: bool = False  #: whether the trace was released with less noise
    #: whether the diagonal has sqrt(2) times the deviation; the published Gaussian mechanism has not
    weighted: bool = True
    look_mu: float | None = None  #: of the look at the smallest eigenvalue, if the ridge is adaptive
    look: float | None = None  #: what it showed, the smallest eigenvalue with noise

    def delta_at(self, epsilon: float) -> float:
        """Return the delta for which the release is (epsilon, delta)-private, by the mechanism's exact curve.

        Raises ValueError if the record lacks the weight or the degrees of its mechanism.
        """
        if self.mu is not None:
            return discrete_delta(epsilon, self.mu, self.slack)
        neighbours = self.claim.neighbours
        if self.scale is not None and self.degrees is not None:
            return wishart_delta(epsilon, self.degrees - self.num_columns + 1, 1 / self.scale, neighbours)
        if self.weight is None or self.degrees is None:
            raise ValueError(f"a {self.mechanism} release states its weight and its degrees")
        if self.look_mu is None:
            return projection_delta(epsilon, self.weight, int(self.degrees), neighbours)
        joint = gaussian_then_projection(epsilon, self.look_mu, self.weight, int(self.degrees))
        return min(1.0, joint + LOOK_SHARE * self.claim.float_delta)


@dataclass(frozen=True, eq=False, repr=False)
class CentralSecondMoment:
    """A private second moment Z^T Z of a curator's table."""

    columns: tuple[ScaledColumn, ...]  #: the d columns
    values: FloatArray  #: shape `(d, d)`, the debiased release: its mean is Z^T Z
    #: shape `(d, d)`, the release before debiasing: M^T M, S + W or the inverse Wishart draw; for Gaussian noise the
    #: same as `values`
    raw: FloatArray
    noise: NoiseRecord  #: how it was made
    num_clients: int  #: n, the rows of Z; public
    row_bound: float  #: B

    def __repr__(self) -> str:
        return (
            f"CentralSecondMoment(mechanism={self.noise.mechanism!r}, columns={len(self.columns)}, "
            f"num_clients={self.num_clients})"
        )

    def restrict(self, names: Sequence[str]) -> "CentralSecondMoment":
        """Return the release of the named columns only, in that order."""
        index = positions(self.columns, names)
        block = np.ix_(index, index)
        columns = tuple(self.columns[i] for i in index)
        return replace(self, columns=columns, values=self.values[block], raw=self.raw[block])

    def table(self) -> tuple[list[str], FloatArray]:
        """Return the names of the columns, and the debiased matrix row by row, shape `(d, d)`."""
        return [column.name for column in self.columns], self.values

    def second_moment(self) -> GramEstimate:
        """Return the debiased matrix with the law of its error."""
        return GramEstimate(self.columns, self.values, self._errors(), self.num_clients, self.row_bound)

    def _errors(self) -> ErrorLaw:
        noise, size = self.noise, len(self.columns)
        if noise.degrees is None:
            # The published mechanism's diagonal is less noisy than this says.
            return SymmetricNoise(noise.sigma, trace_tight=noise.trace_tight, num_columns=noise.num_columns)
        if noise.mechanism == "wishart":
            return WishartError(noise.debias * np.eye(size), 1 / noise.degrees, 0.0, noise.sigma)
        centre = self.values + noise.debias * np.eye(size)
        if noise.mechanism == "projection":
            return WishartError(centre, 1 / noise.degrees, 0.0, noise.sigma)
        excess = noise.degrees - noise.num_columns
        common = 2 / (excess * (excess - 3))
        return WishartError(centre, (excess - 1) / (excess * (excess - 3)), common, noise.sigma)


def symmetric_mean(matrix: FloatArray) -> FloatArray:
    """Return a matrix of shape `(d, d)` that rounding has left a little asymmetric, made symmetric."""
    return np.asarray((matrix + matrix.T) / 2, np.float64)


def finite_positive(value: float, name: str) -> float:
    """Return a public parameter, or refuse it; raise ValueError if it is not positive and finite."""
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value}")
    return value
