"""A second round of `second_moment` in plain Python; it shares no code with the package.

Written from docs/reference/mechanisms/second_moment.md, to be read beside it. A row is what it is along the directions
of a basis, rounded half up, joined by targets, and shrunk in integers.
"""

import math
from base64 import urlsafe_b64decode
from fractions import Fraction
from math import isqrt
from typing import Any

import plain
import plain_joint

Mechanism = dict[str, Any]


def basis(text: str, columns: int) -> list[list[int]]:
    """Steps of 2^-14, row by row, two bytes each with the sign in the last."""
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    numbers = [int.from_bytes(data[i : i + 2], "little", signed=True) for i in range(0, len(data), 2)]
    rank = len(numbers) // columns
    return [numbers[i * rank : (i + 1) * rank] for i in range(columns)]


def along(row: list[int], directions: list[list[int]], targets: list[int]) -> list[int]:
    """Q^T x over 2^14, a half rounded up, then the targets."""
    sums = [sum(x * line[j] for x, line in zip(row, directions, strict=True)) for j in range(len(directions[0]))]
    return [(total + 2**13) // 2**14 for total in sums] + [row[column] for column in targets]


def report(mechanism: Mechanism, row: list[float]) -> list[int]:
    """The noiseless report of a normalised row."""
    unit = 2 ** int(mechanism["fraction_bits"])
    bound = math.floor(Fraction(mechanism["row_bound"]) ** 2 * unit**2)
    constant = math.floor(Fraction(mechanism["intercept"]) * unit)
    steps = plain.quantise([value * unit for value in row], bound)
    joined = along(steps, basis(mechanism["basis"], len(row)), mechanism.get("targets", []))
    words = plain.products(plain_joint.clip(joined, isqrt(bound)), constant, mechanism["trace"])
    words += [constant**2] * (mechanism.get("count") == "noisy")
    if "clip_count_weight" in mechanism:
        longer = sum(x * x for x in joined) > isqrt(bound) ** 2
        words.append(plain.clip_count(mechanism, row, longer))
    return words


def squared_distance(mechanism: Mechanism, neighbours: str) -> Fraction:
    """R is what it is for columns: nothing that is joined is longer."""
    unit = 2 ** int(mechanism["fraction_bits"])
    bound = math.floor(Fraction(mechanism["row_bound"]) ** 2 * unit**2)
    constant = math.floor(Fraction(mechanism["intercept"]) * unit) ** 2
    between = (bound + constant) ** 2 if constant <= bound else 4 * constant * bound
    alone = Fraction(bound**2 * (2 if mechanism["trace"] else 1), 2) + constant * bound
    square = Fraction(between if neighbours == "replace-one" else alone)
    if "clip_count_weight" in mechanism:
        square += isqrt(math.floor(Fraction(mechanism["clip_count_weight"]) ** 2 * between)) ** 2
    return square


def sigma(mechanism: Mechanism, epsilon: float, delta: float, clients: int, corrupt: int) -> int:
    """The least noise that keeps a promise where a row is replaced."""
    square, allowed = squared_distance(mechanism, "replace-one"), plain.gaussian_mu(epsilon, delta) ** 2
    found = max(4, isqrt(math.floor((square / Fraction(allowed) + 4) / (clients - corrupt))) - 2)
    while square / Fraction((clients - corrupt) * found**2 - 4) > allowed:
        found += 1
    return found
