"""One row of the table of scale: a measured number, the floor beside it from the same run, and what was aimed at.

To add a row write a function that returns `Measured` and put `@row(..)` above it; nothing else.
"""

import gc
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

QUICK_PART = 50
"""A quick run has one of so many, and its figures say nothing about the aims."""

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Measured:
    """What a row's function found.

    Attributes:
        today: the figure of this software, in the row's unit.
        floor: of the least that any software must do for it, measured in the same run; None where there is none.
        floor_is: what that least is, in words.
        remark: what has to be said beside it, in words.
    """

    today: float
    floor: float | None = None
    floor_is: str = ""
    remark: str = ""


@dataclass(frozen=True)
class Row:
    """One row: its key in the JSON, what it is, its unit, and what was aimed at (at most, unless `at_least`)."""

    key: str
    what: str
    unit: str
    target: float | None
    measure: Callable[["Asked"], Measured]
    large: bool
    at_least: bool


@dataclass(frozen=True)
class Asked:
    """What the caller wants: the folder to work in, the largest release, and other numbers of servers and reports.

    Attributes:
        quick: whether everything is measured at a small part of its size, to see that it works.
    """

    folder: Path
    largest: int
    sizes: tuple[int, ...]
    servers: tuple[int, ...]
    quick: bool = False

    def of(self, count: int, least: int = 1) -> int:
        """Return how many there are of what a row has `count`: fewer in a quick run, but `least`."""
        return max(count // QUICK_PART, least) if self.quick else count


ROWS: dict[str, Row] = {}


def row(
    key: str, what: str, unit: str, target: float | None, *, large: bool = False, at_least: bool = False
) -> Callable[[Callable[[Asked], Measured]], Callable[[Asked], Measured]]:
    """Put a function into the table of rows.

    Args:
        key: its name in the JSON; short, of words joined by underlines.
        what: it measures, as the table says it.
        unit: of the figure, the floor and the target.
        target: what was aimed at.
        large: whether it is measured only if it is named, or with `--largest` of ten million.
        at_least: whether the target is a lower bound.
    """

    def enter(measure: Callable[[Asked], Measured]) -> Callable[[Asked], Measured]:
        if key in ROWS:
            raise ValueError(f"two rows are called {key}")
        ROWS[key] = Row(key, what, unit, target, measure, large, at_least)
        return measure

    return enter


def as_json(row: Row, found: Measured, quick: bool, when: str) -> dict[str, object]:
    """Return what stands in the JSON for a row.

    Args:
        row: what was measured.
        found: the figures.
        quick: whether it was measured at a small part of the size it names.
        when: it was measured, and beside what load.
    """
    said = {"what": row.what, "unit": row.unit, "target": row.target, "at_least": row.at_least, "quick": quick}
    return said | asdict(found) | {"measured": when}


def cpu(call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> float:
    """Return the CPU seconds of one call."""
    started = time.process_time()
    call(*args, **kwargs)
    return time.process_time() - started


def best(times: int, call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> float:
    """Return the fewest CPU seconds of several calls."""
    gc.collect()
    return min(cpu(call, *args, **kwargs) for _ in range(times))


@contextmanager
def stopwatch() -> Iterator[list[float]]:
    """Give a list to which the CPU seconds of the block are added at its end."""
    found: list[float] = []
    started = time.process_time()
    yield found
    found.append(time.process_time() - started)


def peak_mebibytes() -> float:
    """Return the most memory that this process has had resident."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
