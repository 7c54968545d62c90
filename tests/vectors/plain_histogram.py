"""`histogram` a second time, in plain Python; it shares no code with the package.

Written from docs/reference/mechanisms/histogram.md, to be read beside it. A mechanism is the dictionary that stands in
a task, a row a list of values in their own units, a category the number of its level.
"""

import math
from fractions import Fraction

from plain import lift

Mechanism = dict[str, object]


def cells(mechanism: Mechanism) -> list[int]:
    """Return how many cells each column has."""
    pairs = zip(_lists(mechanism, "edges"), _lists(mechanism, "levels"), strict=True)
    return [len(edges) - 1 if edges else int(levels) for edges, levels in pairs]  # type: ignore[arg-type, call-overload]


def vector(mechanism: Mechanism, row: list[float]) -> list[int]:
    """Return the noiseless report of a row: the indicator in one cell of each column, the last for what is missing."""
    unit, words = int(str(mechanism["indicator"])), []
    for value, edges, count in zip(row, _lists(mechanism, "edges"), cells(mechanism), strict=True):
        if math.isnan(value):
            own = count
        elif edges:
            # An edge is the double next to its decimal; only the inner ones part cells.
            own = sum(Fraction(value) >= Fraction(float(edge)) for edge in edges[1:-1])  # type: ignore[index]
        else:
            own = max(0, min(count - 1, round(Fraction(value))))
        words += [unit * (place == own) for place in range(count + 1)]
    return words


def decode(mechanism: Mechanism, words: list[int]) -> list[float]:
    return [lift(word) / int(str(mechanism["indicator"])) for word in words]


def _lists(mechanism: Mechanism, name: str) -> list[object]:
    found = mechanism[name]
    assert isinstance(found, list)
    return found
