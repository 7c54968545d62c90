"""The name of a person: of every text and number either one name, which is its own name, or a refusal in words."""

import unicodedata
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lintra_protocol.fields.person_names import _PLAIN, MAX_NAME_LENGTH, _name_in, person_name

# Letters and marks that fold, compose and vanish in each other's company, beside any text at all.
TRICKY = "aAß\u0130ıſ\u0345\u0301\u0308\u00ad\u200b\u200d\u034f\ufe0f\u3164\uff11\u0661½Å\u212b\u00a0\u2003 .+-eE0179"
TEXTS = st.one_of(st.text(max_size=260), st.text(TRICKY, max_size=30))
WHOLE = st.integers(-(10**40) + 1, 10**40 - 1)
WIDE = str.maketrans("+-.0123456789e", "".join(chr(ord(each) + 0xFEE0) for each in "+-.0123456789e"))


def spellings_of(number: int, zeros: int, shift: int) -> list[object]:
    """Return ways in which files, frames and programs spell a whole number; texts of at most 40 characters."""
    digits, sign = str(abs(number)), "-" if number < 0 else ""
    texts = [f"{sign}{digits}", f"{sign}{'0' * zeros}{digits}", f"{sign}{digits}.", f"{sign}{digits}.{'0' * zeros}"]
    texts += [f" {sign}{digits}\t", f"{sign}{digits}\u200b", f"\u2060{sign}{digits}\u00a0", f"{Decimal(number):E}"]
    if number >= 0:
        texts.append(f"+{digits}")
    if shift < len(digits):
        texts += [f"{sign}{digits[: len(digits) - shift]}.{digits[len(digits) - shift :]}{e}{shift}" for e in "eE"]
    if number % 10**shift == 0:
        texts.append(f"{sign}{digits[: len(digits) - shift] or '0'}e+{shift}")
    found: list[object] = [number, Decimal(number)]
    for text in texts:
        if len(text.strip().strip("\u200b\u2060")) <= 40:
            found += [text, text.translate(WIDE)]
    if abs(number) < 2**53:
        found += [float(number), np.float64(number)]
    if abs(number) < 2**63:
        found.append(np.int64(number))
    return found


@given(TEXTS)
def test_every_text_has_one_name_which_is_its_own_name_or_is_refused(text: str) -> None:
    try:
        name = person_name(text)
    except ValueError:
        return
    assert person_name(name) == name
    assert 0 < len(name) <= MAX_NAME_LENGTH
    assert name.isprintable()
    assert name == unicodedata.normalize("NFKC", name) == " ".join(name.split())
    assert not any(unicodedata.category(each) == "Cf" for each in name)


@given(TEXTS)
def test_capitals_composition_and_what_nobody_sees_make_nobody_another_person(text: str) -> None:
    try:
        name = person_name(text)
    except ValueError:
        return
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        other = unicodedata.normalize(form, text)  # type: ignore[arg-type]
        if len(other) <= MAX_NAME_LENGTH:
            assert person_name(other) == name
    if len(text) < MAX_NAME_LENGTH // 4:
        assert person_name("\u200b".join(text)) == person_name(f"\t {text}\u00a0\n") == name


@given(WHOLE, st.integers(0, 40), st.integers(0, 40))
def test_all_spellings_of_one_number_are_one_person(number: int, zeros: int, shift: int) -> None:
    assert {person_name(spelled) for spelled in spellings_of(number, zeros, shift)} == {str(number)}


@given(st.from_regex(_PLAIN, fullmatch=True))
def test_the_short_way_of_plain_names_leads_where_the_long_one_does(name: str) -> None:
    assert _name_in(name) == person_name(name) == name


@given(WHOLE, WHOLE)
def test_two_numbers_are_two_persons(first: int, second: int) -> None:
    assert (person_name(first) == person_name(f"{second}.0")) == (first == second)


@given(st.from_regex(r"[+-]?[0-9]{0,50}\.?[0-9]{0,50}(e[+-]?[0-9]{1,60})?", fullmatch=True))
def test_a_decimal_of_any_length_and_exponent_takes_no_time(text: str) -> None:
    try:
        name = person_name(text)
    except ValueError:
        assert not text
        return
    if name != text.lower():
        assert Decimal(name) == Decimal(text)
        assert len(text) <= 40
        assert len(name.removeprefix("-")) <= 40


@given(st.floats(), st.sampled_from([float, np.float64, np.float32, np.float16, np.longdouble]))
def test_a_float_is_the_whole_number_that_it_is_or_refused(value: float, kind: type) -> None:
    with np.errstate(over="ignore"):
        held = kind(value)
    if held.is_integer() and abs(int(held)) < 2 ** (np.finfo(kind).nmant + 1):
        assert person_name(held) == person_name(int(held)) == str(int(held))
    else:
        with pytest.raises(ValueError, match=r"fraction|nobody|digits"):
            person_name(held)


@given(st.from_type(type).flatmap(st.from_type).filter(lambda value: not isinstance(value, str)))
def test_whatever_is_no_name_is_refused_in_words(value: object) -> None:
    try:
        name = person_name(value)
    except ValueError:
        return
    assert person_name(name) == name
