"""Canonical JSON is RFC 8785, as another implementation writes it; what no other library reads alike is refused."""

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from lintra_protocol.encoding.canonical import MAX_INTEGER, JsonValue, canonical_json, parse_canonical_json

SCALARS = st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(VALUES)
@pytest.mark.slow
def test_the_library_writes_the_same_bytes(value: JsonValue) -> None:
    assert canonical_json(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@given(VALUES)
@pytest.mark.slow
def test_what_the_library_writes_is_read_back(value: JsonValue) -> None:
    assert parse_canonical_json(rfc8785.dumps(value)) == value  # type: ignore[arg-type]


def test_keys_are_ordered_as_in_the_example_of_the_rfc() -> None:
    # RFC 8785, section 3.2.3; by code point the face would stand behind the Hebrew letter.
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    assert list(parse_canonical_json(canonical_json(dict.fromkeys(keys, 0)))) == [  # type: ignore[arg-type]
        "\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33",
    ]  # fmt: skip


@pytest.mark.parametrize("value", [MAX_INTEGER + 1, -MAX_INTEGER - 1, "\ud800", {"\udfff": 1}])
def test_both_refuse_what_has_no_form_that_every_reader_understands(value: JsonValue) -> None:
    with pytest.raises(ValueError, match=r"2\^53|surrogates"):
        canonical_json(value)
    with pytest.raises((rfc8785.CanonicalizationError, UnicodeEncodeError)):
        rfc8785.dumps(value)  # type: ignore[arg-type]
