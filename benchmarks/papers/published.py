"""The calibrations as they were published, for comparison with the exact ones; releases that use them say so."""

import math

from lintra_protocol.privacy.statement import Claim


def theorem_3_1_ridge(claim: Claim, rows: int) -> float:
    """Return w2 / B^2 for a projection (Sheffet 2019, Theorem 3.1), and here for inverse Wishart draws with r = nu.

    1 + (1 + epsilon / L) / epsilon (2 sqrt(2 r L) + 2 L) with L = ln(4 / delta).
    """
    log = math.log(4 / claim.float_delta)
    spread = 2 * math.sqrt(2 * rows * log) + 2 * log
    return 1 + (1 + claim.float_epsilon / log) / claim.float_epsilon * spread


def least_squares_ridge(claim: Claim, rows: int) -> float:
    """Return w2 / B^2 for a projection as in "Differentially private ordinary least squares" (Sheffet, ICML 2017).

    8 (sqrt(2 r L) + 2 L) / epsilon with L = ln(8 / delta).
    """
    log = math.log(8 / claim.float_delta)
    return 8 * (math.sqrt(2 * rows * log) + 2 * log) / claim.float_epsilon


def wishart_degrees(claim: Claim, num_columns: int) -> int:
    """Return k of the Wishart mechanism at c = 1: floor(d + 28 ln(4 / delta) / epsilon^2) (Sheffet 2019, Alg. 3)."""
    return math.floor(num_columns + 28 * math.log(4 / claim.float_delta) / claim.float_epsilon**2)


def gaussian_sigma(claim: Claim) -> float:
    """Return sd / B^2 of the noise in every entry on or above the diagonal (Dwork et al. 2014, Analyze Gauss).

    sqrt(2 ln(1.25 / delta)) / epsilon: made for rows that are added or removed, and too little for "replace-one" where
    epsilon is not small.
    """
    return math.sqrt(2 * math.log(1.25 / claim.float_delta)) / claim.float_epsilon
