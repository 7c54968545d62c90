"""Tables of estimates: digits that errors leave, and CSV that reads back as the same numbers."""

import csv
import io

import numpy as np
import pytest

from lintra_analysis.estimators.low_rank import low_rank
from lintra_analysis.estimators.moments import moments
from lintra_analysis.estimators.regression import regression
from lintra_analysis.estimators.ridge import ridge
from lintra_analysis.estimators.tables import digits_beside, number
from support.made_releases import mixed_columns, regression_rows, second_moment, total, with_constant

ROWS, NAMED = with_constant(regression_rows(600, np.random.default_rng(1)), mixed_columns())
RELEASE = second_moment(ROWS, 3.0, np.random.default_rng(2), NAMED)


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [
        (2022.014504, 0.00602, "2022.0145"),
        (-0.00413261, 0.0003248, "-0.004133"),
        (786.5295, 41389.0, "786.5"),
        (1.0, 0.0, "1"),
        (0.0, 0.1, "0"),
        (1.0, float("nan"), "1"),
        (123456789.0, 1e-30, "123456789"),
    ],
)
def test_a_number_is_shown_with_two_digits_of_its_error(value: float, error: float, shown: str) -> None:
    assert number(value, digits_beside(value, error)) == shown


def test_a_ridge_is_written_like_a_regression_under_the_same_penalty() -> None:
    plain, full = ridge(RELEASE, "c4", regularization=2.0), regression(RELEASE, "c4", regularization=2.0)
    assert plain.to_csv() == full.to_csv()
    table = plain.summary("epsilon 1").splitlines()
    assert next(line for line in full.summary().splitlines() if line.startswith("c2")) in table
    assert "Privacy: epsilon 1" in table


def test_directions_and_moments_are_written_with_every_number() -> None:
    directions = low_rank(RELEASE, 2)
    lines = read(directions.to_csv())
    for i, line in enumerate(lines):
        assert float(line["eigenvalue"]) == directions.eigenvalues[i].value
        assert [float(line[name]) for name in directions.columns] == directions.components[:, i].tolist()
    assert "component 2" in directions.summary()

    whole = moments(RELEASE)
    assert whole.means is not None
    assert whole.correlations is not None
    line = next(line for line in read(whole.to_csv()) if line["name"] == "c1")
    position = whole.columns.index("c1")
    pair = whole.correlations[position][whole.columns.index("c3")]
    assert pair is not None
    assert float(line["mean"]) == whole.means[position].value
    assert float(line["correlation c3"]) == pair.value
    for heading in ("mean", "root mean square", "correlation"):
        assert any(row.lstrip().startswith(heading) for row in whole.summary().splitlines())


def test_what_a_sum_does_not_hold_is_empty_in_csv_and_absent_in_the_text() -> None:
    estimate = moments(total(ROWS[:, 1:], 1.0, np.random.default_rng(3), NAMED[1:]))
    assert {line["rms"] for line in read(estimate.to_csv())} == {""}
    assert "root mean square" not in estimate.summary()
