"""Files, frames, dicts and arrays name the same persons, and a row that names nobody is refused by row and column."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from numpy.typing import NDArray

from lintra_client.organisations.dataframes import rows_of_frame, sources_of_frame
from lintra_client.organisations.sent_table import read_table
from lintra_client.organisations.table import persons_of, values_of
from lintra_protocol.errors import InvalidRowError, InvalidTableError
from lintra_protocol.fields.person_names import person_name
from lintra_protocol.fields.schema import Column, Schema
from support import make_task

SEVENTEEN = ["17", "17.0", "017", "+17", " 17 ", "1.7e1", "1.7E+1", "170e-1"]
SEVENTEEN += ["\uff11\uff17", "\u0661\u0667", "17\u200b"]  # full-width digits, Arabic ones, one that nobody sees


class Polars:
    """A frame as polars has them: names, and columns that give None where a value is missing."""

    def __init__(self, **columns: list[object]) -> None:
        self._held = columns

    @property
    def columns(self) -> list[str]:
        return list(self._held)

    def __getitem__(self, name: str) -> "PolarsColumn":
        return PolarsColumn(self._held[name])


class PolarsColumn(list[object]):
    """A column whose array holds floats as soon as a whole number is missing in it."""

    def __array__(self, dtype: object = None, copy: object = None) -> NDArray[Any]:
        if all(value is None or isinstance(value, int) for value in self) and None in self:
            return np.array([np.nan if value is None else float(value) for value in self])  # type: ignore[arg-type]
        return np.array(list(self))


def test_a_boolean_is_refused_also_behind_the_number_that_it_equals() -> None:
    for rows in ([1, True], [1.0, np.True_]):
        with pytest.raises(InvalidRowError, match=r"row 2, column 'who': .* boolean"):
            persons_of({"who": rows}, "who", 2)


def test_a_csv_file_a_frame_and_a_dict_name_the_same_persons(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    spelled = [*SEVENTEEN, "Ann", "ANN ", "18"]
    with file.open("w", encoding="utf-8", newline="") as lines:
        csv.writer(lines).writerows([["who", "a"], *([each, "0.5"] for each in spelled)])
    mixed = [17, 17.0, *SEVENTEEN[2:], "Ann", "ANN ", 18.0]
    tables: list[Any] = [
        read_table(file),
        {"who": spelled},
        {"who": mixed},
        pandas.DataFrame({"who": spelled}),
        pandas.DataFrame({"who": mixed}),
        pandas.DataFrame({"who": pandas.Categorical(spelled)}),
        Polars(who=list(spelled)),
    ]
    for table in tables:
        numbers, names, joined = persons_of(table, "who", len(spelled))
        assert (names, numbers.tolist()) == (["17", "ann", "18"], [0] * 11 + [1, 1, 2])
        assert joined == 11
    of_frame = sources_of_frame(pandas.DataFrame({"who": mixed}), "who")
    assert [person_name(of_frame(row)) for row in range(14)] == ["17"] * 11 + ["ann", "ann", "18"]


def test_a_column_that_became_floats_by_a_gap_in_another_month_names_the_same_persons() -> None:
    whole, floats = pandas.DataFrame({"who": [17, 18]}), pandas.DataFrame({"who": [17, 18, None]})[:2]
    assert floats["who"].dtype == np.float64
    for frame in (whole, floats, whole.astype("Int64"), whole.astype("float32"), whole.astype("str")):
        assert persons_of(frame, "who", 2)[1] == ["17", "18"]
        assert [person_name(sources_of_frame(frame, "who")(row)) for row in (0, 1)] == ["17", "18"]
        assert persons_of(frame, list(frame["who"]), 2)[1] == ["17", "18"]


GAPS: list[Any] = [
    pandas.DataFrame({"who": pandas.array([2**53 + 1, None], dtype="Int64"), "a": 0.5}),
    pandas.DataFrame({"who": pandas.array([True, None], dtype="boolean").astype("Int64"), "a": 0.5}),
    pandas.DataFrame({"who": pandas.array(["ann", None], dtype="string"), "a": 0.5}),
    pandas.DataFrame({"who": ["ann", None], "a": 0.5}),
    pandas.DataFrame({"who": [17, np.nan], "a": 0.5}),
    {"who": [17, pandas.NA], "a": [0.5, 0.5]},
    {"who": [17, ""], "a": [0.5, 0.5]},
    Polars(who=[2**53 + 1, None], a=[0.5, 0.5]),
]


@pytest.mark.parametrize("table", GAPS)
def test_a_person_who_is_missing_is_refused_by_row_and_column(table: Any) -> None:
    with pytest.raises(InvalidRowError, match="row 2, column 'who': nobody is named here"):
        persons_of(table, "who", 2)
    with pytest.raises(InvalidRowError, match="row 2: nobody is named here"):
        persons_of(table, table["who"], 2)
    if isinstance(table, pandas.DataFrame):
        with pytest.raises(InvalidRowError, match="row 2, column 'who': nobody is named here"):
            sources_of_frame(table, "who")


def test_a_long_identifier_keeps_its_digits_beside_a_gap_elsewhere(tmp_path: Path) -> None:
    # As an array, such a column holds floats: 9007199254740993 would be its neighbour.
    long = pandas.DataFrame({"who": pandas.array([2**53 + 1, 2**53], dtype="Int64")})
    assert persons_of(long, "who", 2)[1] == [str(2**53), str(2**53 + 1)]
    floats = pandas.DataFrame({"who": [float(2**53), float(2**53 + 2)]})
    with pytest.raises(InvalidRowError, match=r"row 1, column 'who': .* last digits are lost"):
        persons_of(floats, "who", 2)


def test_a_gap_in_a_nullable_column_of_numbers_is_a_missing_value() -> None:
    columns = (Column(name="a", lower="0", upper="9", kind="integer"), Column(name="b", lower="0", upper="9"))
    frame = pandas.DataFrame(
        {
            "a": pandas.array([1, None], dtype="Int64"),
            "b": pandas.array([None, 2.5], dtype="Float64"),
            "who": ["x", "y"],
        }
    )
    expected = [[1, np.nan], [np.nan, 2.5]]
    task, schema = make_task("sum", columns=columns), Schema(list(columns))
    np.testing.assert_array_equal(values_of(task, frame, "who", strict=False)[0], expected)
    np.testing.assert_array_equal(
        values_of(task, Polars(a=[1, None], b=[None, 2.5], who=["x", "y"]), "who", strict=False)[0], expected
    )
    named = {"a": [1, pandas.NA], "b": [pandas.NA, 2.5]}
    np.testing.assert_array_equal(values_of(task, named, None, strict=False)[0], expected)  # type: ignore[arg-type]
    np.testing.assert_array_equal(list(rows_of_frame(frame, columns, "who")), expected)
    np.testing.assert_array_equal(schema.rows(frame[["a", "b"]].to_numpy()), expected)
    np.testing.assert_array_equal(schema.row([pandas.NA, 2.5]), expected[1])


def test_names_that_differ_in_capitals_only_are_asked_about_and_not_shown() -> None:
    for named, alike in (
        (["aB3", "AB3", "aB3"], 1),
        (["Ann", " Ann", "17", "17.0"], 0),
        (["Jose\u0301", "Jos\u00e9"], 0),
    ):
        if not alike:
            assert persons_of({"who": named}, "who", len(named), ask=True)[1]
            continue
        with pytest.raises(InvalidTableError, match=f"{alike} names, column 'who' differ .* in capitals only") as asked:
            persons_of({"who": named}, "who", len(named), ask=True)
        assert asked.value.exit_status == 2
        assert "B3" not in str(asked.value)
        assert len(persons_of({"who": named}, "who", len(named))[1]) == 1
