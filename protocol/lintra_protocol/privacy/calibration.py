"""Closed-form noise levels to compare with: a trusted curator, every client alone, the published mechanism.

The sketch itself is calibrated from leverage scores; these are the yardsticks (docs/proofs/sketch.md#yardsticks).
"""

import math
from decimal import ROUND_CEILING, Context, Decimal, localcontext

import numpy as np

from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.privacy.gaussian import gaussian_mu

# Decimal roots, logarithms and powers are correctly rounded, so that all parties find the same integer.
_CONTEXT = Context(prec=50)


def central_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """Return a trusted curator's noise deviation per entry of the sum, in units of the sensitivity.

    The exactly calibrated Gaussian mechanism of Balle & Wang 2018: sensitivity / mu*(epsilon, delta). Raises ValueError
    if `sensitivity` is not positive, or (epsilon, delta) is out of range.
    """
    if not 0 < sensitivity < math.inf:
        raise ValueError(f"a sensitivity must be positive and finite, got {sensitivity}")
    return sensitivity / gaussian_mu(epsilon, delta)


def local_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """Return the noise deviation per entry of a client that trusts nobody, in units of the sensitivity.

    The same number as `central_sigma`, but every one of n clients adds it: the sum is sqrt(n) times noisier. Raises
    ValueError if `sensitivity` is not positive, or (epsilon, delta) is out of range.
    """
    return central_sigma(sensitivity, epsilon, delta)


def published_sigma(
    epsilon: float,
    delta: float,
    num_clients: int,
    rows: int,
    sparsity: int,
    num_features: int,
    entry_bound: float,
    max_corrupt_clients: int,
) -> float:
    """Return the published noise deviation per entry of one copy (Burkhardt et al. 2025, Theorem 3.4).

    Equation (4) there: sigma^2 = 4 s^3 eta^2 m d^2 ln(1.25 s / (delta/d - f)) / (epsilon^2 (n-s-t)) with the
    failure term f = m exp(-(n-s-t)/(8m)).
    For comparison only: for d = s = 1, and for large epsilon, it does not keep its promise; `published_mu`
    says what it does give (docs/proofs/sketch.md#published-calibration).

    Args:
        epsilon: claimed, positive.
        delta: claimed.
        num_clients: n.
        rows: m.
        sparsity: s, also the number of noisy copies.
        num_features: d.
        entry_bound: eta, the bound on every |entry| of a row, in row units.
        max_corrupt_clients: t.

    Raises:
        ValueError: if an argument is out of range, or the formula is undefined because its failure term
            is not below delta/d; the paper's encoder does not notice that.
    """
    exact = Decimal(epsilon), Decimal(delta), Decimal(entry_bound)
    return float(_equation_4(*exact, num_clients, rows, sparsity, num_features, max_corrupt_clients))


def published_steps(
    epsilon: Decimal,
    delta: Decimal,
    num_clients: int,
    rows: int,
    sparsity: int,
    num_features: int,
    entry_bound: Decimal,
    max_corrupt_clients: int,
) -> int:
    """Return `published_sigma` rounded up to an integer, the same one on every machine.

    Args as there, in decimals; `entry_bound` in integer steps, and so is the result.

    Raises:
        ValueError: as `published_sigma`.
    """
    sigma = _equation_4(epsilon, delta, entry_bound, num_clients, rows, sparsity, num_features, max_corrupt_clients)
    return int(sigma.to_integral_value(ROUND_CEILING))


def _equation_4(
    epsilon: Decimal,
    delta: Decimal,
    entry_bound: Decimal,
    num_clients: int,
    rows: int,
    sparsity: int,
    num_features: int,
    max_corrupt_clients: int,
) -> Decimal:
    """Return sigma of equation (4) to 50 digits."""
    finite = all(value.is_finite() for value in (epsilon, delta, entry_bound))
    if not (finite and epsilon > 0 and 0 < delta < 1 and entry_bound > 0):
        raise ValueError(f"no calibration for epsilon={epsilon}, delta={delta}, entry_bound={entry_bound}")
    if min(num_clients, rows, sparsity, num_features) < 1 or max_corrupt_clients < 0:
        raise ValueError("counts must be at least 1, and the number of corrupt clients at least 0")
    effective = num_clients - sparsity - max_corrupt_clients
    with localcontext(_CONTEXT):
        failure = rows * (Decimal(-max(effective, 0)) / (8 * rows)).exp()
        share = delta / num_features
        if effective <= 0 or failure >= share:
            raise ValueError(
                f"eq. (4) is undefined: some row is underfilled with probability up to {failure:.3g}, which must "
                f"be below delta/d = {share:.3g}; it needs more clients or fewer rows"
            )
        logarithm = (Decimal("1.25") * sparsity / (share - failure)).ln()
        scale = 2 * entry_bound * num_features * sparsity / epsilon
        return scale * (sparsity * rows * logarithm / effective).sqrt()


def published_mu(
    sigma: float,
    row_counts: IntArray,
    sparsity: int,
    num_features: int,
    entry_bound: float,
    max_corrupt_clients: int,
    supports: IntArray | None = None,
) -> float:
    """Return the mu that the published mechanism really has on a given cohort, replacing one client's row.

    Row r of the release has variance sigma^2 c_r / s, so that the square of mu is
    4 eta^2 d max_i sum_{r in supp(i)} 1/(c_r - t) / sigma^2 (docs/proofs/sketch.md#published-calibration).
    `gaussian_epsilon` turns it into the epsilon to show.

    Args:
        sigma: noise deviation per entry of one copy, in row units.
        row_counts: clients c_r in each row of the matrix, shape `(m,)`; empty rows do not count.
        sparsity: s.
        num_features: d.
        entry_bound: eta, in row units.
        max_corrupt_clients: t.
        supports: each client's s distinct rows, shape `(n, s)`. Without it every client is taken to sit in
            the s emptiest rows, which is exact for s = 1 and an upper bound otherwise.

    Returns:
        mu, infinite if a coalition of t clients can isolate somebody.

    Raises:
        ValueError: if an argument is out of range or the shapes do not fit.
    """
    if not (sigma > 0 and entry_bound > 0) or min(sparsity, num_features) < 1 or max_corrupt_clients < 0:
        raise ValueError(f"no mu for sigma={sigma}, entry_bound={entry_bound}, s={sparsity}, d={num_features}")
    counts = np.asarray(row_counts, dtype=np.int64)
    if counts.ndim != 1 or not counts.any() or counts.min() < 0:
        raise ValueError("row counts are a vector of numbers of clients, not all 0")
    honest = np.maximum(counts - max_corrupt_clients, 0)
    with np.errstate(divide="ignore"):
        variances = np.where(counts > 0, 1 / honest, 0.0)
    if supports is None:
        worst = float(np.sort(variances)[-sparsity:].sum())
    else:
        if supports.ndim != 2 or supports.shape[1] != sparsity or not len(supports):
            raise ValueError(f"supports have shape (clients, {sparsity}), got {supports.shape}")
        worst = float(variances[supports].sum(axis=1).max())
    return 2 * entry_bound * math.sqrt(num_features * worst) / sigma
