"""How many corrupt clients can share one row of the matrix, if they were chosen before its seed was drawn.

Drawing the seed last is what makes so small a number a bound (Burkhardt et al. 2025 leave the order open). That
the bound may fail is part of the claim: (epsilon, delta + delta_coalition); see docs/proofs/sketch.md#coalitions.
"""

import math

from lintra_protocol.privacy.bisection import bisect_whole


def kl_bernoulli(p: float, q: float) -> float:
    """Return the divergence KL(p || q) of two coins, in nats; infinite where q excludes what p allows.

    Raises ValueError if an argument lies outside [0, 1].
    """
    if not (0 <= p <= 1 and 0 <= q <= 1):
        raise ValueError(f"probabilities lie in [0, 1], got {p} and {q}")
    if (q == 0 and p > 0) or (q == 1 and p < 1):
        return math.inf
    heads = p * math.log(p / q) if p > 0 else 0.0
    tails = (1 - p) * (math.log1p(-p) - math.log1p(-q)) if p < 1 else 0.0
    return max(0.0, heads + tails)


def static_quota(
    max_corrupt_clients: int, rows: int, delta_coalition: float, balanced: bool, min_clients: int | None = None
) -> int:
    """Return how many clients to subtract from every row count for a coalition fixed before the seed (s = 1).

    Hashed assignment: the smallest q with rows * P(Bin(t, 1/rows) >= q) <= delta_coalition. Balanced
    assignment: the smallest q above t/rows with rows * exp(-t KL(q/t || 1/rows)) <= delta_coalition, which
    bounds sampling without replacement (Hoeffding 1963, Theorems 1 and 4; docs/proofs/sketch.md#coalitions).

    The event "q or more in some row" has probability at most `delta_coalition`; otherwise at most q - 1
    corrupt clients share a row. This returns q itself, one more than needed, and never more than t.

    Args:
        max_corrupt_clients: t, the size of the coalition.
        rows: rows m of the matrix.
        delta_coalition: probability granted to a more crowded row, added to the claimed delta.
        balanced: whether row counts of the cohort differ by at most one, instead of being hashed.
        min_clients: smallest size of the cohort. A balanced row may hold one client more than its share;
            given this number, 1/rows becomes the largest part of a cohort that one row can hold. Without it
            the balanced bound is for cohorts that `rows` divides.

    Raises:
        ValueError: if a count is out of range or `delta_coalition` is not strictly between 0 and 1.
    """
    t = max_corrupt_clients
    if t < 0 or rows < 1 or not 0 < delta_coalition < 1:
        raise ValueError(f"no quota for t={t}, rows={rows}, delta_coalition={delta_coalition}")
    if min_clients is not None and min_clients < max(t, 1):
        raise ValueError(f"{t} of {min_clients} clients cannot be corrupt")
    share = 1 / rows
    if balanced and min_clients is not None:
        share += (rows - 1) / (rows * min_clients)  # ceil(n/m)/n is at most (n+m-1)/(mn), which falls in n
    if t == 0 or share >= 1:
        return t
    log_tail = _log_chernoff if balanced else _log_binomial_tail
    log_limit = math.log(delta_coalition / rows)
    return min(t, bisect_whole(t + 1, int(t * share), lambda q: log_tail(t, share, q) <= log_limit))


def _log_chernoff(trials: int, share: float, q: int) -> float:
    """Bound ln P(Bin(trials, share) >= q) for q above the mean (Hoeffding 1963, Theorem 1)."""
    return -trials * kl_bernoulli(q / trials, share)


def _log_binomial_tail(trials: int, share: float, q: int) -> float:
    """Return ln P(Bin(trials, share) >= q), rounded up, for q above the mean."""
    log_first = (
        math.lgamma(trials + 1)
        - math.lgamma(q + 1)
        - math.lgamma(trials - q + 1)
        + q * math.log(share)
        + (trials - q) * math.log1p(-share)
    )
    odds = share / (1 - share)
    total = term = 1.0
    k, ratio = q, (trials - q) / (q + 1) * odds
    while term * ratio > 1e-17 * total * (1 - ratio):
        term *= ratio
        total += term
        k += 1
        ratio = (trials - k) / (k + 1) * odds
    # What was cut off is below 1e-17 of the total; the factorials' logarithms err by less than this allowance.
    return log_first + math.log(total) + 1e-15 * (1 + math.lgamma(trials + 1))
