"""A sample of a table that somebody uploads: its columns as the form of a new task writes them. Rows are forgotten."""

from collections.abc import Iterator
from dataclasses import dataclass

from lintra_analysis.trial.files.bounds import bounds_of
from lintra_analysis.trial.files.schema import column_documents
from lintra_analysis.trial.files.table import FileCells, Readings, table_of
from lintra_protocol.errors import InvalidTaskError

OPEN = "?"
"""Stands where a bound is that only the author can know."""

_MARKS = frozenset(":|=,?\n\r")


@dataclass(frozen=True)
class SampleColumns:
    """What a sample says of its columns."""

    text: str  #: one line for each, as the form takes them
    remarks: tuple[str, ...]  #: what was guessed, lost or left out


def columns_of_sample(content: bytes, *, is_public: bool) -> SampleColumns:
    """Read a sample; ranges of numbers are taken from it if it is public, and are open otherwise.

    Raises InvalidTableError if it cannot be read, or holds nothing that can be collected.
    """
    cells, readings = FileCells.of_text(content, "sample"), Readings(guess=True)
    reports, values = cells.read(readings)
    table = table_of(reports, values, len(cells.columns[0]), readings, cells.note)
    bounded = bounds_of(table).columns if is_public else ()
    remarks = [*table.remarks(), *(f"{name}: left out, since {why}" for name, why in table.left_out.items())]
    lines = []
    for document in column_documents(table, bounded):
        if _MARKS & set(f"{document['name']}{''.join(_levels(document))}{document.get('unit', '')}"):
            remarks.append(
                f"{document['name']}: has signs in its texts that this form cannot write; use a specification"
            )
        else:
            lines.append(_line(document))
    return SampleColumns("\n".join(lines), tuple(remarks))


def require_closed(text: str) -> None:
    """Check that no range is open any more; raise InvalidTaskError if one is; the detail has its line."""
    for place, line in enumerate(text.splitlines(), 1):
        if OPEN in line.partition(":")[2].partition("|")[0].split():
            raise InvalidTaskError(
                f"columns, line {place}: write a lower and an upper end that are public in place of the question marks"
            )


def _levels(document: dict[str, object]) -> list[str]:
    levels = document.get("levels")
    return [str(level) for level in levels] if isinstance(levels, list) else []


def _line(document: dict[str, object]) -> str:
    return f"{document['name']}: " + "".join(_words(document))


def _words(document: dict[str, object]) -> Iterator[str]:
    if document.get("kind") == "category":
        yield " | ".join(_levels(document))
        return
    if document.get("kind") == "boolean":
        yield "yes/no"
    else:
        ends = [OPEN if document[end] is None else str(document[end]) for end in ("lower", "upper")]
        yield " to ".join(ends) + (f" {document['unit']}" if document.get("unit") else "")
        yield ", whole" if document.get("kind") == "integer" else ""
    yield ", may be missing" if document.get("missing") else ""
