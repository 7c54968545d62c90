"""Crossed cells: columns that are left out are added up, and what cells lack is spread over all that were released."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.releases.crossed_cells import CrossedCells
from lintra_analysis.releases.sampling import binomials, multinomials
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.errors import InvalidReleaseError
from support.survival_releases import NAMED

EDGES = (np.array([0.0, 1.0, 2.0, 4.0]), np.array([]), np.array([]))
COUNTS = np.arange(12.0).reshape(3, 2, 2)
CELLS = CrossedCells(NAMED, EDGES, ((), ("0", "1"), ("A", "B")), COUNTS, 4.0, 2.0, 96)
SEED = expand(bytes(32), "test")


def test_columns_in_another_order_have_the_same_cells_and_those_left_out_are_added_up() -> None:
    turned = CELLS.restrict(["arm", "years", "died"])
    assert_allclose(turned.counts, COUNTS.transpose(2, 0, 1))
    assert turned.merged == 1
    one = CELLS.restrict(["died"])
    assert_allclose(one.counts, COUNTS.sum(axis=(0, 2)))
    assert (one.merged, [column.name for column in one.columns]) == (6, ["died"])


def test_the_gap_to_the_number_of_rows_is_spread_over_released_cells_in_whatever_order_they_are_added() -> None:
    assert CELLS.cells.sum() == pytest.approx(96)
    assert_allclose(CELLS.cells, np.append(COUNTS.ravel(), 4.0) + (96 - 70) / 13)
    assert_allclose(CELLS.restrict(["died"]).cells[:-1], CELLS.cells[:-1].reshape(3, 2, 2).sum(axis=(0, 2)))
    assert_allclose(replace(CELLS, counted=True).cells, np.append(COUNTS.ravel(), 4.0))


def test_noise_has_the_law_of_added_cells_without_their_mean() -> None:
    drawn = CELLS.restrict(["died"]).noise(np.random.default_rng(1).normal(size=(20_000, 3)))
    assert_allclose(drawn.sum(axis=1), 0, atol=1e-9)
    assert_allclose(drawn.std(axis=0), 2 * np.sqrt([6 - 36 / 13, 6 - 36 / 13, 1 - 1 / 13]), rtol=0.03)
    counted = replace(CELLS, counted=True).noise(np.ones((1, 13)))
    assert_allclose(counted, 2.0)


def test_the_table_of_a_file_has_every_combination_and_missing_values_last() -> None:
    heading, lines = CELLS.table()
    assert heading == ["cell of years", "cell of died", "cell of arm", "rows"]
    assert lines[5].tolist() == [1, 0, 1, 5]
    assert lines[-1].tolist() == [-1, -1, -1, 4]
    with pytest.raises(InvalidReleaseError):
        replace(CELLS, counts=COUNTS[:2])


@pytest.mark.parametrize(("trials", "share"), [(1000.0, 0.3), (40_000.0, 1e-4), (5.0, 0.5), (40_000.0, 0.9999)])
def test_binomial_numbers_have_mean_and_variance_and_stay_in_range(trials: float, share: float) -> None:
    drawn = binomials(np.full(4000, trials), np.array(share), SEED)
    deviation = np.sqrt(trials * share * (1 - share))
    # Five errors: one in a million runs. A share that is a tenth larger is told.
    assert abs(drawn.mean() - trials * share) < 5 * deviation / np.sqrt(4000)
    assert drawn.std() == pytest.approx(deviation, rel=0.08)
    assert drawn.min() >= 0
    assert drawn.max() <= trials
    assert (drawn == np.rint(drawn)).all()


def test_multinomial_draws_add_up_and_spare_cells_without_a_share() -> None:
    drawn = multinomials(2000, 500.0, np.array([0.2, 0.0, 0.5, 0.3]), SEED)
    assert (drawn.sum(axis=1) == 500).all()
    assert (drawn[:, 1] == 0).all()
    assert np.corrcoef(drawn[:, 0], drawn[:, 2])[0, 1] == pytest.approx(-np.sqrt(0.2 * 0.5 / 0.8 / 0.5), abs=0.1)
