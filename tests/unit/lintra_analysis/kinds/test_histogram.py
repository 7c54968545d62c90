"""Asking for a histogram: cells of equal width, edges of one's own, and what does not fit."""

from itertools import pairwise

import pytest

from lintra_analysis.kinds.histogram import histogram_of
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import Column

AGE = Column(name="age", lower="18", upper="90", kind="integer")
INCOME = Column(name="income", lower="0", upper="100.5")
SEX = Column(name="sex", lower="0", upper="1", kind="category", levels=("male", "female"))


def test_numbers_have_cells_of_equal_width_and_levels_one_each() -> None:
    found = histogram_of([INCOME, SEX], 4, {})
    assert found.edges == (("0", "25.125", "50.25", "75.375", "100.5"), ())
    assert found.cells == (4, 2)


def test_an_integer_has_no_more_cells_than_values_and_none_lies_on_an_edge() -> None:
    few = Column(name="children", lower="0", upper="3", kind="integer")
    assert histogram_of([few], 64, {}).edges == (("0", "0.5", "1.5", "2.5", "3"),)
    ends = [float(end) for end in histogram_of([AGE], 10, {}).edges[0]]
    assert len(ends) == 11
    assert all(end % 1 == 0.5 for end in ends[1:-1])
    widths = [b - a for a, b in pairwise(ends[1:-1])]
    assert set(widths) <= {7.0, 8.0}


def test_edges_can_be_named() -> None:
    assert histogram_of([INCOME], 64, {"income": ["0", "10", "100.5"]}).edges == (("0", "10", "100.5"),)


@pytest.mark.parametrize(
    ("edges", "said"),
    [({"sex": ["0", "1"]}, "one cell for each of its 2 levels"), ({"income": ["0", "5", "5"]}, "that increase")],
)
def test_edges_that_do_not_fit_are_refused(edges: dict[str, list[str]], said: str) -> None:
    with pytest.raises(InvalidTaskError, match=said):
        histogram_of([INCOME, SEX], 4, edges)
