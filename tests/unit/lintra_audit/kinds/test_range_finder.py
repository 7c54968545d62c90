"""A trace beside the products where rows may become the null row: refused, and seen by the audit if it were not."""

from dataclasses import replace

import numpy as np
import pytest

from lintra_audit.kinds.range_finder import cases, farthest
from lintra_audit.release.run import far_reports
from lintra_protocol.errors import InvalidTaskError
from support.measured import measurement_of


def test_a_trace_against_the_null_row_is_refused_and_would_move_reports_further_than_stated() -> None:
    case = next(case for case in cases() if case.name == "range-finder-null-row")
    traced = case.task.mechanism.model_copy(update={"trace": True})
    task = case.task.model_copy(update={"mechanism": traced})
    with pytest.raises(InvalidTaskError, match="trace needs neighbours 'replace-one'"):
        task.check()
    # What the optimal test of an audit would have in hand if nobody refused: more than the promise allows.
    reports = far_reports(replace(case, make_task=lambda: task), 0)
    moved = np.linalg.norm((reports[1][0] - reports[0][0]).astype(np.float64))
    stated = float(measurement_of(traced, task.num_columns, task.claim).squared_distance) ** 0.5
    assert moved > 1.2 * stated
    without = far_reports(case, 0)
    assert np.linalg.norm((without[1][0] - without[0][0]).astype(np.float64)) <= stated


def test_the_victims_rows_share_their_projection_and_nothing_that_it_does_not_see() -> None:
    case = next(case for case in cases() if case.name == "range-finder")
    first, second = farthest(case.task)
    signs = case.task.mechanism.signs(case.task.num_columns)  # type: ignore[attr-defined]
    np.testing.assert_allclose(first @ signs, second @ signs, atol=1e-9)
    assert np.linalg.norm(first) == pytest.approx(1)
    assert (first - second) @ (first + second) == pytest.approx(0, abs=1e-9)
