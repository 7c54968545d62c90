"""Which cells of a large grid `make test` runs; `make test-all` runs them all."""

from math import sqrt

GOLDEN = (sqrt(5) - 1) / 2


def is_quick(index: int, part: int) -> bool:
    """Return whether a cell is among the one in `part` that run quickly, the first always.

    Multiples of the golden ratio are spread evenly modulo 1 whatever the period, so that no parameter of a grid is
    looked at in one of its values only.
    """
    return index * GOLDEN % 1 < 1 / part
