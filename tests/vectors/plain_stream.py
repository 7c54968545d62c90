"""Streams from the definition: the entries of C, the price of the worst windows by trying all, what is taken back."""

from fractions import Fraction
from itertools import combinations
from math import comb, floor


def steps(rows: int, damping: str, memory: int | None) -> list[int]:
    """256 t_0, 256 t_1, ..: 256 times the damped coefficient, to whole numbers, halves up; t_0 is 1."""
    entries = [256]
    for j in range(1, rows):
        exact = 256 * Fraction(damping) * Fraction(comb(2 * j, j), 4**j)
        entries.append(floor(exact + Fraction(1, 2)) if memory is None or j < memory else 0)
    return entries


def squared_price(rows: int, reports: int, damping: str, memory: int | None) -> Fraction:
    """Find the largest squared norm of a sum of so many columns of C."""
    entries = steps(rows, damping, memory)
    columns = [[0] * i + entries[: rows - i] for i in range(rows)]
    sums = (
        sum(sum(columns[i][row] for i in chosen) ** 2 for row in range(rows))
        for chosen in combinations(range(rows), reports)
    )
    return Fraction(max(sums), 256**2)


def carried(entries: list[int], row: int, memories: dict[int, list[int]]) -> list[int]:
    """What a window takes back: the sum of T[row, i] m_i over what is remembered, halves up."""
    words = len(next(iter(memories.values())))
    return [
        floor(sum((Fraction(entries[row - i], 256) * own[word] for i, own in memories.items()), Fraction(1, 2)))
        for word in range(words)
    ]
