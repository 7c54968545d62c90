"""Estimates as text for people and as CSV for spreadsheets."""

import csv
import io
import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from lintra_protocol.errors import InvalidAnalysisError

Cell = str | float | int | bool | None
WIDTH = 100


class Named(Protocol):
    """A part of an answer that is about one column."""

    @property
    def name(self) -> str:
        """Return the column's name."""


N = TypeVar("N", bound=Named)


def by_name(parts: Sequence[N], name: str) -> N:
    """Return the part of an answer that is about a column.

    Raises InvalidAnalysisError if there is none; the detail names those that there are.
    """
    for part in parts:
        if part.name == name:
            return part
    raise InvalidAnalysisError(f"there is no column {name!r}; columns are: {', '.join(part.name for part in parts)}")


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Return CSV in which every number reads back as the same number."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([csv_cell(cell) for cell in row] for row in rows)
    return text.getvalue()


def csv_cell(cell: Cell) -> str:
    """Return a cell as CSV spells it: a number reads back as the same, and one that is not available is empty."""
    if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
        return ""
    return repr(cell) if isinstance(cell, float) else str(cell)


def number(value: float | None, digits: int = 4) -> str:
    """Return a number for people, or a hyphen for none."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{value:.{digits}g}"


def digits_beside(value: float, error: float | None, least: int = 4) -> int:
    """Return how many digits of a number its standard error leaves meaningful, two of the error's among them."""
    if not error or not value or not math.isfinite(error) or not math.isfinite(value):
        return least
    needed = math.floor(math.log10(abs(value))) - math.floor(math.log10(error)) + 2
    return min(max(least, needed), 15)


def title(text: str) -> list[str]:
    """Return a heading and the rule below it."""
    return [text.center(WIDTH).rstrip(), "=" * WIDTH]


def facts(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return names and values, two pairs to a line."""
    half = WIDTH // 2 - 1
    cells = [f"{name}:".ljust(20) + value.rjust(max(half - 20, len(value) + 1)) for name, value in pairs]
    lines = [("  ".join(cells[i : i + 2])).rstrip() for i in range(0, len(cells), 2)]
    return [*lines, "=" * WIDTH]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table whose first column is on the left and the others on the right."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]

    def joined(line: Sequence[str]) -> str:
        first, *others = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        return "  ".join([first, *others]).rstrip()

    return [joined(lines[0]), "-" * WIDTH, *map(joined, lines[1:]), "=" * WIDTH]


def closing(privacy: str | None, warnings: Sequence[str], notes: Sequence[str] = ()) -> list[str]:
    """Return what stands below the tables: the promise of the release, notes, warnings."""
    promise = [] if privacy is None else [f"Privacy: {privacy}"]
    sentences = [*promise, *(f"Note: {note}." for note in notes), *(f"Warning: {warning}." for warning in warnings)]
    return [textwrap.fill(sentence, WIDTH, subsequent_indent="  ") for sentence in sentences]


def levels(confidence: float) -> tuple[str, str]:
    """Return the headings of the two ends of an interval, such as "[0.025" and "0.975]"."""
    return f"[{(1 - confidence) / 2:.4g}", f"{(1 + confidence) / 2:.4g}]"
