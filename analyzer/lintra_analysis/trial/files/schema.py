"""The columns of a file as a specification writes them; bounds that would disclose a row are null."""

from collections.abc import Iterator, Sequence
from typing import Literal

from lintra_analysis.trial.files.table import FileTable
from lintra_protocol.encoding.csv_values import DAYS, days_in, number_in
from lintra_protocol.encoding.documents import real
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import Column

End = Literal["lower", "upper"]
ENDS: tuple[End, End] = ("lower", "upper")


def column_documents(table: FileTable, bounded: Sequence[Column] = ()) -> list[dict[str, object]]:
    """Return one document for each column, as `columns` of a specification holds it.

    `table` gives names, kinds and levels. `bounded` is the same columns with bounds, if those may be taken over;
    without them bounds are None.
    """
    known = {column.name: column for column in bounded}
    return [_document(table, name, known.get(name)) for name in (column.name for column in table.columns)]


def questions(documents: Sequence[dict[str, object]]) -> Iterator[tuple[str, End]]:
    """Yield the names of columns and the ends of their bounds that are still open."""
    for document in documents:
        for end in ENDS:
            if end in document and document[end] is None:
                yield str(document["name"]), end


def complete_with(documents: Sequence[dict[str, object]], name: str, end: End, answer: str) -> None:
    """Fill in one bound; an empty answer leaves it open. A bound of dates may be given as a date.

    Raises InvalidTaskError if the answer is no number.
    """
    if not answer.strip():
        return
    document = next(document for document in documents if document["name"] == name)
    days = days_in(answer) if document.get("unit") == DAYS and number_in(answer) is None else None
    try:
        document[end] = real(answer.strip() if days is None else days)
    except (ValueError, ArithmeticError):
        what = "a date such as 2020-12-31, or a number of days," if document.get("unit") == DAYS else "a number,"
        raise InvalidTaskError(f"column {name!r}: {end} is {what} got {answer.strip()!r}") from None


def _document(table: FileTable, name: str, bounded: Column | None) -> dict[str, object]:
    """Return one column; a number that is missing in some row of the file may be missing in the task, too.

    A category needs no such word: its reserved level takes what is missing.
    """
    column = table.column(name)
    if column.kind == "category":
        return {"name": name, "kind": "category", "levels": list(column.levels)}
    missing: dict[str, object] = {"missing": True} if column.missing else {}
    if column.kind == "boolean":
        boolean: dict[str, object] = {"name": name, "kind": "boolean"} | missing
        return boolean if bounded is None else boolean | {"center": bounded.center, "scale": bounded.scale}
    document: dict[str, object] = {"name": name} | missing
    if column.kind == "integer":
        document["kind"] = "integer"
    if column.unit:
        document["unit"] = column.unit
    if bounded is None:
        return document | {"lower": None, "upper": None}
    return document | {end: getattr(bounded, end) for end in (*ENDS, "center", "scale")}
