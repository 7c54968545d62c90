"""Instruments and differences of groups cover as often as they say, and wrong laws do not.

Seeds are fixed. 400 draws: were they drawn anew, a test of size .05 would reject in fewer than .02 or more than .08 of
them in less than 1 in 100 cases; of 200 intervals that hold in .95, fewer than .91 or more than .985 hold as rarely.
"""

import numpy as np
import pytest
from scipy import special

from lintra_analysis.estimators.group_difference import difference
from lintra_analysis.estimators.instruments import iv
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_analysis.releases.weighted_rows import WeightedRows
from support.made_releases import symmetric_noise, with_intercept

pytestmark = pytest.mark.slow

DRAWS, GROUPED_DRAWS = 400, 200
SIGMA = 60.0
NAMED = tuple(ScaledColumn(name, 0, 1, -9, 9) for name in ("ex", "w1", "w2", "w3", "x", "y"))


def test_three_instruments_reject_a_slope_of_0_as_often_as_stated_and_one_degree_of_freedom_far_more_often() -> None:
    generator = np.random.default_rng(61)
    right, wrong = [], []
    for _ in range(DRAWS):
        shared, exogenous = generator.normal(size=(2, 4000))
        instruments = generator.normal(size=(4000, 3))
        endogenous = instruments @ [0.3, 0.2, 0.1] + 0.3 * exogenous + shared + generator.normal(size=4000)
        target = 0.2 - 0.4 * exogenous + 1.5 * shared + generator.normal(size=4000)
        rows = np.column_stack([exogenous, instruments, endogenous, target])
        found = iv(with_intercept(rows, SIGMA, generator, NAMED), "y", "x", ["w1", "w2", "w3"], "ex")
        p_value = found.pvalues["x"]
        assert p_value is not None
        right.append(p_value < 0.05)
        wrong.append(special.chdtri(3, p_value) > special.chdtri(1, 0.05))
    assert 0.02 <= np.mean(right) <= 0.07
    assert np.mean(wrong) > 0.15


def grouped(generator: np.random.Generator, constant: float, *, weighted: bool) -> SecondMomentSum:
    """Release 4,000 rows of a group of 30 %, another column and a target .4 higher in the group."""
    count = 4000
    group = (generator.random(count) < 0.3).astype(float)
    rows = np.column_stack([group, generator.normal(size=count), 0.4 * group + generator.normal(size=count)])
    named = (ScaledColumn("group", 0, 1, 0, 1, "", "boolean"), *NAMED[4:])
    if not weighted:
        return with_intercept(rows, SIGMA, generator, named, constant)
    whole = np.column_stack([np.full(count, constant), rows])
    share = np.minimum(1, 1.8 / np.linalg.norm(whole[:, :-1], axis=1))
    whole *= share[:, np.newaxis]
    noise = symmetric_noise(4, SIGMA, generator)
    noise -= np.trace(noise) / 4 * (1 - 1 / np.sqrt(5)) * np.eye(4)
    weights = WeightedRows("features", "y", -9, 9, float(np.mean(share**2)), 0.01)
    held = (ScaledColumn("(intercept)", 0.0, 1 / constant, 1.0, 1.0), *named)
    return SecondMomentSum(held, whole.T @ whole + noise, SIGMA, count, 10.0, 4, weighted=weights)


@pytest.mark.parametrize(("constant", "weighted"), [(2.0, False), (0.7, True)])
def test_a_difference_and_its_means_cover_whatever_the_constant_and_the_weights(
    constant: float, weighted: bool
) -> None:
    generator = np.random.default_rng(62)
    truth = {"group = 1": 0.4, "mean of group = 0": 0.0, "mean of group = 1": 0.4}
    covers, shifted = [], []
    for _ in range(GROUPED_DRAWS):
        found = difference(grouped(generator, constant, weighted=weighted), "y", "group")
        assert found.conf_int().keys() == truth.keys()
        ends = np.array([found.conf_int()[name] for name in truth])
        values = np.array(list(truth.values()))
        covers.append((ends[:, 0] <= values) & (values <= ends[:, 1]))
        shifted.append((ends[:, 0] <= values + 0.1) & (values + 0.1 <= ends[:, 1]))
    each = np.mean(covers, axis=0)
    # Rows of less weight have a smaller score than one residual variance says, so intervals are a little too wide.
    assert (each >= 0.91).all(), each
    assert (each <= (1.0 if weighted else 0.985)).all(), each
    assert (np.mean(shifted, axis=0) < each - 0.05).all()
    assert ("weighted difference" in found.table().title.lower()) == weighted
