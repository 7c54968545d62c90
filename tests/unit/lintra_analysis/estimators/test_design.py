"""The interval of r2 where an effect is about as large as its noise, which may hide it by chance."""

import numpy as np
import pytest

from lintra_analysis.estimators.design import design
from lintra_analysis.estimators.regression import regression
from lintra_analysis.estimators.solve import solve
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.gram_error import GramEstimate
from lintra_analysis.releases.noise_laws.symmetric_noise import SymmetricNoise
from lintra_analysis.releases.row_count import RowCount
from lintra_protocol.errors import InvalidAnalysisError

SIGMA, CLIENTS, DRAWS, REACH = 8.0, 4000, 200, 1.959964
SQUARES = 600.0


def released(effect: float, generator: np.random.Generator) -> GramEstimate:
    """Release one feature and a target whose slope is `effect` deviations of its noise, with an exact count."""
    slope = effect * SIGMA / SQUARES
    gram = np.diag([CLIENTS, SQUARES, SQUARES * (1 + slope**2)])
    gram[1, 2] = gram[2, 1] = slope * SQUARES
    noise = SIGMA * generator.normal(size=(3, 3))
    noise = (noise + noise.T) / np.sqrt(2)
    noise[0, 0] = 0.0
    columns = (ScaledColumn("(intercept)", 0, 1, 1, 1), ScaledColumn("x", 0, 1, -9, 9), ScaledColumn("y", 0, 1, -9, 9))
    return GramEstimate(columns, gram + noise, SymmetricNoise(SIGMA, exact=0), CLIENTS, 2.0)


@pytest.mark.parametrize("effect", [1.0, 2.0])
def test_r2_of_a_small_effect_is_covered_also_when_noise_hides_it(effect: float) -> None:
    # At .95 fewer than 180 of 200 have probability .001 each; the error at the estimate alone covers .85 at 2.
    generator = np.random.default_rng(7)
    slope = effect * SIGMA / SQUARES
    true, covered, narrow = slope**2 / (1 + slope**2), 0, 0
    for _ in range(DRAWS):
        fit = solve(design(released(effect, generator), "y"), repaired=False)
        interval = fit.r2_interval(REACH)
        assert interval is not None
        assert fit.r2 is not None
        covered += interval[0] <= true <= interval[1]
        narrow += abs(fit.r2 - true) <= REACH * fit.linear
    assert covered >= 0.9 * DRAWS
    if effect == 2.0:
        assert narrow < 0.9 * DRAWS


def test_the_report_has_the_interval_of_the_fit() -> None:
    release = released(2.0, np.random.default_rng(3))
    fit = solve(design(release, "y"), repaired=False)
    estimate = regression(release, "y")
    assert estimate.r2_interval == pytest.approx(fit.r2_interval(REACH), rel=1e-5)
    assert estimate.r2_standard_error == pytest.approx(fit.r2_sd)


def test_where_noise_hides_how_many_rows_there_are_the_refusal_says_so_and_not_that_clients_are_few() -> None:
    columns = tuple(ScaledColumn(name, 0.0, 1.0, -1.0, 1.0) for name in "aby")
    for estimate, clients, words in ((-40.0, 500, "count is -40 .deviation 90. of 500 reports"), (2.0, 2, "2 clients")):
        counted = RowCount(estimate, 90.0, clients)
        gram = GramEstimate(columns, np.eye(3) * 500, SymmetricNoise(1.0), clients, 2.0, counted)
        with pytest.raises(InvalidAnalysisError, match=words):
            design(gram, "y")
    few = GramEstimate(columns, np.eye(3) * 500, SymmetricNoise(1.0), 2, 2.0)
    with pytest.raises(InvalidAnalysisError, match="need more than 2 clients"):
        design(few, "y")
