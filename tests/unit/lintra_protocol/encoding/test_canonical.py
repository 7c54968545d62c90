"""Bytes that mean one thing."""

import pytest

from lintra_protocol.encoding.canonical import (
    JsonValue,
    base64url,
    canonical_json,
    domain_hash,
    framed,
    parse_base64url,
    parse_canonical_json,
)
from lintra_protocol.errors import InvalidMessageError


def test_framing_is_injective_where_concatenation_is_not() -> None:
    variants = [
        framed("x", b"ab", b"c"),
        framed("x", b"a", b"bc"),
        framed("x", b"abc"),
        framed("xa", b"bc"),
        framed("x"),
    ]
    assert len(set(variants)) == len(variants)


def test_a_framed_part_stands_behind_its_length() -> None:
    assert framed("x", b"ab") == b"lintra/1 x\x00" + bytes([0, 0, 0, 0, 0, 0, 0, 2]) + b"ab"


def test_another_label_gives_another_hash() -> None:
    assert domain_hash("task", b"same") != domain_hash("report", b"same")


def test_keys_are_sorted_and_nothing_is_padded() -> None:
    assert canonical_json({"b": [1, True, None], "a": "é"}) == '{"a":"é","b":[1,true,null]}'.encode()


@pytest.mark.parametrize("value", [1.0, {"a": 0.5}, [float("nan")], {1: "a"}, b"bytes", {"a": {2, 3}}])
def test_what_has_no_single_spelling_is_the_callers_mistake(value: object) -> None:
    with pytest.raises(ValueError, match=r"no canonical form|keys are strings"):
        canonical_json(value)  # type: ignore[arg-type]


def test_parsing_gives_back_what_was_written() -> None:
    value: JsonValue = {"z": [], "a": {"n": -5, "s": 'quote " \\ \n'}, "e": "😀"}
    assert parse_canonical_json(canonical_json(value)) == value


@pytest.mark.parametrize("data", ["[1]".encode("utf-16"), b"\xff", b"\xef\xbb\xbf1", b'"\xed\xa0\x80"'])
def test_other_encodings_than_plain_utf8_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidMessageError):
        parse_canonical_json(data)


def test_endless_nesting_and_endless_numbers_are_refused() -> None:
    for data in (b"[" * 200_000, b'{"a":' * 200_000, b"9" * 5_000):
        with pytest.raises(InvalidMessageError):
            parse_canonical_json(data)


def test_base64url_of_another_length_is_refused_with_both_lengths() -> None:
    with pytest.raises(InvalidMessageError, match="expected 32 bytes of base64url, got 3"):
        parse_base64url(base64url(b"abc"), 32)
