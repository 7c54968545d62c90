"""Two layers of noise: every client adds some, and every server a floor that no invented client can take away.

Theorem T1 says what both layers together give against the claim's coalition, Theorem T2 what the servers' layer and
one client's own noise give where everybody else is invented (docs/proofs/servers.md#two-layers). Variances are in
squared integer units of the word with the least noise. Every other word has more of both layers, in proportion.
"""

from math import isqrt, sqrt

from lintra_protocol.privacy.discrete import kappa, row_slack


def together_slack(num_clients: int, num_words: int, variance: float, smoothing: float, floor: float) -> float:
    """Return K of Theorem T1 for one row, or a plain sum: D1 with one step more, the server's noise.

    It goes with mu = distance / sqrt(num_clients variance + floor - smoothing).

    Args:
        num_clients: honest clients c that share the row.
        num_words: words per client row.
        variance: sigma^2 of one client's noise.
        smoothing: theta^2.
        floor: v of one honest server's noise; 0 for none.

    Raises:
        ValueError: a count or a variance is out of range.
    """
    own = row_slack(num_clients, num_words, variance, smoothing)
    if not floor:
        return own
    return own + num_words * kappa(1 / (1 / (num_clients * variance) + 1 / floor))


def alone_variance(variance: float, smoothing: float, floor: float, entries: int = 1, *, merged: bool = False) -> float:
    """Return by what the squared distance of a report is divided in mu_2^2 of Theorem T2.

    That is (floor - smoothing) / s + variance, so that mu_2 = |u| / sqrt(this). Without a floor it is Theorem D1 with
    one client, variance - smoothing, for one entry.

    Args:
        variance: sigma^2 of one client's noise.
        smoothing: theta^2.
        floor: v of one honest server's noise; 0 for none.
        entries: s, the entries of 1 or -1 in the client's column.
        merged: whether a release may hold several reports of a source; its own noise is then left out.

    Raises:
        ValueError: nothing is left of the noise.
    """
    own = variance if not (merged and floor) else 0.0
    left = (floor - smoothing) / entries + own
    if not left > 0 or (entries > 1 and not floor):
        raise ValueError(f"variances {variance} and {floor} hide nothing alone behind {entries} entries")
    return left


def alone_slack(num_words: int, variance: float, smoothing: float, floor: float, entries: int = 1) -> float:
    """Return K of Theorem T2 (see `alone_variance` for the arguments)."""
    own = kappa(1 / (1 / variance + entries / floor)) if floor else 0.0
    return num_words * (entries * kappa(smoothing) + own)


def split_variance(together: float, alone: float, num_clients: int, *, merged: bool = False) -> tuple[float, float]:
    """Return the least variances (sigma^2, v) of a client's and a server's noise for one row or a plain sum.

    Args:
        together: V1, the variance that c clients and a server must have together: distance^2 / mu_1^2 + theta^2.
        alone: V2, that of a client's own noise and a server's, likewise of mu_2.
        num_clients: c, the honest clients of the smallest row.
        merged: whether a source's own noise is left out of V2.
    """
    own = 0 if merged else 1
    if alone <= together / num_clients:
        return together / num_clients, 0.0
    if num_clients <= own:
        return alone, 0.0
    variance = max(together - alone, 0.0) / (num_clients - own)
    return variance, max(alone - own * variance, 0.0)


def ceil_root(number: int) -> int:
    """Return the smallest integer whose square is at least a number from 0 on."""
    return isqrt(number - 1) + 1 if number > 0 else 0


def error_ratio(ratio: float, num_clients: int, corrupt: int, num_servers: int) -> float:
    """Return by which factor two layers raise the error of a sum of n clients.

    sqrt(1 + (v / V1) (N c / n - 1)) with v / V1 = (rho c - 1) / (c - 1), c = n - t; 1 where rho c is at most 1.

    Args:
        ratio: rho = V2 / V1.
        num_clients: n.
        corrupt: t.
        num_servers: N.
    """
    honest = num_clients - corrupt
    if ratio * honest <= 1:
        return 1.0
    return sqrt(1 + (ratio * honest - 1) / (honest - 1) * (num_servers * honest / num_clients - 1))
