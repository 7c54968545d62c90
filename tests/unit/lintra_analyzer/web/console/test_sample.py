"""The columns of an uploaded sample, as the form of a new task writes them."""

import pytest

from lintra_analyzer.web.console.sample import columns_of_sample, require_closed
from lintra_analyzer.web.console.task_form import columns_of
from lintra_protocol.errors import InvalidTableError, InvalidTaskError

ROWS = [
    (20 + number % 60, "yes" if number % 3 else "no", "ABC"[number % 3], f"{7.25 + number % 11}")
    for number in range(90)
]
SAMPLE = "age,smoker,stage,dose [mg]\n" + "\n".join(",".join(map(str, row)) for row in ROWS)


def test_no_number_of_a_sample_is_shown_unless_it_is_public() -> None:
    private = columns_of_sample(SAMPLE.encode(), is_public=False).text
    assert not set("0123456789") & set(private)
    assert private.count("? to ?") == 2
    with pytest.raises(InvalidTaskError, match="columns, line 1: write a lower"):
        require_closed(private)
    public = columns_of_sample(SAMPLE.encode(), is_public=True).text
    require_closed(public)
    found = {str(column["name"]): column for column in columns_of(public)}
    assert found["age"]["kind"] == "integer"
    assert found["smoker"]["kind"] == "boolean"
    levels = found["stage"]["levels"]
    assert isinstance(levels, list)
    assert set(levels) >= {"A", "B", "C"}


def test_names_that_the_form_cannot_write_are_said_and_left_out() -> None:
    found = columns_of_sample(b'"a:b",c\n1.5,2.5\n2.5,3.5\n3.5,1.5\n', is_public=False)
    assert found.text.startswith("c: ? to ?")
    assert any(remark.startswith("a:b: has signs") for remark in found.remarks)


@pytest.mark.parametrize("content", [b"", b"\0\1\2", b"a,b\n1\n", b"a\n"])
def test_what_is_no_table_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidTableError):
        columns_of_sample(content, is_public=False)
