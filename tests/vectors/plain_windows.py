"""What windows promise, one and all of a source together, from the definition of the profile."""

import math
from fractions import Fraction


def window_epsilons(mechanism: dict[str, object], delta: str, clients: int, count: int) -> tuple[float, float]:
    """Epsilon of one sum over the fewest clients, and of `count` of them, replacing a source's row in each.

    The log-likelihood ratio of `count` independent pairs N(0, s^2) and N(D, s^2) is normal about count D^2 / 2 s^2 with
    twice that as its variance; nothing is said here of a mu of all of them.
    """
    bound, unit = Fraction(str(mechanism["row_bound"])), 2 ** int(str(mechanism["fraction_bits"]))
    distance = 4 * math.floor(bound**2 * unit**2)
    variance = clients * int(str(mechanism["sigma"])) ** 2 - 4
    return tuple(_epsilon_of_sums(distance / variance, number, float(delta)) for number in (1, count))  # type: ignore[return-value]


def _epsilon_of_sums(squared: float, count: int, delta: float) -> float:
    """Find the epsilon of that ratio by its definition, E max(0, 1 - e^(epsilon - L)) = delta, where L is normal."""
    mean = count * squared / 2
    spread = math.sqrt(2 * mean)

    def spent(epsilon: float) -> float:
        high, low = (mean - epsilon) / spread, (-mean - epsilon) / spread
        return 0.5 * math.erfc(-high / math.sqrt(2)) - math.exp(epsilon) * 0.5 * math.erfc(-low / math.sqrt(2))

    least, most = 0.0, 100.0
    for _ in range(200):
        middle = (least + most) / 2
        least, most = (least, middle) if spent(middle) <= delta else (middle, most)
    return most
