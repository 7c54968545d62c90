"""The audit's rows of `newton_step` are as far apart as the bound says."""

import pytest

from lintra_audit.kinds.newton_step import LATER_CASE, NULL_CASE, START_CASE, cases, farthest, nearest
from lintra_audit.trials.simulated_release import exact_report

CASES = {case.name: case for case in cases()}


@pytest.mark.parametrize("name", [START_CASE, LATER_CASE, NULL_CASE])
def test_the_farthest_rows_reach_the_bound_and_the_nearest_are_alike(name: str) -> None:
    task = CASES[name].task
    measurement = task.measurement
    sigmas = measurement.layout.sigmas / measurement.mechanism.sigma
    first, second = (exact_report(measurement, row) / sigmas for row in farthest(task))
    apart = first - second if task.claim.neighbours == "replace-one" else first
    assert 0.97 * measurement.squared_distance <= float(apart @ apart) <= measurement.squared_distance
    one, other = (exact_report(measurement, row) for row in nearest(task))
    assert (one == other).all()
