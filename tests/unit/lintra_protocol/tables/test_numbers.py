"""Numbers as people write them: marks, units, parentheses; what is none is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lintra_protocol.tables.numbers import decimal_mark, written_number


@pytest.mark.parametrize(
    ("cell", "unit", "decides", "point", "comma"),
    [
        ("53%", "%", None, 53.0, 53.0),
        ("€734.50", "€", ".", 734.5, None),
        ("5 €", "€", None, 5.0, 5.0),
        ("-€5", "€", None, -5.0, -5.0),
        ("20 °C", "°C", None, 20.0, 20.0),
        ("1 100,5", "", ",", None, 1100.5),
        ("1.234.567,8", "", ",", None, 1234567.8),
        ("1,234", "", None, 1234.0, 1.234),
        ("0,234", "", ",", None, 0.234),
        ("1234,567", "", ",", None, 1234.567),
        ("(12.5)", "", ".", -12.5, None),
        ("12,34,567.5", "", ".", 1234567.5, None),
        ("CHF 1'200.50", "CHF", ".", 1200.5, None),
        ("\u20135", "", None, -5.0, -5.0),
        ("12.", "", None, 12.0, 12.0),
        (".5", "", ".", 0.5, None),
        ("1e-3", "", None, 0.001, 0.001),
    ],
)
def test_a_cell_has_a_unit_and_a_value_for_each_decimal_mark(
    cell: str, unit: str, decides: str | None, point: float | None, comma: float | None
) -> None:
    number = written_number(cell)
    assert number is not None
    assert (number.unit, number.tells, number.value("."), number.value(",")) == (unit, decides, point, comma)


@pytest.mark.parametrize(
    "cell",
    [
        "",
        "24.12.",
        "5'11",
        "1,2,3",
        "1.2.3.4",
        "1_000",
        "0x10",
        "inf",
        "nan",
        "12A",
        "(5",
        "5)",
        "1.2.2020",
        "1,5,6",
        "--5",
        "12 14",
        "1 2345",
        "2020-01-01",
    ],
)
def test_what_only_looks_like_a_number_is_none(cell: str) -> None:
    assert written_number(cell) is None


def test_cells_that_disagree_about_the_mark_are_a_contradiction() -> None:
    numbers = [number for cell in ("1.5", "2,5", "3") if (number := written_number(cell))]
    assert decimal_mark(numbers) == (None, True)
    assert decimal_mark(numbers[:1]) == (".", False)
    assert decimal_mark(numbers[2:]) == (None, False)


@given(st.floats(-1e12, 1e12, allow_nan=False))
def test_what_python_writes_is_read_to_the_same_number(value: float) -> None:
    number = written_number(repr(value))
    assert number is not None
    assert number.value(".") == value
