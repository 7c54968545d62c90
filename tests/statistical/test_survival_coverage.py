"""Bands of survival curves hold the whole curve as often as they say.

Seeds are fixed. 400 draws: were they drawn anew, a band that holds in .95 of them would hold in fewer than .91 or more
than .99 in less than 1 in 1,000 cases.
"""

import numpy as np
import pytest

from lintra_analysis.estimators.survival import survival
from lintra_analysis.estimators.survival_cells import LifeTables
from lintra_protocol.crypto.ring import FloatArray
from support.survival_releases import counted, lives, released

pytestmark = pytest.mark.slow

DRAWS = 400
# Epsilon 1 at delta 1e-6 is mu = 0.2367; a row lies at distance sqrt(2) from another.
NOISE = float(np.sqrt(2) / 0.236704380663)
SEVERAL = {
    "half of the rows have the event": ([0.15, 0.15], [0.1, 0.1], 8000, 20),
    "2 in 100 have it": ([0.002, 0.002], [0.05, 0.05], 8000, 20),
    "most are censored": ([0.1, 0.2], [0.5, 0.5], 8000, 20),
    "censoring differs, 60 bins": ([0.15, 0.15], [0.05, 0.3], 40_000, 60),
}


def clipped(cells: FloatArray, told: int) -> FloatArray:
    """Return the curve of noisy cells whose numbers below 0 were made 0, the rule that is not used."""
    return LifeTables.of(np.maximum(cells, 0), cells.shape[0] - 1).survival(told)[:, 0]


@pytest.mark.parametrize("case", SEVERAL)
def test_a_cohorts_band_holds_its_curve_and_that_about_clipped_cells_would_not(case: str) -> None:
    rates, censoring, count, bins = SEVERAL[case]
    generator = np.random.default_rng(71)
    cells = counted(lives(count, np.array(rates), np.array(censoring), generator), bins)
    truth = LifeTables.of(cells, bins)
    right, wrong = [], []
    for _ in range(DRAWS):
        release = released(cells, NOISE, generator)
        one = survival(release, "years", "died", "arm", of="cohort").curves[0]
        assert one.times
        own = truth.survival(len(one.times))[:, 0]
        low, high = np.array(one.band).T
        right.append(bool(((low <= own + 1e-12) & (own <= high + 1e-12)).all()))
        assert release.crossed is not None
        moved = clipped(release.crossed.counts, len(one.times)) - np.array(one.raw)
        wrong.append(bool(((low + moved <= own) & (own <= high + moved)).all()))
    assert 0.91 <= np.mean(right) <= 0.99, np.mean(right)
    if case == "2 in 100 have it":
        assert np.mean(wrong) < 0.8
