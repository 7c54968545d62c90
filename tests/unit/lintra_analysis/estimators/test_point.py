"""The one point of a regression: drawn towards 0 by a stated rule, inside its interval, and the same everywhere."""

import csv
import io
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.estimators import point as point_module
from lintra_analysis.estimators.coefficients import Coefficient
from lintra_analysis.estimators.design import design
from lintra_analysis.estimators.point import Point, with_point
from lintra_analysis.estimators.regression import regression
from lintra_analysis.estimators.solve import solve
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_protocol.crypto.ring import FloatArray
from support.made_releases import columns, mixed_columns, regression_rows, second_moment, with_constant

ROWS = regression_rows(600, np.random.default_rng(1))


def by_the_formula(matrix: FloatArray, sigma: float) -> list[float]:
    """The point as the page states it, entry by entry: the constant's coefficient and the slopes."""
    size = len(matrix)
    values, vectors = np.linalg.eigh(matrix[:-1, :-1])
    slopes = sum(
        vectors[1:, i] * (vectors[:, i] @ matrix[:-1, -1]) / max(values[i], 3 * sigma * size**0.5)
        for i in range(size - 1)
    )
    length = sum(float(x) ** 2 for x in matrix[0, 1:]) / sigma**2
    shrink = max(0.0, 1 - (size - 1) / length)
    means = [float(x) / max(matrix[0, 0], sigma) * shrink for x in matrix[0, 1:]]
    products = [matrix[i, -1] - matrix[0, i] * means[-1] for i in range(1, size - 1)]
    ratios = [float(matrix[0, i]) / max(matrix[0, 0], sigma) for i in range(1, size - 1)]
    noise = sum(1 + means[-1] ** 2 + r**2 + 2 * (r * means[-1]) ** 2 for r in ratios) / len(ratios)
    squares = sum(float(x) ** 2 for x in products) / (sigma**2 * noise)
    slopes = np.asarray(slopes) * max(0.0, 1 - (size - 2) / squares)
    return [means[-1] - float(np.dot(means[:-1], slopes)), *slopes.tolist()]


@pytest.mark.parametrize("sigma", [1.0, 30.0, 300.0])
def test_the_point_is_that_of_the_page(sigma: float) -> None:
    rows, named = with_constant(ROWS, columns(5))
    release = second_moment(rows, sigma, np.random.default_rng(4), named)
    chosen = design(release, "c4")
    found = Point.of(chosen, 0.0, solve(chosen))
    assert_allclose(found.solution, by_the_formula(chosen.gram.matrix, sigma), rtol=1e-9, atol=1e-12)
    assert found.floor == pytest.approx(3 * sigma * 6**0.5)


def test_pure_noise_has_slopes_of_exactly_zero_about_as_often_as_its_squares_are_small() -> None:
    generator, none = np.random.default_rng(5), 0
    for _ in range(400):
        square = generator.normal(size=(8, 8))
        matrix = (square + square.T) / np.sqrt(2)
        chosen = design(SecondMomentSum(columns(8), matrix, 1.0, 100, 1.0), "c7")
        none += bool((Point.of(chosen, 0.0, solve(chosen)).slopes == 0).all())
    # P(chi-square of 7 degrees <= 7) is .571; five deviations of 400 draws.
    assert abs(none / 400 - 0.571) < 0.125


def test_the_same_point_stands_in_every_form_of_the_answer() -> None:
    rows, named = with_constant(ROWS, mixed_columns())
    estimate = regression(second_moment(rows, 30.0, np.random.default_rng(6), named), "c4")
    point = [*estimate.coef_.tolist(), estimate.intercept_]
    assert list(estimate.params.values()) == point
    document = estimate.to_dict()
    coefficients, intercept = cast("list[Any]", document["coefficients"]), cast("Any", document["intercept"])
    assert [each["value"] for each in (*coefficients, intercept)] == point
    lines = list(csv.DictReader(io.StringIO(estimate.to_csv())))
    assert [float(line["coefficient"]) for line in lines] == point
    assert [float(line["raw"]) for line in lines] == list(estimate.raw.values())
    assert estimate.to_frame()["coefficient"].tolist() == point
    rows = np.array([[0.1, 2.0, -3.0, 0.5]])
    assert_allclose(estimate.predict(rows), rows @ estimate.coef_ + estimate.intercept_)
    assert not np.allclose(point, list(estimate.raw.values()))
    assert "drawn towards 0" in estimate.summary()


def test_a_point_outside_its_interval_is_moved_to_the_nearer_end_and_marked() -> None:
    told = (
        Coefficient("a", 4.0, interval=(3.0, 5.0)),
        Coefficient("b", -2.0, interval=(-3.0, 1.0)),
        Coefficient("(intercept)", 7.0, interval=(6.0, 8.0)),
    )
    point = Point(np.array([2.0, -1.0]), np.array([0.5, 0.0, 1.0]), 0.0, (), False)
    found = with_point(told, point, np.array([[0, 1.0, 0], [0, 0, 1.0], [1.0, 0, 0]]), np.zeros(3))
    assert [one.value for one in found[:2]] == [3.0, -1.0]
    assert [one.raw for one in found] == [4.0, -2.0, 7.0]
    assert [one.moved for one in found] == [True, False, True]
    # The intercept belongs to the slope that is shown: 1 - .5 * 3 = -.5, which is below its interval as well.
    assert found[2].value == 6.0
    assert found[0].text_cells()[1] == "3*"


def test_an_estimate_with_a_moved_point_explains_the_mark_and_others_do_not() -> None:
    estimate = regression(second_moment(ROWS, 5.0, np.random.default_rng(3)), "c4")
    assert "* this point" not in estimate.summary()
    moved = replace(estimate, coefficients=tuple(replace(one, moved=True) for one in estimate.coefficients))
    assert "* this point lay outside its interval" in moved.summary()


def test_without_noise_the_point_is_the_solution_itself() -> None:
    estimate = regression(second_moment(ROWS, 0.0, np.random.default_rng(0)), "c4")
    assert estimate.raw == estimate.params
    assert not any(one.moved for one in estimate.rows)
    assert "drawn towards 0" not in estimate.summary()


def test_means_lost_in_noise_leave_the_intercept_at_the_public_center() -> None:
    named = (ScaledColumn("(intercept)", 0, 1, 1, 1), *columns(3))
    matrix = np.diag([0.5, 400.0, 400.0, 400.0])
    matrix[0, 1:] = matrix[1:, 0] = [1.0, -1.2, 1.4]
    estimate = regression(SecondMomentSum(named, matrix, 1.0, 100, 1.0, gaussian=False), "c2")
    # Squares of the means add up to 4.4, noise alone has 3: the means keep a third of themselves, over 1 and not .5.
    assert estimate.intercept_ == pytest.approx(1.4 * (1 - 3 / 4.4))


def test_an_r2_near_one_is_said_to_be_at_least_something_and_never_one() -> None:
    """Noise hides residuals that are smaller than itself, in about half of the draws all of them."""
    generator = np.random.default_rng(8)
    x = generator.normal(size=(2000, 3))
    rows, named = with_constant(np.column_stack([x, x @ [1.0, -1.0, 0.5]]), columns(4))
    said = set()
    for seed in range(4):
        estimate = regression(second_moment(rows, 12.0, np.random.default_rng(seed), named), "c3")
        assert estimate.r2_interval is not None
        low, high = estimate.r2_interval
        assert low < 1 - 12.0 / float(rows[:, -1] @ rows[:, -1])
        assert high == 1
        said.add("at least 0.9" in estimate.summary() and "R2 is at least 0.9" in estimate.in_words())
    assert said == {True}


def test_the_noise_of_products_far_from_the_centers_is_as_stated_and_twice_what_the_target_alone_adds() -> None:
    generator, size = np.random.default_rng(9), 6
    means = np.array([1.0, 1.0, 0.8, -1.2, 1.1, -0.9, 0.5])
    exact, found = 400 * np.outer(means, means) + np.diag([0, *[30.0] * size]), []
    for _ in range(4000):
        square = generator.normal(size=exact.shape)
        noisy = exact + (square + square.T) / np.sqrt(2)
        found.append(noisy[1:-1, -1] - noisy[0, 1:-1] * noisy[0, -1] / noisy[0, 0])
    # 20,000 squares, of which those of one draw are alike: five deviations are a tenth.
    measured = float(np.var(found, axis=0).mean())
    assert point_module._noise_of_products(exact, 1.0, 0.5) == pytest.approx(measured, rel=0.1)
    assert measured > 1.5 * (1 + 0.5**2)


def test_where_noise_drowns_the_rows_the_point_is_seldom_worse_than_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def worse() -> float:
        generator, found = np.random.default_rng(10), []
        for _ in range(300):
            rows = generator.normal(size=(300, 9))
            block = np.column_stack([np.ones(300), rows])
            square = generator.normal(size=(10, 10)) * 300
            matrix = block.T @ block + (square + square.T) / np.sqrt(2)
            means = point_module.released_means(matrix, 300.0)
            slopes = point_module.drawn_to_zero(matrix, 300.0, means, np.zeros(1))[0][0]
            residual = rows[:, -1] - rows[:, :-1] @ slopes - (means[-1] - means[:-1] @ slopes)
            found.append(np.mean(residual**2) > np.mean((rows[:, -1] - means[-1]) ** 2))
        return float(np.mean(found))

    assert worse() < 0.3
    monkeypatch.setattr(point_module, "_noise_of_products", lambda matrix, sigma, mean: 1 + mean**2)
    assert worse() > 0.3
