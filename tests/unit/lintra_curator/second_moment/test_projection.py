"""Second moments by projection."""

import numpy as np
import pytest

from lintra_curator.claims.claim import curator_claim
from lintra_curator.second_moment.bounded_table import BoundedTable, plain_columns
from lintra_curator.second_moment.calibration import projection_weight
from lintra_curator.second_moment.gaussian_noise import GaussianNoise
from lintra_curator.second_moment.projection import GaussianProjection, exact_ridge_intervals
from lintra_protocol.errors import InvalidAnalysisError
from support import source

NAMES = ("c0", "c1", "c2", "c3")
COLUMNS = plain_columns(NAMES, 2.0)
CLAIM = curator_claim(1.0, 1e-6)
ROWS = np.random.default_rng(1).normal(size=(80, 4))


def table(row_bound: float = 2.0, rows: int = 80) -> BoundedTable:
    return BoundedTable.of(ROWS[:rows], COLUMNS, row_bound)


def test_a_table_with_large_eigenvalues_gets_a_smaller_ridge_and_a_table_without_does_not() -> None:
    claim = curator_claim(1.0, 1e-3)
    large = BoundedTable.of(np.tile(2.0 * np.eye(4), (2000, 1)), COLUMNS, 2.0)
    full = 4 / projection_weight(claim, 30)
    rich = GaussianProjection(sketch_rows=30, adaptive=True).release(large, claim, source("rich"))
    poor = GaussianProjection(sketch_rows=30, adaptive=True).release(table(), claim, source("poor"))
    assert rich.noise.ridge == 0 < poor.noise.ridge
    assert rich.noise.look is not None
    assert rich.noise.look == pytest.approx(8000, abs=4 * 4 / (rich.noise.look_mu or 0))
    # The look itself costs, so without any gain the ridge is larger than without it.
    assert poor.noise.ridge > full


@pytest.mark.parametrize("bound", [0.1, 1.0, 7.0])
def test_what_common_rows_and_ridge_hold_together_is_never_below_the_plan_and_not_far_above_it(bound: float) -> None:
    # An attacker who knows all rows but one sees which it is if ridge and common rows fall short of the planned ridge.
    claim, copies = curator_claim(1.0, 1e-3), 400
    held = BoundedTable.of(np.tile(bound * np.eye(4), (copies, 1)), COLUMNS, bound)
    common = (copies - 1) * bound**2
    drawn = source(f"common rows {bound}")
    noises = [
        GaussianProjection(sketch_rows=30_000, adaptive=True).release(held, claim, drawn).noise for _ in range(40)
    ]
    for noise in noises:
        assert noise.weight is not None
        planned = bound**2 / noise.weight
        assert noise.ridge > 0
        # A look errs by more than its margin in one of ten thousand draws.
        assert planned <= noise.ridge + common < planned + 0.2 * common


def test_exact_intervals_are_refused_where_they_do_not_hold() -> None:
    with pytest.raises(InvalidAnalysisError, match="by projection"):
        exact_ridge_intervals(GaussianNoise().release(table(), CLAIM, source("g")), "c0", ["c1"])
    few_rows = GaussianProjection(sketch_rows=2).release(table(), CLAIM, source("p"))
    with pytest.raises(InvalidAnalysisError, match="need more than 2 rows"):
        exact_ridge_intervals(few_rows, "c0", ["c1", "c2"])
    with pytest.raises(InvalidAnalysisError, match="unknown columns"):
        exact_ridge_intervals(few_rows, "c0", ["age"])
