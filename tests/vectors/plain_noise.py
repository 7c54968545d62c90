"""The least noise of a server, where servers add all of it: one draw hides what a row moves in all rows together."""

import math
from fractions import Fraction
from math import isqrt

from plain import gaussian_mu

LATTICE = 4


def server_sigma(mechanism: dict[str, object], epsilon: float, delta: float, *, null: bool = False) -> int:
    """The smallest sigma with squared shift / (sigma^2 - 4) <= mu^2; no number of clients, no matrix, no leverage.

    A row moves s rows of a sketch alike, a second moment by R = B^2 (R / sqrt 2 against the null row, without a trace),
    a counter g more, g being a part of what a replaced row moves.
    """
    shift, replaced = (_squared_shift(mechanism, gone) for gone in (null, False))
    weight = Fraction(str(mechanism.get("clip_count_weight", "0")))
    counter = isqrt(math.floor(weight**2 * replaced)) ** 2
    allowed, sigma = gaussian_mu(epsilon, delta) ** 2, 4
    while (shift + counter) / Fraction(sigma**2 - LATTICE) > allowed:
        sigma += 1
    return sigma


def _squared_shift(mechanism: dict[str, object], null: bool) -> Fraction:
    bound = math.floor(Fraction(str(mechanism["row_bound"])) ** 2 * 4 ** int(str(mechanism["fraction_bits"])))
    if mechanism["kind"] == "second_moment":
        return Fraction(bound**2, 2 if null else 1)
    return Fraction(int(str(mechanism.get("sparsity", 1))) * bound * (1 if null else 4))
