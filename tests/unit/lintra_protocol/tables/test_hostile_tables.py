"""No ordinary column or file is misread in silence, by `trial`, `columns`, `schema infer`, forms or senders.

What is plain in the list is read without a question; what nobody can know never becomes a number.
"""

import csv
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from lintra_analysis.trial.files.table import FileCells, FileTable, Readings, table_of
from lintra_client.organisations.sent_table import TableFile, read_sent
from lintra_client.organisations.sent_table import read_table as read_sent_file
from lintra_protocol.encoding.csv_values import DAYS
from lintra_protocol.errors import InvalidRowError, InvalidTableError
from lintra_protocol.fields.schema import OTHER, Column
from support.hostile_columns import COLUMNS, SECTIONS, HostileColumn
from support.hostile_files import FILES, HostileFile

BESIDE = (("Bern", "1.25"), ("Basel", "2.5"), ("Genf", "0.75"), ("Bern", "3.5"))
MOST_ASKED = {"number": 15, "date": 0, "answer": 0, "missing": 0, "level": 1}
"""How many columns whose meaning a person sees are asked about all the same: thousands, units of two spellings."""

Meaning = tuple[float, ...] | tuple[str, ...] | None


def of_section(section: str) -> list[HostileColumn]:
    return [column for column in COLUMNS if column.name.startswith(f"{section}: ")]


def file_of(column: HostileColumn) -> bytes:
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow(["town", "size", "x"])
    writer.writerows((*BESIDE[row % len(BESIDE)], cell) for row, cell in enumerate(column.cells))
    return text.getvalue().encode()


def read(content: bytes) -> FileTable:
    cells = FileCells.of_text(content, "rows.csv")
    reports, values = cells.read(Readings())
    return table_of(reports, values, len(cells.columns[0]), Readings(), cells.note)


def misread(meaning: Meaning, table: FileTable) -> str:
    """Return how the column x is misread in silence; empty if it is not."""
    if "x" not in {report.name for report in table.reports}:
        return "the column is not there"
    if "x" in table.left_out:
        return ""
    column = table.column("x")
    if meaning is None:
        return "" if column.kind == "category" or table.note else f"it became {column.kind}"
    if isinstance(meaning[0], str):
        if column.kind != "category":
            return f"texts became {column.kind}"
        levels = [column.levels[int(number)] for number in column.values]
        wrong = [level for level, meant in zip(levels, meaning, strict=True) if level not in (meant, OTHER)]
        return f"levels became {wrong[0]!r}" if wrong else ""
    if column.kind == "category":
        return "" if len(set(meaning)) <= 2 else "numbers became a category"
    if len(column.values) != len(meaning):
        return f"{len(column.values)} rows in place of {len(meaning)}"
    same = np.isclose(column.values, meaning, rtol=1e-12, atol=0, equal_nan=True)
    return "" if same.all() else f"{column.values[~same][0]!r} in place of {np.array(meaning)[~same][0]!r}"


def outcome(content: bytes, meaning: Meaning) -> str:
    try:
        table = read(content)
    except InvalidTableError as refused:
        return "asked" if refused.exit_status == 2 else "refused"
    return misread(meaning, table) or "read"


@pytest.mark.parametrize("section", SECTIONS)
def test_no_column_is_misread_in_silence_and_few_plain_ones_are_asked_about(section: str) -> None:
    found = {column.name: outcome(file_of(column), column.meaning) for column in of_section(section)}
    assert {name: said for name, said in found.items() if said not in ("read", "asked", "refused")} == {}
    plain = {column.name for column in of_section(section) if column.meaning is not None}
    asked = [name for name in plain if found[name] != "read"]
    assert len(asked) <= MOST_ASKED[section], asked


def test_no_file_is_misread_in_silence_and_what_programs_write_is_read() -> None:
    found = {file.name: outcome(file.content, file.meaning) for file in FILES}
    assert {name: said for name, said in found.items() if said not in ("read", "asked", "refused")} == {}
    assert [file.name for file in FILES if file.plain and found[file.name] != "read"] == []


def column_of(meaning: Meaning, section: str) -> Column:
    """Return the column of a task whose author meant the same."""
    if meaning is not None and isinstance(meaning[0], str):
        levels = tuple(dict.fromkeys(level for level in meaning if str(level).isprintable() and level != OTHER))
        return Column(name="x", lower="0", upper=str(len(levels)), kind="category", levels=(*map(str, levels), OTHER))
    if section == "date":
        return Column(name="x", lower="0", upper="30000", unit=DAYS)
    if section == "answer":
        return Column(name="x", lower="0", upper="1", kind="boolean")
    known = [float(number) for number in meaning or () if number == number] or [0.0, 100.0]
    return Column(name="x", lower=str(int(min(known)) - 1), upper=str(int(max(known)) + 1))


def sent(file: Path, content: bytes, column: Column) -> np.ndarray | None:
    """Return the values that an organisation would contribute; None if it is asked or refused."""
    file.write_bytes(content)
    try:
        table = TableFile(x=read_sent_file(file)["x"])
        return read_sent([column], table)[0].values
    except (InvalidRowError, KeyError):
        return None


def same(column: Column, values: np.ndarray, meaning: tuple[float, ...] | tuple[str, ...]) -> bool:
    if isinstance(meaning[0], str):
        return [column.levels[int(value)] for value in values] == list(meaning)
    return np.array_equal(values, meaning) or bool(
        np.isclose(values, meaning, rtol=1e-12, atol=0, equal_nan=True).all()
    )


@pytest.mark.parametrize("section", [*SECTIONS, "file"])
def test_no_sender_contributes_what_the_file_does_not_say(section: str, tmp_path: Path) -> None:
    tries: list[HostileColumn | HostileFile] = list(FILES) if section == "file" else list(of_section(section))
    wrong, read_ = [], 0
    for each in tries:
        column = column_of(each.meaning, section)
        content = each.content if isinstance(each, HostileFile) else file_of(each)
        values = sent(tmp_path / "rows.csv", content, column)
        if values is not None and each.meaning is not None:
            read_ += 1
            if len(values) != len(each.meaning) or not same(column, values, each.meaning):
                wrong.append(each.name)
    assert wrong == []
    assert 2 * read_ > sum(each.meaning is not None for each in tries)
