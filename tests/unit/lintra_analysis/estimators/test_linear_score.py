"""A linear score: it ranks as least squares does, states no probability, and what it states of itself holds."""

from dataclasses import replace

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from lintra_analysis.estimators.linear_score import linear_score
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import columns, second_moment, with_constant

ILL = ScaledColumn("ill", 0.5, 0.5, 0.0, 1.0, kind="boolean")
NAMED = (*columns(3), ILL)


def people(count: int = 4000, seed: int = 1) -> tuple[FloatArray, FloatArray]:
    """Return features, and who is ill: normal classes with equal spread, which separate by 1.5 deviations."""
    generator = np.random.default_rng(seed)
    ill = generator.random(count) < 0.3
    features = 0.2 * generator.normal(size=(count, 3))
    features[:, 0] += 0.3 * ill
    return features, ill.astype(np.float64)


def release(sigma: float, seed: int = 1) -> SecondMomentSum:
    features, ill = people()
    rows, named = with_constant(np.column_stack([features, (ill - 0.5) / 0.5]), NAMED)
    return second_moment(rows, sigma, np.random.default_rng(seed), named)


def counted_auc(scores: FloatArray, ill: FloatArray) -> float:
    found = stats.mannwhitneyu(scores[ill == 1], scores[ill == 0])
    return float(found.statistic / (ill.sum() * (1 - ill).sum()))


def test_without_noise_the_score_separates_as_fishers_line_does_and_says_how_well() -> None:
    features, ill = people()
    found = linear_score(release(0.0), "ill")
    within = sum(np.cov(features[ill == one].T, bias=True) * np.mean(ill == one) for one in (0, 1))
    fisher = np.linalg.solve(within, features[ill == 1].mean(axis=0) - features[ill == 0].mean(axis=0))
    assert_allclose([one.value for one in found.weights], fisher / np.linalg.norm(fisher), rtol=1e-9)
    scores = found.score(features)
    spread = np.sqrt(sum(scores[ill == one].var() * np.mean(ill == one) for one in (0, 1)))
    apart = (scores[ill == 1].mean() - scores[ill == 0].mean()) / spread
    assert found.share == pytest.approx(ill.mean())
    assert found.separation == pytest.approx(apart)
    # These classes are normal with equal spread, so the AUC is what is stated, but for 4,000 people's own chance.
    assert found.auc_if_normal == pytest.approx(counted_auc(scores, ill), abs=0.01)
    # D^2 / (D^2 + 1 / .3) is .4 here, which says nothing.
    assert found.auc_at_least is None


@pytest.mark.parametrize(("draws", "least"), [(24, 21), pytest.param(400, 372, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_the_separation_is_in_its_interval_as_often_as_it_says(draws: int, least: int) -> None:
    # At a coverage of .95 fewer are held with a chance of 3 %, of 24 as of 400. Intervals of half the width, which
    # cover .67, would pass with a chance of 3 %, and of less than 1e-9.
    true = linear_score(release(0.0), "ill", ["c0"])
    held = half = 0
    for seed in range(draws):
        found = linear_score(release(8.0, seed), "ill", ["c0"], of="cohort")
        assert found.separation_interval is not None
        assert true.separation is not None
        low, high = found.separation_interval
        held += low <= true.separation <= high
        half += (3 * low + high) / 4 <= true.separation <= (low + 3 * high) / 4
    assert held >= least
    assert half < least


@pytest.mark.parametrize("law", ["heavy", "opposite spreads", "two lumps"])
def test_the_auc_is_at_least_what_is_said_whatever_the_law_of_the_scores(law: str) -> None:
    generator = np.random.default_rng(7)
    ill = generator.random(3000) < 0.5
    if law == "heavy":
        drawn = 0.02 * generator.standard_t(2.5, size=3000)
    elif law == "opposite spreads":
        drawn = np.where(ill, 0.2, 0.01) * generator.normal(size=3000)
    else:
        drawn = np.where(generator.random(3000) < 0.1, -0.6, 0.05) * ill
    feature = np.clip(drawn + 0.35 * ill, -1, 1)[:, np.newaxis]
    rows, named = with_constant(np.column_stack([feature, (ill - 0.5) / 0.5]), (columns(1)[0], ILL))
    found = linear_score(second_moment(rows, 0.0, generator, named), "ill")
    assert found.auc_at_least is not None
    assert 0.5 < found.auc_at_least <= counted_auc(found.score(feature), ill.astype(np.float64))


def test_rows_are_scored_by_name_in_their_own_units_and_nothing_is_called_a_probability() -> None:
    moved = tuple(replace(one, center=3.0, scale=2.0, lower=1.0, upper=5.0) for one in columns(3))
    features, ill = people()
    rows, named = with_constant(np.column_stack([features, (ill - 0.5) / 0.5]), (*moved, ILL))
    found = linear_score(second_moment(rows, 0.0, np.random.default_rng(0), named), "ill ~ c2 + c0")
    plain = linear_score(release(0.0), "ill", ["c2", "c0"])
    frame = pandas.DataFrame(features * 2 + 3, columns=["c0", "c1", "c2"])
    assert_allclose(found.score(frame), plain.score(features[:, [2, 0]]), atol=1e-12)
    assert not {"predict", "predict_proba", "odds_ratios", "bse"} & set(dir(found))
    assert "no odds ratios and no probabilities" in " ".join(found.summary().split())
    assert found.to_csv().splitlines()[0] == "name,weight,p_value"
    assert list(found.to_frame().index) == ["c2", "c0"]
    assert found.pvalues["c0"] is not None


def test_in_much_noise_what_cannot_be_told_is_none() -> None:
    found = linear_score(release(400.0), "ill", ["c0"])
    assert found.r2 is None
    assert (found.separation, found.auc_if_normal, found.auc_at_least) == (None, None, None)
    assert "not told" in found.summary()
    assert any("cannot be told" in warning for warning in found.warnings)


def test_a_constant_that_noise_has_swallowed_is_said() -> None:
    found = linear_score(release(4000.0), "ill", ["c0"])
    assert found.share is None
    assert any("noise has swallowed the constant column" in warning for warning in found.warnings)


def test_without_a_constant_column_nothing_is_said_of_the_classes() -> None:
    features, ill = people()
    bare = second_moment(np.column_stack([features, (ill - 0.5) / 0.5]), 0.0, np.random.default_rng(0), NAMED)
    found = linear_score(bare, "ill")
    assert (found.share, found.separation) == (None, None)
    assert any("plan the next task with an intercept" in warning for warning in found.warnings)


def test_a_target_that_is_no_boolean_is_refused_with_what_would_be_right() -> None:
    with pytest.raises(InvalidAnalysisError, match="'c1' is a number between -9 and 9; ask for its regression"):
        linear_score(release(0.0), "c1")
