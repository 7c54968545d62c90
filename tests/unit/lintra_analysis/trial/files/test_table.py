"""A file of rows: kinds follow from cells, missing cells are seen, and what cannot be collected says why."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_analysis.trial.files.table import FileTable, Readings, read_columns, read_table
from lintra_protocol.encoding.csv_values import DAYS
from lintra_protocol.errors import InvalidRowError, InvalidTableError
from lintra_protocol.fields.schema import OTHER
from lintra_protocol.tables.doubts import MAX_LEVELS

TEXT = """\
age,weight,smokes,town,joined,id,same
30,71.5,1,Bern,2020-01-01,a1,x
41,,0,Chur,1970-01-02,b2,x
NA,80,1,,2020-01-01T00:00:00,c3,x
29,65.25,0,Bern,1969-12-31,d4,x
"""


def table_of(folder: Path, text: str, name: str = "rows.csv") -> FileTable:
    file = folder / name
    file.write_text(text, "utf-8")
    return read_table(file)


def test_the_kind_of_a_column_follows_from_its_cells(tmp_path: Path) -> None:
    table = table_of(tmp_path, TEXT)
    kinds = {column.name: column.kind for column in table.columns}
    assert kinds == {
        "age": "integer", "weight": "real", "smokes": "boolean", "town": "category", "joined": "date", "id": "category",
    }  # fmt: skip
    assert table.num_rows == 4
    assert "the same in every row" in table.left_out["same"]


def test_a_text_that_is_another_in_almost_every_row_is_left_out(tmp_path: Path) -> None:
    text = "name,x\n" + "".join(f"person {row},{row % 7}\n" for row in range(60))
    assert "a text of its own" in table_of(tmp_path, text).left_out["name"]


def test_true_and_false_are_ones_and_zeros_as_pandas_writes_them(tmp_path: Path) -> None:
    column = table_of(tmp_path, "a,b\nTrue,1\nfalse,2\n,3\n").column("a")
    assert column.kind == "boolean"
    assert_array_equal(column.values, [1, 0, np.nan])


@pytest.mark.parametrize(
    ("cell", "spoiler", "complaint"),
    [
        (str, "many", "a: 1 of its cells are no number, the first is 'many' in row 61"),
        (lambda row: f"{row / 8}", "inf", "no number, the first is 'inf'"),
        (lambda row: f"2020-01-{row + 1:02}", "soon", "'soon' is no date"),
        (lambda row: f"{1 + row % 9}/{1 + row % 7}/2020", "5/6/2020", "may have the day or the month first"),
        (lambda row: str(row % 3), "n/a?", r"1 of its cells are no number, the first is 'n/a\?' in row 61"),
        (lambda row: str(row % 2), "yes", "1 of its cells are no number, the first is 'yes' in row 61"),
    ],
)
def test_numbers_and_dates_that_are_spoiled_are_asked_about_and_never_become_a_category(
    tmp_path: Path, cell: Callable[[int], str], spoiler: str, complaint: str
) -> None:
    cells = [cell(row % 25) for row in range(60)] + [spoiler]
    text = "a,b\n" + "".join(f"{each},{row % 7}\n" for row, each in enumerate(cells))
    with pytest.raises(InvalidTableError, match=complaint) as refused:
        table_of(tmp_path, text)
    assert refused.value.exit_status == 2
    guessed = read_table(tmp_path / "rows.csv", Readings(guess=True))
    assert guessed.column("a").kind != "category"
    assert guessed.num_rows == 61


def test_all_questions_are_asked_at_once_and_the_printed_options_answer_them(tmp_path: Path) -> None:
    text = "a,b,c,d\n" + "".join(
        f"0{row % 9},{row % 7},{'-99' if row < 3 else row % 5},{row % 4}\n" for row in range(60)
    )
    with pytest.raises(InvalidTableError) as refused:
        table_of(tmp_path, text)
    printed = re.findall(r"--(as|missing) '([^']+)'", refused.value.detail)
    assert {option.partition("=")[0] for _, option in printed} == {"a", "c"}
    as_ = [option for word, option in printed if word == "as" and option == "a=number"]
    missing = [option for word, option in printed if word == "missing"]
    answered = Readings.from_options(as_, missing, [], [], guess=False)
    assert read_table(tmp_path / "rows.csv", answered).column("c").missing == 3
    with pytest.raises(InvalidTableError, match="COLUMN=VALUE, got 'a'"):
        Readings.from_options(["a"], [], [], [], guess=False)
    with pytest.raises(InvalidTableError, match="no column 'e'"):
        read_table(tmp_path / "rows.csv", Readings.from_options([], [], [], ["e"], guess=False))


def test_columns_are_dropped_or_kept_by_name_and_what_is_dropped_asks_nothing(tmp_path: Path) -> None:
    text = "a,b,c\n" + "".join(f"0{row % 9},{row % 7},{row % 5}\n" for row in range(60))
    file = tmp_path / "rows.csv"
    file.write_text(text, "utf-8")
    for readings in (
        Readings.from_options([], [], ["a"], [], guess=False),
        Readings.from_options([], [], [], ["b", "c"], guess=False),
    ):
        table = read_table(file, readings)
        assert [column.name for column in table.columns] == ["b", "c"]
        assert table.left_out == {"a": "it was dropped"}


def test_a_data_frame_is_read_as_its_file_would_be(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas", reason="data frames are an extra")
    text = "when,share,n\n2020-01-01,53%,1\n2020-01-03,7%,\n2020-01-02,,4\n"
    (tmp_path / "rows.csv").write_text(text, "utf-8")
    frame = pd.read_csv(tmp_path / "rows.csv", parse_dates=["when"])
    reports = read_columns(frame)
    assert [(each.kind, each.unit) for each in reports] == [("date", DAYS), ("integer", "%"), ("integer", "")]
    assert [each.kind for each in read_columns(tmp_path / "rows.csv")] == [each.kind for each in reports]


def test_the_index_that_a_data_frame_wrote_is_left_out(tmp_path: Path) -> None:
    table = table_of(tmp_path, ",a\n0,5\n1,7\n2,5\n3,9\n")
    assert table.left_out == {"Unnamed: 0": "it numbers the rows, as identifiers do"}


def test_columns_of_one_fault_are_named_together(tmp_path: Path) -> None:
    with pytest.raises(InvalidRowError, match=r"collected: 'a', 'c': it is the same in every row; 'b': it is empty"):
        table_of(tmp_path, "a,b,c\n1,,x\n1,,x\n")


def test_dates_are_days_since_1970(tmp_path: Path) -> None:
    assert_array_equal(table_of(tmp_path, TEXT).column("joined").values, [18262, 1, 18262, -1])
    assert DAYS == "days since 1970-01-01"


def test_missing_numbers_are_not_numbers_and_missing_texts_are_the_reserved_level(tmp_path: Path) -> None:
    table = table_of(tmp_path, TEXT)
    assert table.column("age").missing == 1
    assert_array_equal(table.column("weight").values, [71.5, np.nan, 80, 65.25])
    assert table.column("town").levels == ("Bern", "Chur", OTHER)
    assert_array_equal(table.column("town").values, [0, 1, 2, 0])


def test_complete_rows_are_those_without_a_missing_number(tmp_path: Path) -> None:
    rows, missing = table_of(tmp_path, TEXT).keep(["age", "weight", "town"]).complete()
    assert_array_equal(rows, [[30, 71.5, 0], [29, 65.25, 0]])
    assert missing == 2


def test_levels_are_the_most_frequent_values_and_the_rest_shares_one(tmp_path: Path) -> None:
    cells = [f"v{value:02}" for value in range(MAX_LEVELS + 3) for _ in range(MAX_LEVELS + 4 - value)]
    column = table_of(tmp_path, "c,x\n" + "".join(f"{cell},{row}\n" for row, cell in enumerate(cells))).column("c")
    assert column.levels == (*(f"v{value:02}" for value in range(MAX_LEVELS)), OTHER)
    assert (column.values == MAX_LEVELS).sum() == sum(MAX_LEVELS + 4 - value for value in range(12, 15))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no rows|printable name"),
        ("a,b\n", "no rows"),
        ("a,a\n1,2\n", "two columns are called 'a'"),
        ("a,\n1,2\n", "column 2 of 2 has no name"),
        ("a\x07,b\n1,2\n", "printable name"),
        ("a,b\n1,2\n1,2,3\n", "row 2 has 3 cells, the first line has 2"),
        ("a,b\n1,\n1,\n", "no column of the file can be collected"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(InvalidRowError, match=complaint):
        table_of(tmp_path, text)


@pytest.mark.parametrize(
    ("encoding", "note"),
    [
        ("utf-8-sig", ""),
        ("utf-16", ""),
        ("utf-16-le", "UTF-16"),
        ("cp1252", "Windows-1252, with words such as 'größe'"),
    ],
)
def test_a_file_of_any_usual_encoding_is_read_and_what_was_inferred_is_said(
    tmp_path: Path, encoding: str, note: str
) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes("größe,x\n1,2\n3,4\n1,5\n".encode(encoding))
    table = read_table(file)
    assert [column.name for column in table.columns] == ["größe", "x"]
    assert note in table.note
    assert bool(note) == bool(table.note)


def test_bytes_that_are_no_text_are_refused_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes(b"a,b\n\x81\x8d,2\n")
    with pytest.raises(InvalidTableError, match="save it as CSV with the encoding UTF-8"):
        read_table(file)


def test_an_unknown_column_is_named_beside_the_known_ones(tmp_path: Path) -> None:
    table = table_of(tmp_path, TEXT)
    with pytest.raises(InvalidRowError, match="no column 'wieght'; it has age, weight"):
        table.column("wieght")
    with pytest.raises(InvalidRowError, match="'same' cannot be used: it is the same"):
        table.column("same")


def test_a_table_shows_no_cell(tmp_path: Path) -> None:
    table = table_of(tmp_path, TEXT)
    assert "71.5" not in repr(table) + repr(table.columns)
    assert "Bern" not in repr(table) + repr(table.columns)


def test_numbers_that_no_document_holds_are_left_out(tmp_path: Path) -> None:
    table = table_of(tmp_path, "a,b\n1e16,1\n2,3\n")
    assert table.left_out == {"a": "its numbers are beyond 1e+15; choose a larger unit"}


@pytest.mark.parametrize("cell", ["1_000", "0x10", "inf"])
def test_what_only_looks_like_a_number_is_a_text(tmp_path: Path, cell: str) -> None:
    text = f'a,b\n"{cell}",1\n"{cell}",2\nother,2\nother,4\n'
    assert table_of(tmp_path, text).column("a").kind == "category"


def test_parquet_gives_what_csv_gives(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas", reason="data frames are an extra")
    table_of(tmp_path, TEXT)
    pd.read_csv(tmp_path / "rows.csv").to_parquet(tmp_path / "rows.parquet")
    ours, theirs = read_table(tmp_path / "rows.csv"), read_table(tmp_path / "rows.parquet")
    for one, other in zip(ours.columns, theirs.columns, strict=True):
        assert (one.name, one.kind, one.levels) == (other.name, other.kind, other.levels)
        assert_array_equal(one.values, other.values)


@pytest.mark.parametrize(("separator", "decimal"), [(",", "."), (";", "."), (";", ","), ("\t", ".")])
def test_semicolons_tabs_and_decimal_commas_are_read_alike(tmp_path: Path, separator: str, decimal: str) -> None:
    lines = [["a", "b", "when"], ["1.5", "-2", "2024-01-02"], ["-.25", "3e+2", "2024-02-03"], ["", "7", "2024-03-04"]]
    text = "\n".join(separator.join(cell.replace(".", decimal) for cell in line) for line in lines)
    file = tmp_path / "rows.csv"
    file.write_text(text, "utf-8")
    table = read_table(file)
    assert [column.kind for column in table.columns] == ["real", "integer", "date"]
    np.testing.assert_array_equal(table.columns[0].values, [1.5, -0.25, np.nan])
    assert table.columns[1].values.tolist() == [-2, 300, 7]


def test_a_column_that_numbers_the_rows_is_left_out_and_one_that_measures_is_not(tmp_path: Path) -> None:
    generator = np.random.default_rng(2)
    numbers = 70_000 + np.arange(120) + (np.arange(120) > 60)
    incomes = generator.choice(90_000, 120, replace=False)
    few = generator.integers(0, 5, 120)
    file = tmp_path / "rows.csv"
    lines = [f"{number},{income},{size}" for number, income, size in zip(numbers, incomes, few, strict=True)]
    file.write_text("\n".join(["id,income,size", *lines]), "utf-8")
    table = read_table(file)
    assert [column.name for column in table.columns] == ["income", "size"]
    assert "identifiers" in table.left_out["id"]
    file.write_text("\n".join(["id,income,size", *lines[60:], *lines[:60]]), "utf-8")
    with pytest.raises(InvalidTableError, match=r"id: .*every row has another whole number"):  # in no order
        read_table(file)


@pytest.mark.parametrize("kept", [0, 50, -8, -200])
def test_a_damaged_parquet_file_is_refused_in_words(tmp_path: Path, kept: int) -> None:
    pd = pytest.importorskip("pandas")
    file = tmp_path / "rows.parquet"
    pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}).to_parquet(file)
    data = file.read_bytes()
    file.write_bytes(data[:kept] if kept >= 0 else data[:kept] + bytes(-kept))
    with pytest.raises(InvalidRowError, match=r"rows\.parquet is no Parquet file that can be read: .+"):
        read_table(file)
