"""The privacy profile of a pair as a curve: both directions, certified, at many epsilons."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lintra_curator.ndis.certified_value import CertifiedValue
from lintra_curator.ndis.gaussian_pair import GaussianPair, Numbers, pair_from_gaussians
from lintra_curator.ndis.profile_evaluation import RTOL, delta
from lintra_protocol.crypto.ring import FloatArray


@dataclass(frozen=True, eq=False)
class PrivacyProfile:
    """delta at each epsilon, as certified intervals; `forward` is X against Y, `backward` Y against X.

    Attributes:
        epsilons: shape `(E,)`.
        forward: one interval for each.
        backward: the same in the other direction.

    >>> len(privacy_profile(0.0, 1.0, 1.0, 1.5, [0.5, 1.0]).worst)
    2
    """

    epsilons: FloatArray
    forward: tuple[CertifiedValue, ...]
    backward: tuple[CertifiedValue, ...]

    @property
    def worst(self) -> tuple[CertifiedValue, ...]:
        """The larger of both directions, which is what differential privacy is about."""
        return tuple(_larger(one, other) for one, other in zip(self.forward, self.backward, strict=True))

    @property
    def hi(self) -> FloatArray:
        """Upper ends of `worst`, shape `(E,)`: what a promise quotes."""
        return np.array([interval.hi for interval in self.worst])

    @property
    def lo(self) -> FloatArray:
        """Lower ends of `worst`, shape `(E,)`: what refutes a claim."""
        return np.array([interval.lo for interval in self.worst])

    def __iter__(self) -> Iterator[tuple[float, CertifiedValue]]:
        return iter(zip(self.epsilons.tolist(), self.worst, strict=True))


def pair_profile(pair: GaussianPair, epsilons: ArrayLike, rtol: float = RTOL) -> PrivacyProfile:
    """Return the profile of a pair.

    Args:
        pair: X against Y.
        epsilons: any real numbers; any shape, which is flattened.
        rtol: relative error aimed at.

    Raises:
        ValueError: as `profile.delta`.
    """
    values = np.asarray(epsilons, dtype=np.float64).ravel()
    reverse = pair.reverse()
    return PrivacyProfile(
        values,
        tuple(delta(pair, epsilon, rtol) for epsilon in values.tolist()),
        tuple(delta(reverse, epsilon, rtol) for epsilon in values.tolist()),
    )


def privacy_profile(
    mu1: Numbers | float,
    s1: FloatArray | float,
    mu2: Numbers | float,
    s2: FloatArray | float,
    epsilons: ArrayLike,
    rtol: float = RTOL,
) -> PrivacyProfile:
    """Return the exact profile of N(mu1, S1) against N(mu2, S2), in both directions.

    Args:
        mu1: mean of X, shape `(k,)`, or a number.
        s1: its covariance, possibly singular, shape `(k, k)`.
        mu2: mean of Y.
        s2: its covariance.
        epsilons: any real numbers.
        rtol: relative error aimed at.

    Raises:
        ValueError: as `pair_from_gaussians` and `profile.delta`.

    >>> profile = privacy_profile(0.0, 1.0, 1.0, 1.5, [1.0])
    >>> bool(profile.lo[0] <= profile.hi[0] < 0.2)
    True
    """
    return pair_profile(pair_from_gaussians(mu1, s1, mu2, s2), epsilons, rtol)


def _larger(one: CertifiedValue, other: CertifiedValue) -> CertifiedValue:
    """Return the interval of the larger of two numbers."""
    return CertifiedValue(max(one.value, other.value), max(one.lo, other.lo), max(one.hi, other.hi))
