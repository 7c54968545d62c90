"""Where the cells of a histogram begin, if they are not of equal width: public edges, or edges for counts."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from lintra_protocol.encoding.documents import Real, fraction
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms.joint_rows import FEATURE_BITS

SMALLEST = Fraction(1, 1024)
"""The first logarithmic cell of a real column has this part of its width."""

_ONE = 1 << FEATURE_BITS


def edge_steps(column: Column, edges: Sequence[Real]) -> list[int]:
    """Return edges in a column's own unit as steps of 2^-15 of the mapped column.

    An integer column's cell begins at the edge itself: in between it and the integer before, so that rounding cannot
    move a value to another cell. Raises InvalidTaskError if edges do not ascend, do not lie inside the bounds, or are
    too close for the grid.
    """
    lower, upper = fraction(column.lower), fraction(column.upper)
    values = [fraction(edge) for edge in edges]
    inside = all(lower < value <= upper for value in values)
    if not values or not inside or any(later <= former for former, later in pairwise(values)):
        raise InvalidTaskError(
            f"edges of {column.name!r} must ascend and lie above {column.lower}, up to {column.upper}"
        )
    half = Fraction(1, 2) if column.kind == "integer" else Fraction(0)
    if half and any(value.denominator > 1 for value in values):
        raise InvalidTaskError(f"edges of {column.name!r} must be whole numbers, as its values are")
    steps = [round((2 * (value - half - lower) / (upper - lower) - 1) * _ONE) for value in values]
    if steps[0] <= -_ONE or any(later <= former for former, later in pairwise(steps)):
        raise InvalidTaskError(f"edges of {column.name!r} lie closer than its values are told apart")
    return steps


def log_edges(column: Column, cells: int) -> list[int]:
    """Return edges of at most so many cells that widen geometrically from the lower bound on.

    Of an integer column cell k begins at ceil((1 + w)^(k/B)) - 1 above the lower bound, w its width, so that 0, 1, 2
    have cells of their own; of a real one at w 1024^-((B - k)/(B - 1)).
    """
    lower, upper = fraction(column.lower), fraction(column.upper)
    width = upper - lower
    if column.kind == "integer":
        found = {-int(-((1 + float(width)) ** (k / cells)) // 1) - 1 for k in range(1, cells)}
        offsets = [Fraction(offset) for offset in sorted(found) if 0 < offset <= width]
    else:
        powers = (float(SMALLEST) ** ((cells - k) / (cells - 1)) for k in range(1, cells))
        offsets = [Fraction(power) * width for power in powers]
    half = Fraction(1, 2) if column.kind == "integer" else Fraction(0)
    steps = {round((2 * (offset - half) / width - 1) * _ONE) for offset in offsets}
    return sorted(step for step in steps if step > -_ONE)
