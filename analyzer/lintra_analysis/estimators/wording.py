"""Findings in a sentence or two: what a picture shows, for whoever cannot see it.

A number whose interval holds 0 is never said to be anything: it is named among those that are not told apart from 0.
"""

from collections.abc import Sequence

from lintra_analysis.estimators.estimates import Interval
from lintra_analysis.estimators.tabular import number

MOST_NAMED = 6
"""So many things are named one by one; the others are counted."""

Found = tuple[str, float | None, Interval | None]
"""A name with its number and interval, each None where nothing can be told."""


def listed(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """Return names with commas and an `and`, the first `most` of them, and how many others there are.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], most=1)
    ('a, b and c', 'a and 2 more')
    """
    if not names:
        return "nothing"
    shown = list(names[:most])
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def with_interval(value: float | None, interval: Interval | None) -> str:
    """Return a number with its interval in words.

    >>> with_interval(0.5, (0.4, 0.6)), with_interval(0.5, None)
    ('0.5 (between 0.4 and 0.6)', '0.5 (no interval)')
    """
    if value is None:
        return "not told"
    ends = "no interval" if interval is None else f"between {number(interval[0])} and {number(interval[1])}"
    return f"{number(value)} ({ends})"


def apart_from_zero(found: Sequence[Found]) -> str:
    """Return which numbers are told apart from 0, the surest first, which are not, and which cannot be told."""
    told = [one for one in found if one[2] is not None and not one[2][0] <= 0 <= one[2][1]]
    open_ones = [name for name, _, interval in found if interval is not None and interval[0] <= 0 <= interval[1]]
    untold = [name for name, _, interval in found if interval is None]
    sentences = []
    if told:
        told.sort(key=_sureness, reverse=True)
        said = [f"{name}: {with_interval(value, interval)}" for name, value, interval in told]
        sentences.append(f"Told apart from 0: {listed(said)}.")
    if open_ones:
        sentences.append(f"Not told apart from 0: {listed(open_ones)}.")
    if untold:
        sentences.append(f"Without an interval: {listed(untold)}.")
    return " ".join(sentences)


def _sureness(one: Found) -> float:
    """Return the distance of an interval's middle from 0 in half-widths."""
    low, high = one[2] or (0.0, 0.0)
    return abs(low + high) / ((high - low) or 1e-300)


def clients(count: int, of: str | None = None, confidence: float | None = None) -> str:
    """Return from how many rows a finding is, and whom its intervals are about."""
    rows = f"from {count:,} rows"
    return rows if of is None or confidence is None else f"{rows}, {100 * confidence:g} % intervals for the {of}"
