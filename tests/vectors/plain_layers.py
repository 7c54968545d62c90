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
    parts: tuple[float, float] | None = None,
) -> tuple[int, int]:
    """The smallest sigma that keeps epsilon with some floor, which is the least that keeps `alone` beside it.

    A replaced row moves a sum by 2B, a sketch of one entry a column by the same, a second moment by R = B^2; against
    the null row by B and R / sqrt 2. A clip counter's g is a part of what a replaced row moves, for a sketch too. A
    sketch of s entries a column moves by them all, behind sigma^2 / L + (v - 4) / s with the leverage L that is stated.
    `parts` are mu of both promises where they are not those of both epsilons.
    """
    bound = math.floor(Fraction(str(mechanism["row_bound"])) ** 2 * 4 ** int(str(mechanism["fraction_bits"])))
    products, rows = mechanism["kind"] == "second_moment", int(str(mechanism.get("rows", 1)))
    replaced = bound**2 if products else 4 * bound
    own = Fraction(replaced, (2 if products else 4) if null else 1)
    weight = Fraction(str(mechanism.get("clip_count_weight", "0")))
    entries = int(str(mechanism.get("sparsity", 1)))
    counter = isqrt(math.floor(weight**2 * replaced * entries)) ** 2
    many = clients - corrupt
    shared = Fraction(str(mechanism["leverage"])) if entries > 1 else Fraction(1, clients // rows - corrupt)
    mus = parts or (gaussian_mu(epsilon, delta), gaussian_mu(alone, delta))
    together, lone = mus[0] ** 2, mus[1] ** 2
    sigma, least = least_of(entries)
    while True:
        floor = least
        while not _hides(own, counter, lone, sigma, floor, entries, merged):
            floor = max(2, floor + 1)
        behind = floor**2 - LATTICE
        if (
            own / (sigma**2 / shared + Fraction(behind, entries)) + counter / Fraction(many * sigma**2 + behind)
            <= together
        ):
            return sigma, floor
        sigma += 1


def least_of(entries: int) -> tuple[int, int]:
    """The least sigma and floor that a task may have: 4 and none, or where rows overlap 8 and 2 sqrt(s)."""
    return (4, 0) if entries == 1 else (8, math.ceil(2 * math.sqrt(entries)))


def _hides(own: Fraction, counter: int, allowed: float, sigma: int, floor: int, entries: int, merged: bool) -> bool:
    left, of_client = floor**2 - LATTICE, sigma**2 * (not (merged and floor))
    if left + of_client <= 0:
        return False
    return own * entries / (left + entries * of_client) + Fraction(counter, left + of_client) <= allowed


def floor_deviations(sigma: int, floor: int, deviations: list[int]) -> list[int]:
    """What a server adds to words of these deviations: as much in proportion, and the next integer above."""
    return [math.ceil(Fraction(floor * each, sigma)) for each in deviations]
