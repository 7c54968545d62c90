"""How unlikely it is that a sum of rows and noise leaves the ring. A wrap costs utility, never privacy."""

import math


def log_wrap_probability(num_entries: int, max_total: int, noise_variance: float, ring_bits: int) -> float:
    """Return the natural logarithm of a bound on the probability that any entry of the sketch wraps around.

    The bound is 2 num_entries exp(-(2^(ring_bits-1) - max_total)^2 / (2 noise_variance)): discrete Gaussians
    are sub-Gaussian with their own parameter (Canonne, Kamath, Steinke 2020), and so are sums of independent
    ones; see docs/proofs/integers.md#headroom.

    Args:
        num_entries: words of the sketch, m times d.
        max_total: the largest absolute value of an entry without noise, in integer units.
        noise_variance: of the noise in one entry, clients' and servers', in squared integer units.
        ring_bits: k of the ring Z_{2^k}.

    Returns:
        Natural logarithm, possibly above 0; infinite if the entries do not fit even without noise.

    Raises:
        ValueError: if a count is not positive or `max_total` or `noise_variance` is negative.
    """
    if num_entries < 1 or ring_bits < 2 or max_total < 0 or not noise_variance >= 0:
        raise ValueError(
            f"no headroom for {num_entries} entries up to {max_total} and variance {noise_variance} "
            f"in a ring of {ring_bits} bits"
        )
    room = (1 << (ring_bits - 1)) - max_total
    if room <= 0:
        return math.inf
    if noise_variance == 0:
        return -math.inf
    return math.log(2 * num_entries) - room**2 / (2 * noise_variance)
