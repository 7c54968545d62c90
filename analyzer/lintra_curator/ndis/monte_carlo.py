"""delta by sampling, with Hoeffding's error (Wei et al. 2023, v3 Figure 2): an oracle, too coarse for small deltas."""

import math

import numpy as np

from lintra_analysis.releases.sampling import chi_squares, gaussians
from lintra_curator.ndis.certified_value import CertifiedValue
from lintra_curator.ndis.gaussian_pair import GaussianPair
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray

_BLOCK = 1 << 17


def hoeffding_samples(error: float, failure: float) -> int:
    """Return how many samples make the estimate off by more than `error` with probability at most `failure`.

    Hoeffding 1963, two-sided: ceil(ln(2 / failure) / (2 error^2)).

    Raises:
        ValueError: if an argument is outside (0, 1).
    """
    if not (0 < error < 1 and 0 < failure < 1):
        raise ValueError(f"error and failure lie strictly between 0 and 1, got {error} and {failure}")
    return math.ceil(math.log(2 / failure) / (2 * error * error))


def monte_carlo_delta(
    pair: GaussianPair, epsilon: float, error: float, failure: float, random_bytes: RandomBytes
) -> CertifiedValue:
    """Return the average of (1 - exp(epsilon - L))_+ over draws of X, and the interval that it gives.

    Args:
        pair: X against Y.
        epsilon: any real number.
        error: half width of the interval.
        failure: probability, over the draws, that the interval misses.
        random_bytes: a source; 8 bytes make a variable, of which a draw takes up to two for each group of the pair.

    Raises:
        ValueError: if `error` or `failure` is outside (0, 1).
    """
    samples = hoeffding_samples(error, failure)
    if pair.disjoint:
        return CertifiedValue(1.0, 1.0, 1.0)
    total = 0.0
    for start in range(0, samples, _BLOCK):
        loss = sample_losses(pair, min(_BLOCK, samples - start), random_bytes)
        total += float(np.maximum(0.0, -np.expm1(np.minimum(epsilon - loss, 0.0))).sum())
    return CertifiedValue.of(total / samples, error)


def sample_losses(pair: GaussianPair, count: int, random_bytes: RandomBytes) -> FloatArray:
    """Return independent draws of the loss ln f_X / f_Y under X, shape `(count,)`; continuous, floating point.

    Raises ValueError if a group with a shifted mean has a multiplicity below 1.
    """
    losses = np.full(count, -pair.offset)
    for eta, mult, tsq in zip(pair.eta, pair.mult, pair.tsq, strict=True):
        # One coordinate of the group carries its mean shift; the others enter by their squared length alone.
        if tsq > 0 and mult < 1:
            raise ValueError(f"a group of multiplicity {mult} below 1 cannot carry a mean shift")
        squares, rest = np.zeros(count), float(mult)
        if tsq > 0:
            rest -= 1
            z = gaussians((count,), random_bytes)
            losses += (1 + eta) * math.sqrt(tsq) * z
            squares += z * z
        if rest > 0:
            squares += chi_squares(rest, (count,), random_bytes)
        losses += 0.5 * eta * squares
    return losses
