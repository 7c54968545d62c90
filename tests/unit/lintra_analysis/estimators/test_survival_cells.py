"""Life tables: the actuarial formulas by hand, Kaplan and Meier's curve in the limit, and laws of the draws."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.estimators.survival_cells import LifeTables, SurvivalCells
from lintra_protocol.errors import InvalidAnalysisError
from support.survival_releases import END, counted, lives, released

ALIKE = np.array([0.15, 0.15])
LIVED = lives(6000, ALIKE, np.array([0.1, 0.2]), np.random.default_rng(1))


def test_a_small_table_is_that_of_the_actuary() -> None:
    cells = np.array([[[2.0], [10.0]], [[4.0], [20.0]], [[30.0], [1.0]]])  # the last one lies beyond the end
    table = LifeTables.of(cells, 2)
    assert table.at_start.ravel().tolist() == [67, 55]
    assert table.exposed.ravel().tolist() == [66, 53]
    assert_allclose(table.survival(2).ravel(), [56 / 66, 56 / 66 * 33 / 53])


def test_fine_bins_have_the_curve_of_kaplan_and_meier_and_the_test_of_mantel() -> None:
    times, events, arms = LIVED
    table = LifeTables.of(counted(LIVED, 2000), 2000)
    order = np.argsort(times)
    for arm in (0, 1):
        own = order[arms[order] == arm]
        left = np.arange(own.size, 0, -1)
        curve = np.cumprod(1 - events[own] / left)
        last = np.searchsorted(times[own], END) - 1
        assert table.survival(2000)[-1, arm] == pytest.approx(curve[last], abs=2e-3)
    inside = order[times[order] < END]
    both = np.array([np.sum(times >= times[i]) for i in inside])
    first = np.array([np.sum((times >= times[i]) & (arms == 0)) for i in inside])
    expected = np.sum(events[inside] * ((arms[inside] == 0) - first / both))
    assert table.excess(2000)[0] == pytest.approx(expected, abs=0.5)
    assert table.excess(2000).sum() == pytest.approx(0, abs=1e-6)


def test_a_curve_ends_where_noise_hides_how_many_are_at_risk() -> None:
    cells = counted(LIVED, 20)
    quiet, loud, drowned = (
        SurvivalCells.of(released(cells, sd, np.random.default_rng(2)), "years", "died", "arm")
        for sd in (0.1, 20.0, 1000.0)
    )
    assert quiet.told == (20, 20)
    assert 5 < min(loud.told) < 20
    assert drowned.told == (0, 0)
    place = loud.told[1]
    least = 6 * 20 * np.sqrt(2 * (21 - place))
    assert loud.own.at_start[place, 1] < least
    assert loud.own.at_start[place - 1, 1] > 6 * 20 * np.sqrt(2 * (22 - place))


def test_draws_have_the_deviation_of_noise_and_the_same_release_has_the_same_ones() -> None:
    release = released(counted(LIVED, 20), 6.0, np.random.default_rng(2))
    cells = SurvivalCells.of(release, "years", "died", None)
    drawn, centre = cells.draws(False, "a")
    # Both arms are added up, and what cells lack of the number of rows is spread over the 85 released ones.
    expected = 6 * np.sqrt(2 * (1 - 2 / 85))
    assert np.std(drawn.events - centre.events) == pytest.approx(expected, rel=0.05)
    again, _ = cells.draws(False, "a")
    other, _ = cells.draws(False, "b")
    assert (again.events == drawn.events).all()
    assert (other.events != drawn.events).all()
    rows, middle = cells.draws(True, "a")
    share = middle.events[0, 0] / 6000
    variance = 6000 * share * (1 - share) + expected**2
    assert np.var(rows.events[:, 0, 0]) == pytest.approx(variance, rel=0.3)


def test_columns_that_do_not_fit_their_part_are_refused_in_words() -> None:
    release = released(counted(LIVED, 20), 6.0, np.random.default_rng(2))
    for names, said in (
        (("died", "arm", None), "a duration is a number"),
        (("years", "arm", None), "an event is a boolean"),
        (("years", "died", "years"), "named once"),
        (("months", "died", None), "unknown columns: months"),
    ):
        with pytest.raises(InvalidAnalysisError, match=said):
            SurvivalCells.of(release, *names)
