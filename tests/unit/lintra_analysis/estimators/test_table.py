"""Tables of estimates: digits that errors leave, and CSV that reads back as the same numbers."""

import csv
import io

import numpy as np

from lintra_analysis.estimators.means import means
from lintra_analysis.estimators.pca import pca
from support.made_releases import mixed_columns, regression_rows, second_moment, total, with_constant

ROWS, NAMED = with_constant(regression_rows(600, np.random.default_rng(1)), mixed_columns())
RELEASE = second_moment(ROWS, 3.0, np.random.default_rng(2), NAMED)


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_components_and_means_are_written_with_every_number() -> None:
    directions = pca(RELEASE, 2, about="centers", of="cohort")
    assert directions.simultaneous is not None
    for i, line in enumerate(read(directions.to_csv())):
        assert float(line["variance"]) == directions.explained_variance[i].value
        assert float(line["simultaneous_upper"]) == directions.simultaneous[i][1]
        assert [float(line[name]) for name in directions.columns] == directions.components[i].tolist()
    assert "component 2" in directions.summary()

    whole = means(RELEASE, of="cohort")
    assert whole.means is not None
    assert whole.mean_squares is not None
    line = next(line for line in read(whole.to_csv()) if line["name"] == "c1")
    position = whole.columns.index("c1")
    assert float(line["mean"]) == whole.means[position].value
    assert float(line["mean_square"]) == whole.mean_squares[position].value
    for heading in ("mean", "root mean square"):
        assert any(row.lstrip().startswith(heading) for row in whole.summary().splitlines())


def test_what_a_sum_does_not_hold_is_empty_in_csv_and_absent_in_the_text() -> None:
    estimate = means(total(ROWS[:, 1:], 1.0, np.random.default_rng(3), NAMED[1:]))
    assert {line["root_mean_square"] for line in read(estimate.to_csv())} == {""}
    assert "root mean square" not in estimate.summary()
