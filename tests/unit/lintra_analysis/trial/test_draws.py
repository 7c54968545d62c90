"""Many releases of one table at once: the quick rule decides as the full search does."""

import numpy as np
import pytest

from lintra_analysis.trial.draws import Draws, usual_draws
from support.tried_rows import exact_of, rows_of


@pytest.mark.slow
def test_the_quick_rule_and_the_full_search_agree_in_99_of_100_decisions() -> None:
    agreed = []
    for seed in range(6):
        rows = rows_of(20 + seed, 6, near=(1.0, 0.2)[seed % 2])
        exact = exact_of(rows, (60.0, 150.0, 300.0)[seed % 3])
        draws = Draws.of(exact, "y", [f"x{number}" for number in range(6)], 60)
        (part,) = draws.statements(np.arange(6))
        assert part.statements is not None
        searched = (part.statements.at(np.zeros(part.statements.values.size)) > 3.8414588).reshape(-1, 6)
        whole = (searched & part.bounded[part.places][:, np.newaxis]).sum(axis=0)
        agreed.append(float(np.abs(part.excludes_zero() - whole).sum()) / 360)
    assert np.mean(agreed) <= 0.01


def test_wide_tables_have_fewer_draws() -> None:
    assert [usual_draws(columns) for columns in (24, 25, 64, 65, 400)] == [200, 50, 50, 20, 20]
