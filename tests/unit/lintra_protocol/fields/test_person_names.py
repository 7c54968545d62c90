"""One person has one name, however it is spelled, and what names nobody is refused in words."""

import time
from decimal import Decimal

import numpy as np
import pandas
import pytest

from lintra_protocol.fields.person_names import PersonNames, person_name

SEVENTEEN = ["17", "17.0", "017", "+17", " 17 ", "1.7e1", "1.7E+1", "170e-1"]
SEVENTEEN += ["\uff11\uff17", "\u0661\u0667", "17\u200b"]  # full-width digits, Arabic ones, one that nobody sees


@pytest.mark.parametrize("spelled", [*SEVENTEEN, 17, 17.0, np.int8(17), np.float16(17), Decimal("17.00")])
def test_seventeen_is_one_person(spelled: object) -> None:
    assert person_name(spelled) == "17"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ann", "ANN"),
        ("Strasse", "Stra\u00dfe"),
        ("Zo\u00eb", "Zoe\u0308"),
        ("Ann Lee", "\u00a0Ann \u3000 Lee\n"),
        ("ann", "a\u00adn\ufeffn"),
        ("e\u0301", "e\u200d\u0301"),
        ("\u845b", "\u845b\U000e0100"),
        ("\u1f80", "\u0391\u0345\u0313"),
    ],
)
def test_spellings_of_a_text_are_one_person(one: str, other: str) -> None:
    assert person_name(one) == person_name(other)


@pytest.mark.parametrize("text", ["17.5", "17a", "1_7", "0x11", "1e999999999", "1" * 41, "0" * 39 + "17", "nan", "inf"])
def test_a_text_that_is_no_whole_decimal_of_forty_digits_stays_text(text: str) -> None:
    assert person_name(text) == text


def test_an_exponent_and_a_long_text_cost_nothing() -> None:
    started = time.process_time()
    for text in ("1e999999999", "1e" + "9" * 38, "1e-" + "9" * 37, "0e" + "9" * 38):
        person_name(text)
    for text in ("\u0301\u0323" * 10**6, "9" * 10**7):
        with pytest.raises(ValueError, match="1 to 200 characters"):
            person_name(text)
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, "not by a boolean"),
        (np.True_, "not by a boolean"),
        (17.5, "with a fraction"),
        (float("inf"), "nobody is named"),
        (float(2**53), "last digits are lost"),
        (np.float32(2**24), "last digits are lost"),
        (float("nan"), "nobody is named"),
        (None, "nobody is named"),
        (pandas.NA, "nobody is named"),
        (pandas.NaT, "nobody is named"),
        (Decimal("sNaN"), "nobody is named"),
        (" \u200b", "nobody is named"),
        pytest.param(10**5000, "1 to 200 characters", id="a number of 5001 digits"),
        ("\ufdfa" * 12, "1 to 200 characters"),
        ("a\0", "control character"),
        ("\ud800", "control character"),
        (b"ann", "type bytes"),
        (["ann"], "type list"),
        (np.array(["a", "b"]), "type ndarray"),
        (pandas.Timestamp("2020-01-01"), "type Timestamp"),
    ],
)
def test_what_names_nobody_is_refused_in_words(value: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        person_name(value)


def test_the_number_of_spellings_that_were_joined_is_counted() -> None:
    names = PersonNames()
    assert {names.of(spelled) for spelled in ["17", 17.0, "017", 17, "Ann", "ann", "ann", "bob"]} == {
        "17",
        "ann",
        "bob",
    }
    # 17, 17.0, 017; Ann, ann; bob.
    assert names.joined == 3
