"""Documents with exactly one encoding."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from pydantic import ValidationError

from lintra_protocol.encoding.documents import Frozen, Real, fraction, real
from lintra_protocol.errors import InvalidMessageError


class Point(Frozen):
    """A document for these tests."""

    x: Real
    tags: tuple[int, ...] = ()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (-0.0, "0"), (1, "1"), (0.1, "0.1"), (-2.50, "-2.5"), (1e-7, "0.0000001"), (100.0, "100"),
     ("1e2", "100"),
     (Decimal("1E+3"), "1000"), (Decimal("0E-9"), "0"), (1e17, "100000000000000000"), (5e-40, "0." + "0" * 39 + "5")],
)  # fmt: skip
def test_a_number_has_one_spelling(value: float | str | Decimal, text: str) -> None:
    assert real(value) == text
    assert Point(x=text).x == text


def test_numpy_numbers_are_spelled_like_any_other() -> None:
    assert real(np.float64(0.25)) == "0.25"
    assert real(np.int64(7)) == "7"  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "-Infinity"])
def test_a_number_that_is_not_finite_is_no_real(value: float | str) -> None:
    with pytest.raises(ValueError, match="finite"):
        real(value)


@pytest.mark.parametrize("value", [1e18, -1e300, 1e-41, 5e-324])
def test_a_number_with_too_many_digits_is_no_real(value: float) -> None:
    with pytest.raises(ValueError, match="18 digits"):
        real(value)


@pytest.mark.parametrize(
    "text", ["", "-0", "00", "01", "1.", ".5", "1.0", "0.10", "+1", "1e3", " 1", "1\n", "١", "0x1", "1,5"]
)
def test_another_spelling_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        Point(x=text)


def test_a_real_is_exact() -> None:
    assert fraction("0.1") == Fraction(1, 10)


def test_a_document_survives_the_round_trip() -> None:
    point = Point(x="0.5", tags=(1, 2))
    assert point.canonical() == b'{"tags":[1,2],"x":"0.5"}'
    assert Point.from_canonical(point.canonical()) == point


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b'{"tags":[1],"x":"0.50"}', "Point: x: "),
        (b'{"tags":["1"],"x":"0"}', r"Point: tags\.0: "),
        (b'{"tags":[true],"x":"0"}', r"Point: tags\.0: "),
        (b'{"tags":[],"x":"0","y":1}', "Point: y: "),
        (b'{"tags":[]}', "Point: x: "),
        (b"[]", "Point: document: "),
        # What is not canonical is said first, whatever else is wrong.
        (b'{"tags":[], "x":"0"}', "not canonical JSON"),
        (b'{"x":"0","tags":[]}', "not canonical JSON"),
        (b'{"tags":[],"x":"0","x":"0"}', "not canonical JSON"),
        (b'{"tags":[],"x":"0.50","x":"0"}', "not canonical JSON"),
        (b'{"tags":[1.0],"x":"0"}', "not canonical JSON"),
        (b'{"tags":[9007199254740992],"x":"0"}', "not canonical JSON"),
        (b'{"tags":[],"x":"0"', "not canonical JSON"),
    ],
)
def test_a_complaint_names_the_field_and_not_the_value(data: bytes, complaint: str) -> None:
    with pytest.raises(InvalidMessageError, match=complaint):
        Point.from_canonical(data)


def test_a_field_that_is_left_out_is_refused_even_if_it_has_a_default() -> None:
    with pytest.raises(InvalidMessageError, match="defaults are written in full"):
        Point.from_canonical(b'{"x":"0"}')


def test_a_document_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Point(x="0").x = "1"


def test_no_detail_repeats_a_refused_value() -> None:
    with pytest.raises(InvalidMessageError) as refusal:
        Point.from_canonical(b'{"tags":[],"x":"secret"}')
    assert "secret" not in str(refusal.value)
