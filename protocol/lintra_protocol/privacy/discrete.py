"""The price of integers: sums of discrete Gaussians are almost discrete Gaussian, and K bounds the log ratio.

Theorems D1 (one row, or a plain sum) and D2 (any integer matrix, with server noise) in
docs/proofs/integers.md#integers: delta(epsilon) <= e^K delta_G(epsilon - 2K, mu). With the variances planned here,
K is far below 1e-12.
"""

import math
from itertools import takewhile

from lintra_protocol.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu

# The planned mu stays this far below the exact one, well above every rounding error on the way.
MU_MARGIN = 1e-9

# D1 sums this many terms one by one and bounds all later ones by the first of them.
_EXACT_TERMS = 1024


def kappa(variance: float) -> float:
    """Return ln((1+e)/(1-e)) with e = 2 sum_{k>=1} exp(-2 pi^2 variance k^2).

    By Poisson summation, the sum of exp(-(x - v)^2 / (2 variance)) over all integers x stays within a factor
    1 +- e of its average, whatever the shift v (docs/proofs/integers.md#integers). From variance 38 on it
    underflows.

    Args:
        variance: of the discrete Gaussian, in squared integer units.

    Raises:
        ValueError: if `variance` is not positive, or so small (e >= 1) that there is no bound.
    """
    if not variance > 0:
        raise ValueError(f"a variance must be positive, got {variance}")
    deviation, k = 0.0, 1
    while (term := 2 * math.exp(-2 * math.pi**2 * variance * k * k)) > deviation * 2.0**-60 and deviation < 1:
        deviation, k = deviation + term, k + 1
    if deviation >= 1:
        raise ValueError(f"a discrete Gaussian of variance {variance} is too narrow for any bound")
    return 2 * math.atanh(deviation)


def row_slack(num_clients: int, num_words: int, variance: float, smoothing: float) -> float:
    """Return K of Theorem D1 (docs/proofs/integers.md#integers): one row, or a plain sum, without server noise.

    It goes with mu = sensitivity / sqrt(num_clients * variance - smoothing). Beyond 1024 clients a slightly
    larger bound takes its place, in constant time: kappa falls, so later terms are at most the first of them.

    Args:
        num_clients: honest clients c that share the row.
        num_words: words per client row, d.
        variance: sigma_Z^2 of one client's noise per word, in squared integer units.
        smoothing: theta^2, the part of the row's variance given up for rounding, in squared integer units.

    Raises:
        ValueError: if a count is not positive, a variance too small, or `smoothing` takes all the variance.
    """
    _require_positive(num_clients=num_clients, num_words=num_words)
    if not smoothing < num_clients * variance:
        raise ValueError(f"smoothing {smoothing} takes all of {num_clients} variances of {variance}")
    exact = min(num_clients, _EXACT_TERMS)
    # Once one term underflows, so do all later ones, which are smaller.
    terms = list(takewhile(bool, (kappa(variance * (j / (j + 1))) for j in range(1, exact))))
    if num_clients > exact:
        terms.append((num_clients - exact) * kappa(variance * (exact / (exact + 1))))
    return num_words * math.fsum([*terms, kappa(smoothing)])


def smoothed_slack(
    num_clients: int, rows: int, num_words: int, variance: float, smoothing: float, column_norm_squared: int
) -> float:
    """Return K of Theorem D2 (docs/proofs/integers.md#integers): any integer matrix, with server noise.

    It goes with mu = sensitivity * sqrt(leverage / variance), the leverage taken over the honest clients. Each
    honest client costs the same, so counting all clients is safe.

    Args:
        num_clients: honest clients.
        rows: rows m of the matrix.
        num_words: words per client row, d.
        variance: sigma_Z^2 of one client's noise per word, in squared integer units.
        smoothing: theta_s^2 of one server's noise per output word, in squared integer units.
        column_norm_squared: the largest squared norm of a column, s for a sketch with s signs per column.

    Raises:
        ValueError: if a count or variance is not positive or too small.
    """
    _require_positive(num_clients=num_clients, rows=rows, num_words=num_words, column_norm_squared=column_norm_squared)
    if not (variance > 0 and smoothing > 0):
        raise ValueError(f"variances must be positive, got {variance} and {smoothing}")
    step = 1 / (1 / variance + column_norm_squared / smoothing)
    return num_words * (num_clients * kappa(step) + rows * kappa(smoothing))


def discrete_delta(epsilon: float, mu: float, slack: float) -> float:
    """Return a delta for which the integer mechanism is (epsilon, delta)-DP.

    This is min(1, e^K delta_G(epsilon - 2K, mu)), see docs/proofs/integers.md#integers.

    Args:
        epsilon: any real number.
        mu: of the continuous mechanism that the slack goes with.
        slack: K; slacks of several releases add up.

    Raises:
        ValueError: if `slack` is negative or infinite, or `mu` is negative.
    """
    _require_slack(slack)
    # With K > 700 the power would overflow, and the bound says nothing anyway.
    return min(1.0, math.exp(min(slack, 700.0)) * gaussian_delta(epsilon - 2 * slack, mu))


def discrete_mu(epsilon: float, delta: float, slack: float) -> float:
    """Return the mu to plan with, so that `discrete_delta(epsilon, mu, slack) <= delta` despite all rounding.

    This is gaussian_mu(epsilon - 2K, delta e^-K) (1 - 1e-9), see docs/proofs/integers.md#integers. Raises
    ValueError if `slack` is negative or more than half of `epsilon`, or `delta` is not within (0, 1).
    """
    _require_slack(slack)
    if epsilon < 2 * slack:
        raise ValueError(f"a slack of {slack} leaves nothing of epsilon {epsilon}")
    return gaussian_mu(epsilon - 2 * slack, delta * math.exp(-slack)) * (1 - MU_MARGIN)


def discrete_epsilon(mu: float, delta: float, slack: float) -> float:
    """Return the smallest epsilon >= 0 (or one up to 2K above) with `discrete_delta(...) <= delta`.

    Raises ValueError if `slack` or `mu` is negative, or `delta` is not strictly between 0 and 1.
    """
    _require_slack(slack)
    epsilon = gaussian_epsilon(mu, delta * math.exp(-slack))
    if discrete_delta(0.0, mu, slack) <= delta:
        return 0.0
    epsilon += 2 * slack
    # The addition may have rounded down by one unit in the last place.
    while discrete_delta(epsilon, mu, slack) > delta:
        epsilon = math.nextafter(epsilon, math.inf)
    return epsilon


def _require_positive(**counts: int) -> None:
    """Refuse counts below 1, by name."""
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")


def _require_slack(slack: float) -> None:
    """Refuse a slack that is negative, infinite or not a number."""
    if not 0 <= slack < math.inf:
        raise ValueError(f"a slack must be finite and at least 0, got {slack}")
