"""An inverse Wishart draw: the deviation that it states is the one that it has."""

import numpy as np
import pytest
from scipy import stats

from lintra_curator.claims.claim import curator_claim
from lintra_curator.second_moment.bounded_table import BoundedTable, plain_columns
from lintra_curator.second_moment.central_second_moment import CentralSecondMoment, NoiseRecord
from lintra_curator.second_moment.inverse_wishart import draw_inverse_wishart
from support import source

SIZE, DRAWS = 3, 40_000
RIDGE = 5.0
TABLE = BoundedTable.of(np.zeros((4, SIZE)), plain_columns(("a", "b", "c"), 2.0), 2.0)


def drawn(degrees: int, label: str) -> CentralSecondMoment:
    """Draw once of a table without data."""
    noise = NoiseRecord(
        "inverse-wishart", curator_claim(1.0, 1e-6), "exact", "continuous, floating point", sigma=1.0,
        num_columns=SIZE, degrees=float(degrees), ridge=RIDGE,
    )  # fmt: skip
    return draw_inverse_wishart(TABLE, np.zeros((SIZE, SIZE)), noise, source(label))


def simulated(degrees: int) -> float:
    """Return the deviation off the diagonal of (nu - d - 1) X by another implementation."""
    generator = np.random.default_rng(degrees)
    law = stats.invwishart(df=degrees, scale=RIDGE * np.eye(SIZE), seed=generator)
    first, second = np.triu_indices(SIZE, 1)
    return float((degrees - SIZE - 1) * law.rvs(DRAWS)[:, first, second].std())


@pytest.mark.parametrize("degrees", [16, 20, 40])
def test_the_inverse_wishart_deviation_equals_simulation(degrees: int) -> None:
    # Three numbers of 40,000 draws: deviations of less than 1 %, false alarms in one of a million seeds.
    found = drawn(degrees, "stated").noise.sigma
    assert found == pytest.approx(simulated(degrees), rel=0.03)
    # One degree less or more would be seen where there are few.
    if degrees == 16:
        assert found != pytest.approx(simulated(degrees - 1), rel=0.03)
        assert found != pytest.approx(simulated(degrees + 1), rel=0.03)


def test_what_is_drawn_has_the_deviation_that_is_stated() -> None:
    first, second = np.triu_indices(SIZE, 1)
    values = np.array([drawn(16, f"draw {number}").values[first, second] for number in range(800)])
    # 5 deviations of the deviation of 2,400 numbers.
    assert values.std() == pytest.approx(drawn(16, "stated").noise.sigma, rel=0.12)
    assert values.std() != pytest.approx(1.3 * drawn(16, "stated").noise.sigma, rel=0.12)
