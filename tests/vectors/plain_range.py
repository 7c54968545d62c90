"""`range_finder` a second time, in plain Python; it shares no code with the package.

Written from docs/reference/mechanisms/range_finder.md, to be read beside it. A mechanism is the dictionary that stands
in a task, a row a list of normalised numbers.
"""

import math
from base64 import urlsafe_b64decode
from fractions import Fraction
from math import isqrt
from typing import Any

import plain

Mechanism = dict[str, Any]


def signs(seed: bytes, columns: int, rank: int) -> list[list[int]]:
    """Sign (i, j) is bit i r + j of the seed's stream, the least significant of a byte first; 1 means -1."""
    stream = plain.keystream(plain.derive(seed, "range finder"), (columns * rank + 7) // 8)
    bits = [byte >> place & 1 for byte in stream for place in range(8)]
    return [[1 - 2 * bits[i * rank + j] for j in range(rank)] for i in range(columns)]


def halvings(rank: int) -> int:
    h = 0
    while 4 ** (h + 1) < 2 * rank:
        h += 1
    return h


def projection(row: list[int], omega: list[list[int]], h: int, squared_bound: int) -> list[int]:
    """Omega^T x over 2^h, rounded and clipped."""
    sums = [sum(x * line[j] for x, line in zip(row, omega, strict=True)) for j in range(len(omega[0]))]
    return plain.quantise([total / 2**h for total in sums], squared_bound)


def products(row: list[int], factors: list[int], trace: bool = False) -> list[int]:
    return [x * q for x in row for q in factors] + [sum(x * x for x in row)] * trace


def row_squared(mechanism: Mechanism) -> int:
    """R_x."""
    return math.floor(_real(mechanism, "row_bound") ** 2 * 4 ** int(mechanism["fraction_bits"]))


def projected_squared(mechanism: Mechanism) -> int:
    """R_p."""
    power = int(mechanism["fraction_bits"]) - halvings(mechanism["rank"])
    return math.floor(Fraction(4) ** power * mechanism["rank"] * _real(mechanism, "projected_bound") ** 2)


def constant(mechanism: Mechanism) -> list[int]:
    """C0, or nothing without an intercept."""
    return [math.floor(_real(mechanism, "intercept") * _unit(mechanism))] * (mechanism["intercept"] != "0")


def anchors(mechanism: Mechanism) -> list[tuple[int, int, int]]:
    """For each target its column, 2^g and A."""
    longest = isqrt(row_squared(mechanism))
    return [
        (
            t["column"],
            2 ** t["bits"],
            2 ** t["bits"] * min(longest, math.floor(Fraction(t["bound"]) * _unit(mechanism))),
        )
        for t in mechanism["targets"]
    ]


def factor_squared(mechanism: Mechanism) -> int:
    """R_q."""
    fixed = sum(c * c for c in constant(mechanism)) + sum(bound**2 for _, _, bound in anchors(mechanism))
    return fixed + projected_squared(mechanism)


def squared_distance(mechanism: Mechanism, neighbours: str) -> int:
    """Theorem N1, and g^2 for the clip counter."""
    square = row_squared(mechanism) * factor_squared(mechanism)
    return square * (4 if neighbours == "replace-one" else 1) + clip_steps(mechanism) ** 2


def clip_steps(mechanism: Mechanism) -> int:
    if "clip_count_weight" not in mechanism:
        return 0
    weight = _real(mechanism, "clip_count_weight")
    return isqrt(math.floor(weight**2 * 4 * row_squared(mechanism) * factor_squared(mechanism)))


def report(mechanism: Mechanism, row: list[float]) -> list[int]:
    """The noiseless report of a normalised row."""
    bound, rank = row_squared(mechanism), mechanism["rank"]
    steps = plain.quantise([value * _unit(mechanism) for value in row], bound)
    omega = signs(urlsafe_b64decode(mechanism["omega_seed"] + "="), len(row), rank)
    h, longest = halvings(rank), projected_squared(mechanism)
    own = [max(-a, min(a, steps[column] * times)) for column, times, a in anchors(mechanism)]
    factors = constant(mechanism) + own + projection(steps, omega, h, longest)
    words = products(steps, factors, mechanism["trace"])
    if "clip_count_weight" in mechanism:
        projected = sum(sum(x * line[j] for x, line in zip(steps, omega, strict=True)) ** 2 for j in range(rank))
        long = sum(Fraction(value) ** 2 for value in row) > _real(mechanism, "row_bound") ** 2
        words.append(clip_steps(mechanism) if long or projected > 4**h * longest else 0)
    return words


def counted(mechanism: Mechanism) -> list[int]:
    """What a row of an organisation adds to a noisy count."""
    return [c * c for c in constant(mechanism)]


def decode(mechanism: Mechanism, words: list[int]) -> list[float]:
    """A product with the constant counts 2^-f / C0, with a target 4^-f 2^-g, a projected one 4^-f 2^h / sqrt(r)."""
    step = 2.0 ** -int(mechanism["fraction_bits"])
    scales = [step / c for c in constant(mechanism)]
    scales += [step**2 / times for _, times, _ in anchors(mechanism)]
    scales += [step**2 * 2 ** halvings(mechanism["rank"]) / math.sqrt(mechanism["rank"])] * mechanism["rank"]
    beside = ["clip"] * ("clip_count_weight" in mechanism)
    lifted = [plain.lift(word) for word in words[: len(words) - len(beside)]]
    trace = [lifted.pop() * step**2] if mechanism["trace"] else []
    return [word * scales[place % len(scales)] for place, word in enumerate(lifted)] + trace


def sigma(mechanism: Mechanism, epsilon: float, delta: float, clients: int, corrupt: int, neighbours: str) -> int:
    """The least noise that keeps a promise: mu = distance / sqrt((n - t) sigma^2 - 4)."""
    square, allowed = squared_distance(mechanism, neighbours), plain.gaussian_mu(epsilon, delta) ** 2
    found = max(4, isqrt(math.floor((square / allowed + 4) / (clients - corrupt))) - 2)
    while square / Fraction((clients - corrupt) * found**2 - 4) > allowed:
        found += 1
    return found


def _real(mechanism: Mechanism, field: str) -> Fraction:
    return Fraction(mechanism[field])


def _unit(mechanism: Mechanism) -> int:
    return 2 ** int(mechanism["fraction_bits"])
