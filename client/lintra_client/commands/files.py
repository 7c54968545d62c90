"""A CSV file as rows: by the names in its first line, and a column that says whose facts a row states."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from lintra_client.organisations.dataframes import require_names
from lintra_protocol.encoding.csv_values import sent_level, sent_number
from lintra_protocol.errors import InvalidRowError
from lintra_protocol.fields.schema import Column
from lintra_protocol.tables.text_file import format_of, lines_of


def read_sources(file: Path, column: str) -> list[str]:
    """Return whose facts each row of a CSV file states, as it is spelled there.

    Raises:
        InvalidRowError: the first line does not name the column once, a row has no usable name in it, or it is no CSV
            file.
    """
    lines, _ = _lines_of(file)
    header = next(lines, [])
    if header.count(column) != 1:
        raise InvalidRowError(f"the file has columns {', '.join(header)}; sources stand in {column!r}, once")
    place = header.index(column)
    sources = [cells[place] if place < len(cells) else "" for cells in lines]
    require_names(sources, column)
    return sources


def read_rows(
    file: Path, columns: Sequence[Column], without: str | None = None
) -> Iterator[dict[str, float | str | None]]:
    """Yield the rows of a CSV file by column name, NaN or None for what is missing.

    A boolean may be spelled true or false, and a column in days since 1970 may hold dates (`cells.sent_number`). A cell
    of numbers that holds anything else stays a text, which `Schema.row` refuses. `file` is with a line of column names.
    `columns` are those of the task; a cell of a category is the name of a level. `without` is a column that is no part
    of the rows.

    Raises:
        InvalidRowError: the first line does not name exactly the task's columns, which is raised before the first row;
            or it is no CSV file in UTF-8.
    """
    known = {column.name: column for column in columns}
    lines, note = _lines_of(file)
    if note:
        typer.echo(note, err=True)
    header = next(lines, [])
    if without is not None and without in known:
        raise InvalidRowError(f"column {without!r} belongs to the task, so that it cannot name the sources")
    if sorted(name for name in header if name != without) != sorted(known):
        raise InvalidRowError(f"the file has columns {', '.join(header)}; the task has {', '.join(known)}")
    for cells in lines:
        # Too few cells leave values missing; too many an unknown column, which names the fault.
        names = [*header, *(f"column {number}" for number in range(len(header) + 1, len(cells) + 1))]
        named = zip(names, cells, strict=False)
        yield {name: _sent(cell, known.get(name)) for name, cell in named if name != without}


def _sent(cell: str, column: Column | None) -> float | str | None:
    if column is None:  # a name beyond the header, which is refused
        return cell
    if column.kind == "category":
        return sent_level(cell, column.levels)
    return sent_number(cell, column.kind, column.unit)


def count_rows(file: Path) -> int:
    """Return how many rows stand under the first line of a CSV file."""
    lines, _ = _lines_of(file)
    return max(0, sum(1 for _ in lines) - 1)


def _lines_of(file: Path) -> tuple[Iterator[list[str]], str]:
    """Return the lines of a CSV file, and what its owner should check."""
    content = file.read_bytes()
    text_format = format_of(content, file.name)
    return lines_of(content, text_format, file.name), text_format.note
