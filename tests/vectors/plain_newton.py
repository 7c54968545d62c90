"""`newton_step` a second time, in plain Python; it shares no code with the package.

Written from docs/reference/mechanisms/newton_step.md, to be read beside it. Numbers that tell the privacy are integers
and fractions.
"""

import math
from fractions import Fraction
from math import isqrt
from typing import Any

import plain
from plain_dithered import Row, Words

Mechanism = dict[str, Any]


def most(level: int, bits: int) -> int:
    """The largest integer weight that goes with an integer residual."""
    return math.ceil(Fraction(level * (2**bits - level), 2**bits))


def is_start(mechanism: Mechanism) -> bool:
    return all(Fraction(number) == 0 for number in mechanism["parameter"])


def levels(mechanism: Mechanism) -> list[int]:
    one = 2 ** mechanism["residual_bits"]
    return [one // 2] if is_start(mechanism) else list(range(one + 1))


def square(mechanism: Mechanism) -> int:
    return math.floor(4 ** mechanism["fraction_bits"] * Fraction(mechanism["row_bound"]) ** 2)


def factor(mechanism: Mechanism) -> int:
    """Gamma: one after the other, until the Hessian is small enough beside the gradient."""
    bits, one = mechanism["residual_bits"], 2 ** mechanism["residual_bits"]
    if is_start(mechanism):
        allowed = Fraction(8)
    elif mechanism.get("neighbours", "replace-one") == "replace-one":
        allowed = min(Fraction((one - t) * (3 * one + t), most(t, bits) ** 2) for t in range(1, one))
    else:
        allowed = min(Fraction(one**2 - t**2, most(t, bits) ** 2) for t in range(1, one))
    found = 1
    while Fraction(square(mechanism), 2 * found**2) > allowed:
        found += 1
    return found


def report(mechanism: Mechanism, row: Row, outside: bool, words: Words) -> list[int]:
    """The noiseless report of one row: gradient, upper triangle, and a clip counter where there is one."""
    u = [words.read() for _ in range(3)]
    size, bits, unit = len(row), mechanism["residual_bits"], 2 ** mechanism["fraction_bits"]
    counter = [_counted(mechanism) * outside] if Fraction(mechanism.get("clip_count_weight", "0")) else []
    if any(x is None for x in row):
        return [0] * (size + size * (size + 1) // 2 + len(counter))
    numbers = [float(x) for x in row if x is not None]
    y = int(numbers.pop(mechanism["target"]) > 0)
    constant = math.floor(Fraction(mechanism["intercept"]) * unit)
    vector = [float(constant), *(float(round(x * unit)) for x in numbers)]
    score = 0.0
    for x, b in zip(vector, mechanism["parameter"], strict=True):
        score = score + x * (float(b) / unit)
    r = y - (1 / (1 + math.exp(-score)) if score > -700 else 0.0)
    norm = math.sqrt(sum(x * x for x in vector))
    root = math.sqrt(square(mechanism))
    shrunk = root / norm if norm > root else 1.0
    t = min(_step(abs(r) * 2**bits, u[0]), 2**bits)
    rho = min(_step(t * shrunk, u[1]), t) * (-1 if r < 0 else 1)
    om = _step(t * (2**bits - t) / 2**bits, u[2])
    x = plain.quantise(vector, square(mechanism))
    gradient = [factor(mechanism) * rho * each for each in x]
    triangle = [om * x[i] * x[j] for i in range(size) for j in range(i, size)]
    return gradient + triangle + counter


def contribution(
    mechanism: Mechanism, contributors: Mechanism, rows: list[Row], persons: list[int], words: Words
) -> list[int]:
    """What an organisation sends, without noise; persons' rows are clipped one by one."""
    del persons
    noisy = contributors["count"] == "noisy"
    sent = [row for row in rows if not (noisy and None in row)]
    # The reader of the generator takes three words for each row, also where a number is missing.
    found = [report(mechanism, row, False, words) + [count_steps(mechanism)] * noisy for row in sent]
    size = len(rows[0])
    total = [sum(column) for column in zip(*found, strict=True)] or [0] * (size + size * (size + 1) // 2 + noisy)
    return total if noisy else [*total, len(rows)]


def count_steps(mechanism: Mechanism) -> int:
    return factor(mechanism) * levels(mechanism)[-1] * isqrt(square(mechanism)) // 5


def squared_distance(mechanism: Mechanism, contributors: Mechanism | None, neighbours: str) -> Fraction:
    """The largest squared distance of two releases that differ in one row, or in one person."""
    one, gamma, bits = square(mechanism), factor(mechanism), mechanism["residual_bits"]
    null = max(gamma**2 * t**2 * one + Fraction(most(t, bits) ** 2 * one**2, 2) for t in levels(mechanism))
    if is_start(mechanism):
        beta = Fraction(one, 2 * gamma**2)
        between = gamma**2 * 4**bits * one * (Fraction(1, 2) + beta / 8 + 1 / (2 * beta))
    else:
        between = Fraction(4 * gamma**2 * 4**bits * one)
    if contributors is None:
        return max(null, between) if neighbours == "replace-one" else null
    null += count_steps(mechanism) ** 2 * (contributors["count"] == "noisy")
    found = max(null, between) if neighbours == "replace-one" else null
    return (contributors["rows_per_person"] * contributors["organisations_per_person"]) ** 2 * found


def _counted(mechanism: Mechanism) -> int:
    exact = Fraction(mechanism["clip_count_weight"]) ** 2 * squared_distance(mechanism, None, "replace-one")
    return isqrt(math.floor(exact))


def _step(x: float, u: int) -> int:
    below = math.floor(x)
    return below + 1 if u < (x - below) * 2.0**32 else below
