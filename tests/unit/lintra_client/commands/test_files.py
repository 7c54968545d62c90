"""A client's CSV file: any usual separator and encoding, and units of the task's columns."""

from pathlib import Path

import pytest

from lintra_client.commands.files import count_rows, read_rows, read_sources
from lintra_client.organisations.table import read_table
from lintra_protocol.fields.schema import Column

COLUMNS = (
    Column(name="größe", lower="0", upper="250", unit="cm"),
    Column(name="share", lower="0", upper="100", unit="%"),
)


@pytest.mark.parametrize(("encoding", "separator"), [("utf-8-sig", ","), ("utf-16", ";"), ("cp1252", "\t")])
def test_rows_are_the_same_in_every_usual_spelling(
    tmp_path: Path, encoding: str, separator: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.csv"
    lines = [["größe", "share", "who"], ["170 cm", "53%", "Ann"], ["181.5", "", "Bob"]]
    file.write_bytes("\n".join(separator.join(line) for line in lines).encode(encoding))
    rows = list(read_rows(file, COLUMNS, without="who"))
    assert rows[0] == {"größe": 170.0, "share": 53.0}
    assert (rows[1]["größe"], rows[1]["share"] != rows[1]["share"]) == (181.5, True)
    assert read_sources(file, "who") == ["Ann", "Bob"]
    assert count_rows(file) == 2
    assert list(read_table(file)["who"]) == ["Ann", "Bob"]
    assert ("Windows-1252" in capsys.readouterr().err) == (encoding == "cp1252")


def test_a_number_in_another_unit_stays_a_text_which_is_refused_when_it_is_sent(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("größe,share\n70 in,5\n", "utf-8")
    assert next(read_rows(file, COLUMNS))["größe"] == "70 in"
