"""Dithered rounding and row weights a second time, in plain Python; it shares no code with the package.

Written from docs/reference/protocol-encoding.md#dithered-rounding and
docs/reference/mechanisms/second_moment.md#row-weights, to be read beside them. Numbers are Python's doubles: every
operation is rounded by itself, in the order that stands there.
"""

import math
from fractions import Fraction
from math import isqrt
from typing import Any

import plain
import plain_organisations
import plain_range

Mechanism = dict[str, Any]
Row = list[float | None]


class Words:
    """The generator's 32-bit words, in the order in which they are read."""

    def __init__(self, given: list[int]) -> None:
        self.left = list(given)

    def read(self) -> int:
        return self.left.pop(0)


def cut(x: float) -> float:
    return min(max(x, -(2.0**400)), 2.0**400)


def norm(vector: list[float]) -> float:
    total = 0.0
    for x in vector:
        total = total + x * x
    return math.sqrt(total)


def dithered(vector: list[float], squared_bound: int, words: Words, factor: float | None = None) -> list[int]:
    """Shrink a vector of steps, or multiply it by a factor that is known already, and round it up or down by u."""
    if factor is None:
        vector = [cut(x) for x in vector]
        longest = shrunken(squared_bound, len(vector))
        factor = longest / max(norm(vector), longest)
    shrunk = [x * factor for x in vector]
    steps = [_step(x, words.read()) for x in shrunk]
    while sum(step * step for step in steps) > squared_bound:
        steps = [math.trunc(x) for x in shrunk]
        shrunk = [x * (1 - 2.0**-30) for x in shrunk]
    return steps


def _step(x: float, u: int) -> int:
    below = math.floor(x)
    return below + 1 if u < (x - below) * 2.0**32 else below


def shrunken(squared_bound: int, entries: int) -> float:
    """L = sqrt(A) - sqrt(e)."""
    return math.sqrt(squared_bound) - math.sqrt(entries)


def weighted(mechanism: Mechanism, rows: list[Row], squared_bound: int, words: Words) -> list[list[int]]:
    """The integer vectors f of a person's rows, or of one row."""
    unit, constant = 2.0 ** int(mechanism["fraction_bits"]), float(mechanism["intercept"])
    target, entries = mechanism.get("target"), len(rows[0]) + 1
    by_features = mechanism["row_weights"] == "features"
    bound, k = math.inf, float(mechanism.get("target_factor", "1"))
    if by_features:
        bound = float(mechanism["target_bound"])
        k = shrunken(_squared(mechanism), entries) / math.sqrt(2) / (bound * unit)
    vectors = []
    for row in rows:
        known = [0.0] * entries if None in row else [constant, *(cut(x) for x in row if x is not None)]
        if "features_basis" in mechanism:
            known = _turned(known, mechanism["features_basis"], target)
        if target is not None:
            known[target + 1] = min(max(known[target + 1], -bound), bound) * k
        vectors.append([x * unit for x in known])
    longest = shrunken(squared_bound, len(rows) * entries)
    factor = longest / max(norm([x for vector in vectors for x in vector]), longest)
    if by_features:
        features = [x for vector in vectors for place, x in enumerate(vector) if place != target + 1]
        longest = longest / math.sqrt(2)
        factor = min(factor, longest / max(norm(features), longest))
    long = dithered([x for vector in vectors for x in vector], squared_bound, words, factor)
    return [long[start : start + entries] for start in range(0, len(long), entries)]


def _turned(vector: list[float], basis: list[list[str]], target: int | None) -> list[float]:
    """T z in the places of the features z, products added up from the first feature on."""
    places = [place for place in range(1, len(vector)) if target is None or place != target + 1]
    made = list(vector)
    for row, place in zip(basis, places, strict=True):
        total = 0.0
        for entry, other in zip(row, places, strict=True):
            total += vector[other] * float(entry)
        made[place] = total
    return made


def report(mechanism: Mechanism, row: Row, outside: bool, words: Words) -> list[int]:
    """The noiseless report of one normalised row; `outside` says whether a bound of a column moved a value of it."""
    bound, counts = _squared(mechanism), mechanism.get("count") == "noisy"
    filled = [0.0 if x is None else x for x in row]
    steps = [x * 2.0 ** int(mechanism["fraction_bits"]) for x in filled]
    if "row_weights" in mechanism:
        found = _products(mechanism, weighted(mechanism, [row], bound, words)[0])
        found += [bound // 5] * counts
        if "clip_count_weight" in mechanism:
            beyond = "target_bound" in mechanism and abs(filled[mechanism["target"]]) > float(mechanism["target_bound"])
            square = Fraction(mechanism["clip_count_weight"]) ** 2 * squared_distance(mechanism, None, "replace-one")
            found.append(isqrt(math.floor(square)) if outside or beyond else 0)
        return [0] * len(found) if None in row else found
    if mechanism["kind"] == "osnap_published":
        most = math.floor(Fraction(mechanism["entry_bound"]) * 2 ** int(mechanism["fraction_bits"]))
        entries = [_step(min(max(x, -most), most), words.read()) for x in steps]
        return entries * int(mechanism["sparsity"])
    if mechanism["kind"] == "range_finder":
        return _projected(mechanism, steps, words)
    made = dithered(steps, bound, words)
    if mechanism["kind"] == "second_moment":
        constant = math.floor(Fraction(mechanism["intercept"]) * 2 ** int(mechanism["fraction_bits"]))
        found = plain.products(made, constant, mechanism["trace"]) + [constant**2] * counts
    elif mechanism["kind"] == "second_moment_wishart":
        found = plain.products(made)
    else:
        found = made + [isqrt(bound // 4)] * counts
    return [0] * len(found) if counts and None in row else found


def _projected(mechanism: Mechanism, steps: list[float], words: Words) -> list[int]:
    """A row's products with its targets and its projection, the row and the projection dithered one after the other."""
    rank, h = mechanism["rank"], plain_range.halvings(mechanism["rank"])
    made = dithered(steps, plain_range.row_squared(mechanism), words)
    omega = plain_range.signs(plain_range.urlsafe_b64decode(mechanism["omega_seed"] + "="), len(made), rank)
    sums = [sum(x * line[j] for x, line in zip(made, omega, strict=True)) for j in range(rank)]
    projected = dithered([float(total) / 2**h for total in sums], plain_range.projected_squared(mechanism), words)
    own = [max(-a, min(a, made[column] * times)) for column, times, a in plain_range.anchors(mechanism)]
    factors = plain_range.constant(mechanism) + own + projected
    return plain_range.products(made, factors, mechanism["trace"])


def contribution(
    mechanism: Mechanism, contributors: Mechanism, rows: list[Row], persons: list[int], words: Words
) -> list[int]:
    """The noiseless report of an organisation: persons with fewer rows first, then in the order of their numbers."""
    noisy = contributors["count"] == "noisy"
    kept = [(who, row) for who, row in zip(persons, rows, strict=True) if not (noisy and None in row)]
    bound = plain_organisations.person_bound(mechanism, contributors)
    own = {who: [row for other, row in kept if other == who] for who in sorted({who for who, _ in kept})}
    total: list[int] = []
    for person in sorted(own.values(), key=len):
        if "row_weights" in mechanism:
            counted = [bound // (5 * contributors["rows_per_person"])] * noisy
            made = [_products(mechanism, f) + counted for f in weighted(mechanism, person, bound, words)]
        else:
            unit, width = 2.0 ** int(mechanism["fraction_bits"]), len(person[0])
            long = dithered([(0.0 if x is None else x) * unit for row in person for x in row], bound, words)
            made = [
                plain_organisations.encoded(mechanism, contributors, long[start : start + width])
                for start in range(0, len(long), width)
            ]
        for each in made:
            total = [a + b for a, b in zip(total, each, strict=True)] if total else each
    return total if noisy else [*total, len(rows)]


def squared_distance(mechanism: Mechanism, contributors: Mechanism | None, neighbours: str) -> Fraction:
    """T^2 where rows with weights are replaced, T^2 / 2 to null rows, T^2 / 2 more for the trace, and the count's."""
    bound, rows, noisy, places = _squared(mechanism), 1, mechanism.get("count") == "noisy", 1
    if contributors is not None:
        bound, rows = plain_organisations.person_bound(mechanism, contributors), contributors["rows_per_person"]
        noisy, places = contributors["count"] == "noisy", contributors["organisations_per_person"]
    counted = bound // (5 * rows) if noisy else 0
    to_null = Fraction(bound**2, 1 if mechanism["trace"] else 2) + (counted * rows) ** 2
    between = Fraction(bound**2 + (counted * (rows - 1)) ** 2)
    return places**2 * (max(between, to_null) if neighbours == "replace-one" else to_null)


def _products(mechanism: Mechanism, vector: list[int]) -> list[int]:
    return plain.products(vector, 0, mechanism["trace"])


def _squared(mechanism: Mechanism) -> int:
    unit: int = 2 ** int(mechanism["fraction_bits"])
    return math.floor((Fraction(mechanism["row_bound"]) * unit) ** 2)
