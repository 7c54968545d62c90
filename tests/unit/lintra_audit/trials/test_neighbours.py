"""Worst-case rows of an audit."""

from lintra_audit.trials.neighbours import hostile_rows
from support import make_task


def test_hostile_rows_are_finite_and_reach_far_outside_the_ball() -> None:
    mechanism = make_task("sum").mechanism
    rows = hostile_rows(mechanism, 3)
    assert abs(rows).max() >= 1e299
    assert rows.shape[1] == 3
    assert bool((rows == rows).all())
