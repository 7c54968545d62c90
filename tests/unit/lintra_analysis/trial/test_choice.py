"""Few columns that predict better than all."""

import numpy as np

from lintra_analysis.trial.choice import chosen_few
from lintra_analysis.trial.draws import Draws
from support.tried_rows import ROWS, beside, exact_of


def test_few_columns_are_chosen_where_all_of_them_drown_and_none_where_all_are_told() -> None:
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(ROWS, 31))
    rows[:, -1] = 2 * rows[:, 3] - rows[:, 8] + rng.normal(size=ROWS)
    for sigma, expected in ((1500.0, {"x3", "x8"}), (5.0, None)):
        exact = exact_of(rows, sigma)
        names = [f"x{number}" for number in range(30)]
        draws = Draws.of(exact, "y", names, 40)
        own = beside(rows, exact)
        found = chosen_few(draws, own, names, float(np.median(own.r2_of(draws.points()))))
        assert (None if found is None else set(found.columns) <= expected | {"x3"}) == (
            None if expected is None else True
        )
        if found is not None:
            assert found.columns[0] == "x3"
            assert found.r2 > found.all_r2
