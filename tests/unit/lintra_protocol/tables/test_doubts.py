"""Doubts whether numbers are numbers: each is raised by what it names, and by nothing that people measure."""

from collections import Counter

import pytest

from lintra_protocol.tables.doubts import counts_rows, doubts_of_numbers, is_rising, missing_codes, missing_dates
from lintra_protocol.tables.numbers import DecimalMark, written_number


def doubts(cells: list[str], name: str = "x", mark: DecimalMark = ".") -> list[str]:
    numbers = {cell: number for cell in cells if (number := written_number(cell)) is not None}
    values = {cell: value for cell, number in numbers.items() if (value := number.value(mark)) is not None}
    return [text for text, _ in doubts_of_numbers(name, numbers, values)]


@pytest.mark.parametrize(
    "cells",
    [
        ["1.5", "2.25"], ["1000000", "999999"], ["1.5e-3", "1e+20"], ["(1.5)", "2.5"], ["0.5", "0"], ["2020", "1999"],
        ["-20200131", "20200131"], ["12345678.5", "12345678"], ["5.2020", "13.2020"], ["+5", "-3"],
    ],
)  # fmt: skip
def test_measurements_raise_no_doubt(cells: list[str]) -> None:
    assert doubts(cells) == []


@pytest.mark.parametrize("name", ["Telefon", "phone", "IBAN", "kunden_nr", "CustomerNumber", "Bestellnummer"])
def test_a_name_of_an_identifier_raises_one(name: str) -> None:
    assert doubts([str(137 * row) for row in range(1, 40)], name)
    assert not doubts([str(137 * row) for row in range(1, 10)], name)


@pytest.mark.parametrize(
    ("numbers", "codes"),
    [
        ([1, 2, 3, 99, 99, 99], [99]),
        ([1, 2, 8, 9, 9], [8, 9]),
        ([*range(18, 40), 999], [999]),
        ([30, 31, 99], []),
        ([18, 80, -9], [-9]),
        ([1, 5, 97, 98, 99], [97, 98, 99]),
        ([-99, 1, 2, 3, 999, 999, 999], [-99, 999]),
        ([5, 6, 7, 8, 9, 9, 9], []),
        ([90, 95, 99, 99, 99, 120], []),
        ([1, 2, 3, 5, 9], []),
        ([-5, 5, -9, 20], []),
        ([-1, 0, 1, 1], []),
        ([-99, 1, 2, 99, 99, 99], [-99, 99]),
        ([99, 999], []),
        ([7, 7, 7], []),
    ],
)
def test_codes_for_missing_values_lie_outside_the_others(numbers: list[float], codes: list[float]) -> None:
    assert missing_codes(Counter(map(float, numbers))) == codes


@pytest.mark.parametrize(
    ("cells", "doubt", "mark"),
    [
        (["2020001", "1999365"], "a date without marks", "."),
        (["990131", "201224", "850505", "700101", "991231"], "a date without marks", "."),
        (["1,2", "2,3", "1,3", "2"], "two choices", ","),
        (["192.168.100.101", "192.168.100.102"], "an address", ","),
    ],
)
def test_codes_that_look_like_numbers_raise_a_doubt(cells: list[str], doubt: str, mark: DecimalMark) -> None:
    assert doubt in "".join(doubts(cells, mark=mark))


def test_decimals_of_one_digit_are_no_choices() -> None:
    assert not doubts(["1,2", "2,3", "3,1", "2"], mark=",")


def test_days_that_programs_write_for_none_are_doubted_beyond_the_others() -> None:
    days = {"1900-01-01": -25567.0, "2020-01-01": 18262.0, "2021-01-01": 18628.0}
    assert missing_dates({"1900-01-01": 1}, days) == ["1900-01-01"]
    among = {"1970-01-01": 0.0, "1960-01-01": -3653.0, "1980-01-01": 3652.0}
    assert missing_dates({"1970-01-01": 9}, among) == []


def test_numbers_of_rows_leave_hardly_one_out() -> None:
    assert counts_rows([4.0, 2, 3, 5])
    assert not counts_rows([4.0, 2, 3, 9])
    assert not counts_rows([4.0, 2, 3, 3])
    assert (is_rising([1, 2, 4]), is_rising([1, 1])) == (True, False)
