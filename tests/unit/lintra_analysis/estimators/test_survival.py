"""Survival curves and the log-rank test: what is shown, and that the band is the simulated one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.estimators.survival import band_half_width, logrank, survival
from lintra_analysis.estimators.survival_cells import SurvivalCells
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import regression_rows, second_moment
from support.survival_releases import counted, lives, released

RATES = np.array([0.15, 0.25])
CELLS = counted(lives(8000, RATES, np.array([0.1, 0.1]), np.random.default_rng(1)), 20)
RELEASE = released(CELLS, 6.0, np.random.default_rng(2))


def test_a_curve_lies_near_the_law_of_its_rows_and_in_its_band() -> None:
    found = survival(RELEASE, "years", "died", "arm")
    for place, name in enumerate("AB"):
        one = found[name]
        assert_allclose(one.survival, np.exp(-RATES[place] * np.array(one.times)), atol=0.04)
        assert all(low <= value <= high for value, (low, high) in zip(one.survival, one.band, strict=True))
        assert list(one.survival) == sorted(one.survival, reverse=True)
        assert one.median == one.times[np.flatnonzero(np.array(one.survival) <= 0.5)[0]]
        assert one.at(one.times[3] + 0.1) == (one.survival[3], one.band[3])
        assert one.at(0.1) is None
        assert one.at(99.0) is None
    narrow = survival(RELEASE, "years", "died", "arm", of="cohort")["A"].band[9]
    wide = found["A"].band[9]
    assert narrow[1] - narrow[0] < wide[1] - wide[0]


def test_the_drawn_curve_is_the_running_minimum_and_the_raw_one_is_not_clipped() -> None:
    rare = counted(lives(8000, RATES / 100, np.array([0.1, 0.1]), np.random.default_rng(1)), 20)
    noisy = released(rare, 60.0, np.random.default_rng(4))
    one = survival(noisy, "years", "died").curves[0]
    raw = SurvivalCells.of(noisy, "years", "died", None).own.survival(len(one.times))[:, 0]
    assert_allclose(one.raw, raw)
    assert min(one.events) < 0
    assert np.any(np.diff(raw) > 0)
    assert_allclose(one.survival, np.clip(np.minimum.accumulate(raw), 0, 1))
    assert not survival(noisy, "years", "died").warnings
    loud = survival(released(rare, 130.0, np.random.default_rng(4)), "years", "died")
    assert "all rows: the curve ends at" in loud.warnings[0]


def test_half_a_band_is_what_a_share_of_whole_draws_stays_within() -> None:
    generator = np.random.default_rng(5)
    draws = np.cumsum(generator.normal(size=(4000, 8)), axis=1)
    half = band_half_width(draws, 0.9)
    inside = (np.abs(np.cumsum(generator.normal(size=(4000, 8)), axis=1)) <= half).all(axis=1)
    assert np.mean(inside) == pytest.approx(0.9, abs=0.02)
    pointwise = (np.abs(draws) <= 1.645 * draws.std(axis=0)).all(axis=1)
    assert np.mean(pointwise) < 0.85


def test_answers_are_tables_pictures_and_sentences() -> None:
    found = survival(RELEASE, "years", "died", "arm")
    assert found.to_csv().startswith("group,time,survival,lower,upper,raw,at_risk,events\nA,0.5,")
    assert "arm = B, years (years)" in found.summary()
    assert "are without the event after 10; the median is" in found.in_words()
    axes = found.plot()
    assert [line.get_label() for line in axes.lines] == [" A", " B"]
    assert_allclose(axes.lines[0].get_ydata(), [1, *found["A"].survival])
    assert axes.get_xlabel() == "years in years"
    test = logrank(RELEASE, "years", "died", "arm")
    assert test.p_value < 1e-6
    assert "The curves differ at 5 %" in test.in_words()
    assert test.groups[0].observed < test.groups[0].expected
    assert_allclose(sum(one.observed - one.expected for one in test.groups), 0, atol=1e-6)


def test_what_has_no_curve_is_refused_in_words() -> None:
    with pytest.raises(InvalidAnalysisError, match="there is no column 'C'"):
        survival(RELEASE, "years", "died", "arm")["C"]
    drowned = released(CELLS, 2000.0, np.random.default_rng(4))
    assert survival(drowned, "years", "died").curves[0].times == ()
    assert "nothing can be told" in survival(drowned, "years", "died").in_words()
    with pytest.raises(InvalidAnalysisError, match="noise hides how many are at risk where arm is A or B"):
        logrank(drowned, "years", "died", "arm")
    from lintra_analysis.releases.release import Release

    plain = Release(moments=second_moment(regression_rows(50, np.random.default_rng(1)), 1.0, np.random.default_rng(1)))
    with pytest.raises(InvalidAnalysisError, match="no combinations of columns"):
        survival(plain, "c0", "c1")
