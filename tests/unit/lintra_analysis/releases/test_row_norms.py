"""How long mapped rows are."""

from math import sqrt

import numpy as np
import pytest
from scipy import stats

from lintra_analysis.releases.row_norms import NormLaw, beta_quantile, projected_bound
from lintra_protocol.fields.schema import Column

REAL = Column(name="real", lower="0", upper="10", center="5", scale="5")


@pytest.mark.parametrize(
    ("features", "dimension", "share", "bound"),
    [
        (64, 10, 0.05, 0.520932991427),
        (200, 10, 0.05, 0.300122571947),
        (784, 10, 0.05, 0.152501108515),
        (30, 5, 0.01, 0.659806433706),
    ],
)
def test_known_bounds_of_projected_rows(features: int, dimension: int, share: float, bound: float) -> None:
    assert sqrt(beta_quantile(1 - share, dimension / 2, (features - dimension) / 2)) == pytest.approx(bound, rel=1e-11)
    if share == 0.05:
        assert projected_bound(3.0, features, dimension) == pytest.approx(3 * bound, rel=1e-11)
    assert projected_bound(3.0, features, features) == 3.0


@pytest.mark.parametrize("parameters", [(0.5, 0.5), (0.5, 30), (1, 1), (5, 27), (232, 160), (5, 50_000), (250, 5e5)])
@pytest.mark.parametrize("probability", [1e-6, 0.05, 0.5, 0.95, 1 - 1e-6])
def test_beta_quantiles_agree_with_scipy(parameters: tuple[float, float], probability: float) -> None:
    expected = float(stats.beta.ppf(probability, *parameters))
    assert beta_quantile(probability, *parameters) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("arguments", [(0.0, 1, 1), (1.0, 1, 1), (0.5, 0, 1), (0.5, 1, -1), (float("nan"), 1, 1)])
def test_beta_quantiles_out_of_range_are_refused(arguments: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="no beta quantile"):
        beta_quantile(*arguments)


def law(*columns: Column) -> NormLaw:
    return NormLaw.of_columns(columns)


MONTH = Column(name="month", lower="0", upper="11", kind="category", levels=tuple(f"m{k}" for k in range(12)))
WEATHER = (MONTH, *(REAL.model_copy(update={"name": f"x{number}"}) for number in range(5)))


def test_where_rows_are_projected_the_frame_decides_which_are_clipped() -> None:
    rng, found = np.random.default_rng(4), law(*WEATHER)
    squares = found.certain + np.square(rng.uniform(-1, 1, (20_000, 5))).sum(axis=1)
    kept = rng.beta(2, (found.largest - 4) / 2, 20_000)
    for bound in (1.5, 2.0, projected_bound(found.planned**0.5, found.largest, 4)):
        assert found.clipped_share(bound, 4) == pytest.approx(float((squares * kept > bound**2).mean()), abs=0.015)
