"""What was demanded of coverage before the grid was computed, and which cells keep it."""

import numpy as np

from coverage_grid.cells import Cell

LEAST, MOST, LEAST_R2 = 0.93, 0.99, 0.92


def error(share: float, draws: int) -> float:
    """Return the simulation error of a share."""
    return float(np.sqrt(share * (1 - share) / draws))


def low(cell: Cell) -> bool:
    """Return whether a coefficient is covered less than `LEAST` by more than two simulation errors."""
    return min(cell.coverage) < LEAST - 2 * error(LEAST, cell.draws)


def high(cell: Cell) -> bool:
    """Return whether a coefficient is covered more than `MOST` by more than two simulation errors."""
    return max(cell.coverage) > MOST + 2 * error(MOST, cell.draws)


def poor(cell: Cell) -> bool:
    """Return whether r2 is covered less than `LEAST_R2` by more than two simulation errors."""
    return cell.r2 is not None and cell.r2 < LEAST_R2 - 2 * error(LEAST_R2, cell.draws)


def marks(cell: Cell) -> str:
    """Return "!" if a coefficient is covered too seldom, "!r2" if r2 is, and "^" if a coefficient is more often."""
    return "!" * low(cell) + "!r2" * poor(cell) + "^" * high(cell)
