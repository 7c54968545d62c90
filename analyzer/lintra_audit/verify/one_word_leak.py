"""Finds the rows of one word that fit opened checks: those for which some blinds give these numbers."""

from collections.abc import Iterable, Sequence

import numpy as np

from lintra_protocol.verification.fields import PRIMES, ROOTS
from lintra_protocol.verification.padding import padded_rows
from lintra_protocol.verification.parameters import Parameters
from lintra_protocol.verification.points import Points
from lintra_protocol.verification.shares import elements_of, words_of

PRIME, ROOT = PRIMES[0], ROOTS[0]
Pair = tuple[int, int]
"""The values of a column's polynomial at a point and at its inverse, or shares of them."""

Equation = tuple[int, int, int]
"""b beta + c gamma = d."""


def rows_that_fit(
    parameters: Parameters, rows: Iterable[int], points: Sequence[Points], opened: Sequence[Pair]
) -> list[int]:
    """Return which rows of one word may be that of a report, given its checks in the first field.

    `parameters` are those of one word, hence of one column; `points` are those at which the report was checked.
    `opened` holds f(r) and f(1/r) for each of them, added up over all servers.
    """
    candidates = [row for row in rows if row**2 <= parameters.squared_bound]
    padded = padded_rows(parameters, np.array(candidates, np.int64)[:, np.newaxis]).tolist()
    return [
        row
        for row, words in zip(candidates, padded, strict=True)
        if _solvable([each for at, seen in zip(points, opened, strict=True) for each in _equations(words, at[0], seen)])
    ]


def pair_in(parameters: Parameters, body: bytes, place: int) -> Pair:
    """Return one server's shares of f(r) and f(1/r), as they stand in the body of its check share."""
    start = place * parameters.check_bytes
    first, second = np.frombuffer(body[start : start + 16], "<u8").tolist()
    return first, second


def pair_of(parameters: Parameters, payload: bytes, point: int) -> Pair:
    """Return the last server's shares of both in plain integers, at any point: the kernel refuses some."""
    rows = np.frombuffer(payload, np.uint8)[np.newaxis]
    words = words_of(parameters, rows)
    integers = [
        int(low) + (int(high) << 64) - parameters.offset
        for low, high in zip(words["low"][0], words["high"][0], strict=True)
    ]
    beta, gamma = elements_of(parameters, rows)[0, 0, :2].tolist()
    column = [*integers, beta, beta * ROOT, gamma, gamma * ROOT]
    first, second = (
        sum(own * pow(at, power, PRIME) for power, own in enumerate(column)) % PRIME
        for at in (point, pow(point, -1, PRIME))
    )
    return first, second


def added(pairs: Iterable[Pair]) -> Pair:
    """Add up the shares of all servers."""
    first, second = zip(*pairs, strict=True)
    return sum(first) % PRIME, sum(second) % PRIME


def _equations(words: Sequence[int], point: int, seen: Pair) -> list[Equation]:
    """Return what both numbers that a point opens say of the blinds of a row."""
    size, found = len(words), []
    for at, value in ((point, seen[0]), (pow(point, -1, PRIME), seen[1])):
        rest = (value - sum(word * pow(at, power, PRIME) for power, word in enumerate(words))) % PRIME
        beta, gamma = ((pow(at, k, PRIME) + ROOT * pow(at, k + 1, PRIME)) % PRIME for k in (size, size + 2))
        found.append((beta, gamma, rest))
    return found


def _solvable(equations: Sequence[Equation]) -> bool:
    """Return whether linear equations of two unknowns have a solution, by elimination modulo the prime."""
    left = list(equations)
    for unknown in range(2):
        pivot = next((each for each in left if each[unknown]), None)
        if pivot is None:
            continue
        left.remove(pivot)
        inverse = pow(pivot[unknown], -1, PRIME)
        left = [_less(each, pivot, each[unknown] * inverse) for each in left]
    return all(rest == 0 for _, _, rest in left)


def _less(equation: Equation, pivot: Equation, factor: int) -> Equation:
    b, c, d = ((own - factor * other) % PRIME for own, other in zip(equation, pivot, strict=True))
    return b, c, d
