"""Data frames: by column name, with what pandas calls missing, and whose facts a row states."""

from pathlib import Path

import numpy as np
import pandas
import pytest

from lintra_client import Ledger
from lintra_client.organisations.dataframes import rows_of_frame, sources_of_frame
from lintra_client.organisations.mapping import FileMapping
from lintra_client.organisations.sent_table import read_sent, read_table
from lintra_protocol.encoding.csv_values import DAYS
from lintra_protocol.errors import InvalidRowError, InvalidTableError
from lintra_protocol.fields.schema import OTHER, Column
from lintra_protocol.tables.readings import Reading
from support import make_task
from support.fake_servers import Network

COLUMNS = [
    Column(name="age", lower="0", upper="100", kind="integer"),
    Column(name="smokes", lower="0", upper="1", kind="boolean"),
    Column(name="town", lower="0", upper="2", kind="category", levels=("Bern", "Chur", OTHER)),
    Column(name="weight", lower="0", upper="200"),
]
FRAME = pandas.DataFrame(
    {
        "weight": [71.5, None, 80.0],
        "town": pandas.Categorical(["Bern", None, OTHER]),
        "age": pandas.array([30, 41, None], dtype="Int64"),
        "smokes": pandas.array([True, None, False], dtype="boolean"),
        "who": ["ann", "bob", "cem"],
    }
)


def test_a_frame_gives_rows_by_name_and_what_is_missing_in_it_is_missing() -> None:
    rows = np.array(list(rows_of_frame(FRAME, COLUMNS, "who")))
    np.testing.assert_array_equal(rows, [[30, 1, 0, 71.5], [41, np.nan, 2, np.nan], [np.nan, 0, 2, 80]])
    assert [sources_of_frame(FRAME, "who")(index) for index in range(3)] == ["ann", "bob", "cem"]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"height": 1.0}, "the file has columns"),
        ({"weight": pandas.Timestamp("2020-01-01")}, "'weight': a column of datetime64"),
        ({"age": True}, "'age': a column of bool"),
        ({"town": 1}, "'town': a column of int64"),
    ],
)
def test_a_frame_with_other_columns_or_types_is_refused_before_a_row_is_read(
    changes: dict[str, object], complaint: str
) -> None:
    with pytest.raises(InvalidRowError, match=complaint):
        rows_of_frame(FRAME.assign(**changes), COLUMNS, "who")


def test_sources_stand_in_one_column_that_is_no_column_of_the_task_and_names_everybody() -> None:
    with pytest.raises(InvalidRowError, match="belongs to the task"):
        rows_of_frame(FRAME, COLUMNS, "age")
    with pytest.raises(InvalidRowError, match="sources stand in 'name', once"):
        sources_of_frame(FRAME, "name")
    with pytest.raises(InvalidRowError, match="row 2, column 'who': nobody"):
        sources_of_frame(FRAME.assign(who=["ann", None, "cem"]), "who")


async def test_a_frame_is_sent_one_report_a_row_and_sent_again_it_is_repeated(tmp_path: Path) -> None:
    network = Network(make_task())
    frame = pandas.DataFrame({"who": ["ann", "bob"], "c": [0.1, None], "a": [0.2, 0.3], "b": [0.0, 0.5]})
    client = network.client()
    with Ledger(tmp_path / "ledger") as ledger:
        client._ledger = ledger
        async with client:
            first = await client.send_many(frame, source_column="who")
            again = await client.send_many(frame, source_column="who")
            with pytest.raises(ValueError, match="takes the place of source_for"):
                await client.send_many([[0, 0, 0]], source_column="who")
        assert [entry.source for entry in ledger.entries()] == [ledger.pseudonym("ann"), ledger.pseudonym("bob")]
    assert (first.sent, first.incomplete, again.sent, again.repeated) == (2, 1, 2, 2)
    assert [len(server.payloads) for server in network.servers] == [2, 2, 2]


def test_dates_in_a_column_of_days_are_sent_as_days_from_frames_and_files(tmp_path: Path) -> None:
    columns = [Column(name="visit", lower="0", upper="30000", unit=DAYS), COLUMNS[1]]
    smokes = pandas.array([True, False, None], dtype="boolean")
    moments = pandas.to_datetime(pandas.Series(["2020-01-01", "2020-01-01T12:00", None]), format="ISO8601")
    frame = pandas.DataFrame({"visit": moments, "smokes": smokes})
    np.testing.assert_array_equal(list(rows_of_frame(frame, columns)), [[18262, 1], [18262.5, 0], [np.nan, np.nan]])
    expected = [[18262, 1], [18263, 0], [np.nan, np.nan]]
    texts = pandas.DataFrame({"visit": ["2020-01-01", "2.1.2020", "n/a"], "smokes": smokes})
    np.testing.assert_array_equal(list(rows_of_frame(texts, columns)), expected)
    file = tmp_path / "rows.csv"
    file.write_text("visit,smokes\n2020-01-01,True\n18263,no\nNA,\n", "utf-8")
    read = read_sent(columns, read_table(file))
    np.testing.assert_array_equal(np.column_stack([each.values for each in read]), expected)
    timed = pandas.DataFrame({"visit": ["2020-01-01T12:00"], "smokes": [True]})
    with pytest.raises(InvalidTableError, match="has a time of day, which is left aside"):
        rows_of_frame(timed, columns)
    told = FileMapping(readings={"visit": Reading("date")})
    np.testing.assert_array_equal(list(rows_of_frame(timed, columns, mapping=told)), [[18262, 1]])
    for visit, smoker, complaint in (
        ("31.12.20", True, "column 'visit': expected a date such as 2020-12-31 or a number of days, got str"),
        ("2020-13-45", True, "row 1, column 'visit'"),
        ("2020-01-01", "perhaps", "column 'smokes': expected 0, 1, yes or no, got str"),
    ):
        with pytest.raises(InvalidRowError, match=complaint):
            rows_of_frame(pandas.DataFrame({"visit": [visit], "smokes": [smoker]}), columns)
