"""A sender's table: any usual separator and encoding, units of the task's columns, and what is asked or refused."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_client.organisations.mapping import FileMapping
from lintra_client.organisations.sent_table import read_sent, read_table
from lintra_protocol.errors import InvalidRowError, InvalidTableError
from lintra_protocol.fields.schema import Column
from lintra_protocol.tables.readings import Reading

COLUMNS = (
    Column(name="größe", lower="0", upper="250", unit="cm"),
    Column(name="share", lower="0", upper="100", unit="%"),
)


@pytest.mark.parametrize(("encoding", "separator"), [("utf-8-sig", ","), ("utf-16", ";"), ("cp1252", "\t")])
def test_rows_are_the_same_in_every_usual_spelling(tmp_path: Path, encoding: str, separator: str) -> None:
    file = tmp_path / "rows.csv"
    lines = [["größe", "share", "who"], ["170 cm", "53%", "Ann"], ["181.5 cm", "", "Bob"]]
    file.write_bytes("\n".join(separator.join(line) for line in lines).encode(encoding))
    table = read_table(file)
    height, share = read_sent(COLUMNS, table, person="who")
    assert_array_equal(height.values, [170, 181.5])
    assert_array_equal(share.values, [53, np.nan])
    assert list(table["who"]) == ["Ann", "Bob"]
    assert table.num_rows == 2
    assert ("Windows-1252" in table.note) == (encoding == "cp1252")


def test_a_mark_that_may_stand_between_thousands_is_asked_about_where_the_bounds_do_not_decide(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("größe;share\n1,234;5,5\n", "utf-8")
    assert_array_equal(read_sent(COLUMNS, read_table(file))[0].values, [1.234])  # nobody is 1234 cm tall
    file.write_text("größe;share\n1,234;5,5\n0;5,5\n", "utf-8")
    with pytest.raises(InvalidTableError, match="größe: '1,234' may have a decimal mark") as refused:
        read_sent(COLUMNS, read_table(file))
    assert refused.value.exit_status == 2
    told = FileMapping(readings={"größe": Reading("number-comma")})
    assert_array_equal(read_sent(COLUMNS, read_table(file), told)[0].values, [1.234, 0])


def test_a_number_in_another_unit_is_refused_by_row_column_and_type_and_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("größe,share\n170,5\n70 in,5\n", "utf-8")
    with pytest.raises(InvalidRowError, match="row 2, column 'größe': expected a number, got str") as refused:
        read_sent(COLUMNS, read_table(file))
    assert (refused.value.row, refused.value.column) == (1, "größe")
    assert "70 in" not in str(refused.value)


def test_parquet_gives_what_csv_gives(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="data frames are an extra")
    frame = pandas.DataFrame({"größe": [170.0, None], "share": ["53 %", None]})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    for name in ("rows.csv", "rows.parquet"):
        height, share = read_sent(COLUMNS, read_table(tmp_path / name))
        assert_array_equal(height.values, [170, np.nan])
        assert_array_equal(share.values, [53, np.nan])


def test_columns_of_different_lengths_and_a_name_that_stands_twice_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRowError, match="different numbers of rows"):
        read_sent(COLUMNS, {"größe": [1], "share": [1, 2]})
    (tmp_path / "rows.csv").write_text("a,a\n1,2\n", "utf-8")
    with pytest.raises(InvalidRowError, match="two columns of the same name"):
        read_table(tmp_path / "rows.csv")
