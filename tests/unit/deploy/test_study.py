"""The demonstration's settings are those that its rules give for flights that it does not show; no answer enters."""

import ast
from functools import cache
from pathlib import Path

import choose
import numpy as np
import pytest
import study
from flights import NAMES, load_flights

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
earlier_flights = cache(choose.earlier_flights)


def test_units_are_mean_and_one_deviation_of_flights_that_are_not_shown() -> None:
    earlier = earlier_flights()
    assert choose.units(earlier) == {name: (center, scale) for name, (center, scale, _) in study.UNITS.items()}
    assert tuple(study.UNITS) == tuple(study.BOUNDS) == NAMES
    lower, upper = np.array(list(study.BOUNDS.values())).T
    assert ((earlier >= lower) & (earlier <= upper)).all()


def test_the_row_bound_is_what_the_plans_rule_gives() -> None:
    assert choose.row_bound(earlier_flights()) == study.ROW_BOUND


def test_all_columns_are_asked_about_and_the_sketch_has_the_rows_of_the_default() -> None:
    assert set(study.FEATURES) == set(NAMES) - {study.TARGET}
    assert len(study.FEATURES) == 11
    sketch, _ = study.specifications(study.ROWS)
    assert sketch["mechanism"] == {"kind": "osnap"}


def test_no_rule_of_the_choice_can_see_an_answer() -> None:
    imported = {
        name
        for node in ast.walk(ast.parse((DEPLOY / "choose.py").read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
        for name in (node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names))
    }
    assert not {name for name in imported if "estimators" in name or "yardsticks" in name or "TARGET" in name}


@pytest.mark.slow
def test_the_earlier_flights_are_none_of_those_shown() -> None:
    both = load_flights(choose.FLIGHTS)[0]
    np.testing.assert_array_equal(both[: study.ROWS], load_flights(study.ROWS)[0])
    np.testing.assert_array_equal(both[study.ROWS :], earlier_flights())
