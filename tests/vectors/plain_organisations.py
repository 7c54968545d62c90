"""Contributions of organisations a second time, in plain Python; it shares no code with the package.

Written from docs/proofs/persons.md#organisations and docs/reference/protocol.md, to be read beside them. A
mechanism and its contributors are the dictionaries that stand in a task.
"""

import math
from fractions import Fraction
from math import isqrt

import plain
import plain_centred
import plain_histogram
import plain_joint
import plain_range

Document = dict[str, object]
JOINT = ("ron_gauss", "ron_gauss_centred")


def person_bound(mechanism: Document, contributors: Document) -> int:
    """T: the largest sum of squared norms of a person's rows, in integer steps."""
    unit = 2 ** int(str(mechanism["fraction_bits"]))
    if "person_bound" in contributors:
        return math.floor(Fraction(str(contributors["person_bound"])) ** 2 * unit**2)
    return _rows(contributors) * math.floor(Fraction(str(mechanism["row_bound"])) ** 2 * unit**2)


def contribution(
    mechanism: Document, contributors: Document, rows: list[list[float | None]], persons: list[int]
) -> list[int]:
    """The noiseless report of an organisation: rows of a person clipped together, encodings added up, rows counted."""
    noisy = contributors["count"] == "noisy"
    kept = [(who, row) for who, row in zip(persons, rows, strict=True) if not (noisy and _adds(mechanism, row))]
    if mechanism["kind"] == "histogram":
        words = [
            plain_histogram.vector(mechanism, [math.nan if x is None else x for x in row])
            for row in rows
        ]  # fmt: skip
        return [sum(column) for column in zip(*words, strict=True)] + [len(rows)] * (not noisy)
    if mechanism["kind"] in JOINT:
        vector = plain_joint.joint_vector if mechanism["kind"] == "ron_gauss" else plain_centred.centred_vector
        words = [vector(mechanism, row) for row in rows]
        return [sum(column) for column in zip(*words, strict=True)] + [len(rows)] * (not noisy)
    if mechanism["kind"] == "range_finder":
        plainly = {name: value for name, value in mechanism.items() if name != "clip_count_weight"}
        words = [plain_range.report(plainly, [0.0 if x is None else x for x in row]) for _, row in kept]
        words = [each + plain_range.counted(mechanism) * noisy for each in words]
        return [sum(column) for column in zip(*words, strict=True)] + [len(rows)] * (not noisy)
    bound, unit = person_bound(mechanism, contributors), 2 ** int(str(mechanism["fraction_bits"]))
    total: list[int] = []
    for person in dict.fromkeys(who for who, _ in kept):
        own = [row for who, row in kept if who == person]
        long = plain.quantise([(0.0 if x is None else x) * unit for row in own for x in row], bound)
        for number, row in enumerate(own):
            words = encoded(mechanism, contributors, long[number * len(row) : (number + 1) * len(row)])
            total = [a + b for a, b in zip(total, words, strict=True)] if total else words
    if not total:
        total = [0] * len(encoded(mechanism, contributors, [0] * len(rows[0])))
    return total if noisy else [*total, len(rows)]


def encoded(mechanism: Document, contributors: Document, steps: list[int]) -> list[int]:
    """What one row of clipped integers adds to its organisation's report, an exact count left out."""
    noisy = contributors["count"] == "noisy"
    if mechanism["kind"] == "sum":
        return steps + [isqrt(person_bound(mechanism, contributors) // (4 * _rows(contributors)))] * noisy
    constant = _constant(mechanism)
    return plain.products(steps, constant, bool(mechanism["trace"])) + [constant**2] * noisy


def squared_distance(mechanism: Document, contributors: Document, neighbours: str) -> Fraction:
    """The largest squared distance of two releases that differ in one person, in multiples of sigma."""
    rows, places = _rows(contributors), int(str(contributors["organisations_per_person"]))
    noisy = contributors["count"] == "noisy"
    if mechanism["kind"] == "histogram":
        columns = mechanism["edges"]
        assert isinstance(columns, list)
        moved = len(columns) * (rows * int(str(mechanism["indicator"]))) ** 2
        return Fraction(places**2 * moved * (2 if neighbours == "replace-one" else 1))
    if mechanism["kind"] == "range_finder":
        alone = Fraction(plain_range.squared_distance(mechanism, "zero-out"))
        alone += plain_range.row_squared(mechanism) ** 2 * bool(mechanism["trace"])
        alone += sum(word**2 for word in plain_range.counted(mechanism)) * noisy
        between = plain_range.squared_distance(mechanism, "replace-one")
        return (places * rows) ** 2 * (max(alone, Fraction(between)) if neighbours == "replace-one" else alone)
    if mechanism["kind"] == "ron_gauss_centred":
        return (places * rows) ** 2 * plain_centred.squared_distance(mechanism, replace=neighbours == "replace-one")
    bound = person_bound(mechanism, contributors)
    if mechanism["kind"] == "sum":
        counted = isqrt(bound // (4 * rows)) * rows * noisy
        return Fraction(places**2 * (4 * rows * bound if neighbours == "replace-one" else rows * bound + counted**2))
    constant = rows * _constant(mechanism) ** 2
    if neighbours == "replace-one":
        whole = 2 * (bound + constant) ** 2 if noisy or constant <= bound else 8 * constant * bound
    else:
        whole = bound**2 + 2 * constant * bound + constant**2 * noisy + bound**2 * bool(mechanism["trace"])
    return Fraction(places**2 * whole, 2)


def smallest_sigma(
    mechanism: Document, contributors: Document, neighbours: str, epsilon: float, delta: float, honest: int
) -> int:
    """The least noise of one organisation that keeps the promise with so many honest ones."""
    square = squared_distance(mechanism, contributors, neighbours)
    needed = (square / Fraction(plain.gaussian_mu(epsilon, delta)) ** 2 + 4) / honest
    return isqrt(math.floor(needed)) + 1


def _adds(mechanism: Document, row: list[float | None]) -> bool:
    """Whether a row in which a number is missing is left out of the sums."""
    return mechanism["kind"] not in ("histogram", *JOINT) and None in row


def _constant(mechanism: Document) -> int:
    return math.floor(Fraction(str(mechanism["intercept"])) * 2 ** int(str(mechanism["fraction_bits"])))


def _rows(contributors: Document) -> int:
    return int(str(contributors["rows_per_person"]))
