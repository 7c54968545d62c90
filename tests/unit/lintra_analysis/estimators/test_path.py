"""The ridge path: every point is the regression at that penalty, and costs are those of the solutions."""

import csv
import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.estimators.design import design
from lintra_analysis.estimators.path import regression_path
from lintra_analysis.estimators.point import Point
from lintra_analysis.estimators.regression import regression
from lintra_analysis.estimators.solve import solve
from lintra_analysis.releases.noise_laws.symmetric_noise import SymmetricNoise
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import (
    columns,
    mixed_columns,
    regression_rows,
    second_moment,
    sketch,
    symmetric_noise,
    with_constant,
)

ROWS = regression_rows(600, np.random.default_rng(1))


def test_every_point_of_a_path_is_the_regression_at_its_penalty() -> None:
    rows, named = with_constant(ROWS, mixed_columns())
    release = second_moment(rows, 3.0, np.random.default_rng(2), named)
    path = regression_path(release, "c4", ["c3", "c1"], [50.0, 0.0, 5.0])
    assert path.regularizations.tolist() == [0.0, 5.0, 50.0]
    assert path.standard_errors is not None
    for i, penalty in enumerate(path.regularizations):
        single = regression(release, "c4", ["c3", "c1"], float(penalty))
        assert_allclose(path.coefficients[i], single.coef_)
        assert path.intercepts[i] == pytest.approx(single.intercept_)
        errors = [c.standard_error.total for c in single.coefficients if c.standard_error is not None]
        assert_allclose(path.standard_errors[i], errors)
        assert_allclose(path.predict(ROWS[:, :2], i), single.predict(ROWS[:, :2]))


def test_without_noise_the_cost_is_the_sum_of_squared_residuals_and_no_penalty_is_best() -> None:
    path = regression_path(second_moment(ROWS, 0.0, np.random.default_rng(0)), "c4")
    residuals = ROWS[:, [4]] - ROWS[:, :4] @ path.coefficients.T
    assert_allclose(path.costs, (residuals**2).sum(axis=0), rtol=1e-10)
    assert path.best == 0
    assert path.regularizations.size == 25
    assert path.best_regularization == path.regularizations[0]


def test_the_default_penalties_reach_from_noise_to_the_largest_eigenvalue() -> None:
    path = regression_path(second_moment(ROWS, 3.0, np.random.default_rng(0)), "c4")
    assert (np.diff(path.regularizations) > 0).all()
    assert path.regularizations[0] < path.floor < path.regularizations[-1]
    assert (np.abs(path.coefficients[-1]) < np.abs(path.coefficients[0])).all()


def test_a_path_over_a_floored_release_says_that_its_choice_is_a_hint() -> None:
    release = replace(second_moment(ROWS, 2000.0, np.random.default_rng(0)), gaussian=False)
    path = regression_path(release, "c4", None, [1.0, 10.0])
    assert path.regularised
    assert any("hint" in warning for warning in path.warnings)
    drowned = regression_path(sketch(ROWS, 60, 500.0, np.random.default_rng(0)), "c4", None, [1.0, 10.0])
    assert drowned.standard_errors is None


def test_costs_are_those_of_fits_to_noise_drawn_again_around_the_clipped_release() -> None:
    release = second_moment(ROWS, 300.0, np.random.default_rng(0)).second_moment()
    values, vectors = np.linalg.eigh(release.matrix)
    assert values[0] < 0
    truth = (vectors * np.maximum(values, 0)) @ vectors.T
    generator, penalties = np.random.default_rng(8), [100.0, 2000.0]
    unused = solve(design(release, "c4"))
    found = []
    for _ in range(100):
        noised = replace(release, matrix=truth + symmetric_noise(len(truth), 300.0, generator))
        fits = [Point.of(design(noised, "c4"), penalty, unused).solution for penalty in penalties]
        found.append([np.append(-b, 1) @ truth @ np.append(-b, 1) for b in fits])
    path = regression_path(release, "c4", None, penalties)
    # 100 draws here, 20 pairs there: five standard errors of the difference.
    near = 5 * np.std(found, axis=0) * np.sqrt(1 / 100 + 1 / 40)
    assert (np.abs(path.costs - np.mean(found, axis=0)) < near).all()
    quieter = regression_path(replace(release, errors=SymmetricNoise(50.0)), "c4", None, penalties)
    assert (np.abs(quieter.costs - np.mean(found, axis=0)) > near).any()


def test_the_choice_is_the_same_for_the_same_release_and_says_how_it_was_made() -> None:
    release = second_moment(ROWS, 2000.0, np.random.default_rng(0))
    path, again = regression_path(release, "c4"), regression_path(release, "c4")
    assert path.costs.tolist() == again.costs.tolist()
    assert not any("hint" in warning for warning in path.warnings)
    assert "drawn again" in path.cost_note
    assert "Mallows" in regression_path(replace(release, gaussian=False), "c4").cost_note


def test_a_path_is_json_csv_and_text() -> None:
    path = regression_path(second_moment(ROWS, 3.0, np.random.default_rng(2)), "c4", None, [1.0, 10.0, 100.0])
    plain = path.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    lines = list(csv.DictReader(io.StringIO(path.to_csv())))
    assert [float(line["regularization"]) for line in lines] == [1.0, 10.0, 100.0]
    assert [float(line["c2"]) for line in lines] == path.coefficients[:, 2].tolist()
    starred = [line for line in path.summary().splitlines() if line.startswith("* ")]
    assert len(starred) == 1
    assert "[" not in repr(path)


@pytest.mark.parametrize(
    ("penalties", "reason"), [([], "1 to 200"), ([1.0] * 201, "1 to 200"), ([-1.0], "at least 0"), ([math.nan], "fin")]
)
def test_penalties_that_are_none_are_refused(penalties: list[float], reason: str) -> None:
    with pytest.raises(InvalidAnalysisError, match=reason):
        regression_path(second_moment(ROWS, 1.0, np.random.default_rng(0), columns(5)), "c4", None, penalties)
