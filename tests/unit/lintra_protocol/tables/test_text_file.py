"""The text of a CSV file: its encoding and separator are found, and what was inferred is said."""

import pytest

from lintra_protocol.errors import InvalidTableError
from lintra_protocol.tables.text_file import format_of, read_csv

TEXT = 'größe;"a;b"\n1;2\n\n3;4\n'


@pytest.mark.parametrize(
    ("encoding", "note"),
    [
        ("utf-8", ""),
        ("utf-8-sig", ""),
        ("utf-16", ""),
        ("utf-16-le", "UTF-16"),
        ("utf-16-be", "UTF-16"),
        ("cp1252", "'größe'"),
    ],
)
def test_names_and_rows_are_the_same_in_every_encoding(encoding: str, note: str) -> None:
    names, rows, text_format = read_csv(TEXT.encode(encoding), "rows.csv")
    assert (names, rows, text_format.separator) == (["größe", "a;b"], [["1", "2"], ["3", "4"]], ";")
    assert note in text_format.note
    assert bool(note) == bool(text_format.note)


def test_a_sign_that_shows_the_encoding_is_shown_where_no_word_does() -> None:
    assert "such as '€'" in format_of("wage\n5,10 €\n".encode("cp1252"), "rows.csv").note


def test_a_separator_inside_quotes_separates_nothing() -> None:
    assert format_of(b'"a,b"\tc\n', "rows.csv").separator == "\t"
    assert format_of(b"a;b,c\n", "rows.csv").separator == ","
    assert format_of(b"alone\n", "rows.csv").separator == ","


def test_a_line_that_states_the_separator_is_no_line_of_names() -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "cp1252"):
        assert read_csv("sep=;\r\na;b, c\r\n1;2\r\n".encode(encoding), "x.csv")[:2] == (["a", "b, c"], [["1", "2"]])


def test_where_names_have_two_separators_the_other_lines_decide_or_the_owner_does() -> None:
    assert read_csv(b"town;size, cm\nBern;2\nGenf;3\n", "x.csv")[0] == ["town", "size, cm"]
    with pytest.raises(InvalidTableError, match="separated by ',' or ';': write sep=; as its first line"):
        read_csv(b"town;size, cm\nBern;2,5\nGenf;3,5\n", "x.csv")  # else the sizes were 5 and 5


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"a,b\n1,2\n1,2,3\n", "row 2 has 3 cells, the first line has 2 names"),
        (b"a,b\n\x81\x8d,2\n", "rows.csv is no text file"),
        (b"a,b\n" + b'"' + b"x" * 200_000 + b'",1\n', "rows.csv is no CSV file: field larger than"),
    ],
)
def test_what_is_no_table_is_refused_with_the_reason(content: bytes, complaint: str) -> None:
    with pytest.raises(InvalidTableError, match=complaint):
        read_csv(content, "rows.csv")
