"""The demonstration's settings are those that its rule gives on flights that it does not show."""

from functools import cache

import choose
import numpy as np
import pytest
import study
from flights import NAMES, load_flights

MULTIPLE = 2
other_flights = cache(choose.other_flights)


def test_units_are_those_of_flights_that_are_not_shown() -> None:
    others = other_flights()
    assert choose.units(others, MULTIPLE) == {name: (center, scale) for name, (center, scale, _) in study.UNITS.items()}
    assert tuple(study.UNITS) == tuple(study.BOUNDS) == NAMES
    lower, upper = np.array(list(study.BOUNDS.values())).T
    assert ((others >= lower) & (others <= upper)).all()


@pytest.mark.slow
def test_the_flights_of_the_choice_are_none_of_those_shown() -> None:
    both = load_flights(choose.SHOWN + choose.OTHERS)[0]
    np.testing.assert_array_equal(both[: choose.SHOWN], load_flights(choose.SHOWN)[0])
    np.testing.assert_array_equal(both[choose.SHOWN :], other_flights())


@pytest.mark.slow
def test_row_bound_and_sketch_rows_are_what_the_rule_chooses() -> None:
    assert choose.chosen(other_flights()) == choose.Choice(MULTIPLE, study.ROW_BOUND, study.SKETCH_ROWS)
