"""The least noise of clients and servers together, by trying every floor for every sigma from the smallest on."""

import math
from fractions import Fraction
from math import isqrt

from plain import gaussian_mu

LATTICE = 4


def least_layers(
    mechanism: dict[str, object],
    epsilon: float,
    alone: float,
    delta: float,
    clients: int,
    corrupt: int,
    *,
    null: bool = False,
    merged: bool = False,
) -> tuple[int, int]:
    """The smallest sigma that keeps epsilon with some floor, which is the least that keeps `alone` beside it.

    A replaced row moves a sum by 2B, a sketch of one entry a column by the same, a second moment by R = B^2; against
    the null row by B and R / sqrt 2. A clip counter's g is a part of what a replaced row moves, for a sketch too.
    """
    bound = math.floor(Fraction(str(mechanism["row_bound"])) ** 2 * 4 ** int(str(mechanism["fraction_bits"])))
    products, rows = mechanism["kind"] == "second_moment", int(str(mechanism.get("rows", 1)))
    replaced = bound**2 if products else 4 * bound
    own = Fraction(replaced, (2 if products else 4) if null else 1)
    weight = Fraction(str(mechanism.get("clip_count_weight", "0")))
    counter = isqrt(math.floor(weight**2 * replaced)) ** 2
    few, many = clients // rows - corrupt, clients - corrupt
    together, lone = gaussian_mu(epsilon, delta) ** 2, gaussian_mu(alone, delta) ** 2
    sigma = 4
    while True:
        floor = 0
        while not _hides(own + counter, lone, sigma, floor, merged):
            floor = max(2, floor + 1)
        behind = floor**2 - LATTICE
        if own / Fraction(few * sigma**2 + behind) + counter / Fraction(many * sigma**2 + behind) <= together:
            return sigma, floor
        sigma += 1


def _hides(square: Fraction, allowed: float, sigma: int, floor: int, merged: bool) -> bool:
    left = floor**2 - LATTICE + sigma**2 * (not (merged and floor))
    return left > 0 and square / left <= allowed


def floor_deviations(sigma: int, floor: int, deviations: list[int]) -> list[int]:
    """What a server adds to words of these deviations: as much in proportion, and the next integer above."""
    return [math.ceil(Fraction(floor * each, sigma)) for each in deviations]
