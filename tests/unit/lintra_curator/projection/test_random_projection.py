"""Random projection: the calibration of the design, one law on three routes, and what is refused."""

import math

import numpy as np
import pytest

from lintra_analysis.estimators.regression import regression
from lintra_curator.claims.claim import curator_claim
from lintra_curator.claims.row_checks import CLIPPED
from lintra_curator.ndis.closed_form import delta_rp, rp_pstar
from lintra_curator.ndis.profile_evaluation import delta
from lintra_curator.projection.random_projection import (
    plan_projection,
    project,
    projection_delta,
    random_projection,
    replacement_pair,
    rp_sigma,
)
from lintra_curator.second_moment.calibration import projection_weight
from lintra_protocol.errors import InvalidReleaseError
from lintra_protocol.privacy.statement import Neighbours
from support import source

CLAIM = curator_claim(1.0, 1e-6, "zero-out")


def made_rows(count: int = 400) -> np.ndarray:
    generator = np.random.default_rng(5)
    features = generator.normal(size=(count, 3)) * [0.3, 0.2, 0.1]
    return np.column_stack([features, features @ [0.5, -0.4, 0.3] + 0.05 * generator.normal(size=count)])


@pytest.mark.parametrize(
    ("epsilon", "target", "sketch_rows", "leverage"),
    [
        (1, 1e-6, 100, 0.02736713984467),
        (0.5, 1e-9, 1000, 0.003868653970551),
        (1, 1 / 2809, 300, 0.0261369651493),
        (1, 1e-6, 1000, 0.009901827474096),
        (0.1, 1e-6, 10, 0.00777493381308),
    ],
)
def test_the_ridge_is_tight_at_the_largest_private_leverage(
    epsilon: float, target: float, sketch_rows: int, leverage: float
) -> None:
    plan = plan_projection(curator_claim(epsilon, target, "zero-out"), sketch_rows, 2.0)
    assert plan.leverage == pytest.approx(leverage, rel=1e-9)
    assert plan.sigma2 == pytest.approx(4 * (1 / leverage - 1), rel=1e-9)
    assert plan.promise.delta <= target
    assert plan.promise.delta == pytest.approx(target, rel=1e-6)
    assert plan.promise.status == "proved"
    # The published ridge is l^2 more than this one.
    assert plan.sigma2 + 4 == pytest.approx(4 / leverage, rel=1e-9)


@pytest.mark.parametrize(
    ("target", "sketch_rows", "row_bound", "published"),
    [
        (1 / 2809, 300, 1.107512718, 6.850482207),
        (1 / 327346, 1200, 0.07320812693, 0.7452002357),
        (1 / 515345, 20000, 0.224128987, 4.564638),
    ],
)
def test_the_published_noise_is_reproduced_and_no_product_overflows(
    target: float, sketch_rows: int, row_bound: float, published: float
) -> None:
    # (1 - p)^(r/2) underflows from r = 2050 on; a published program then takes NaN for private and sigma = l.
    sigma = rp_sigma(1.0, target, sketch_rows, row_bound)
    assert math.hypot(sigma, row_bound) == pytest.approx(published, rel=2e-8)


@pytest.mark.parametrize("sketch_rows", [2040, 2060, 20_000])
def test_the_noise_grows_smoothly_through_the_sizes_at_which_powers_overflow(sketch_rows: int) -> None:
    sigma = rp_sigma(1.0, 1e-6, sketch_rows, 1.0)
    # Of the order of r^(1/4), and nowhere near the row bound.
    assert sigma / sketch_rows**0.25 == pytest.approx(1.77, rel=0.02)


def test_replacement_has_the_curve_of_two_orthogonal_rows() -> None:
    assert delta(replacement_pair(0.02 / 0.98, 100), 1.0).value == pytest.approx(8.080189954e-8, rel=1e-9)
    # The same curve by quadrature over chi-squares.
    assert delta(replacement_pair(0.05, 44), 1.0).value == pytest.approx(2.352368635e-4, rel=1e-9)
    assert delta(replacement_pair(0.004, 1000), 0.1).value == pytest.approx(1.615221738e-2, rel=1e-9)


@pytest.mark.parametrize(
    ("sketch_rows", "epsilon", "growth"), [(4, 1.0, 1.0222), (30, 1.0, 1.0692), (300, 1.0, 1.1337)]
)
def test_replacement_costs_a_few_percent_more_noise(sketch_rows: int, epsilon: float, growth: float) -> None:
    ratio = rp_sigma(epsilon, 1e-6, sketch_rows, 1.0, "replace-one") / rp_sigma(epsilon, 1e-6, sketch_rows, 1.0)
    assert ratio == pytest.approx(growth, abs=1e-3)


def test_any_two_replaced_rows_are_no_worse_than_orthogonal_ones() -> None:
    generator = np.random.default_rng(11)
    ratio, sketch_rows = 0.3, 6.0
    worst = delta(replacement_pair(ratio, sketch_rows), 0.8).hi
    for _ in range(40):
        rows = generator.normal(size=(2, 3))
        rows *= np.sqrt(ratio * generator.uniform(0.2, 1, size=(2, 1))) / np.linalg.norm(rows, axis=1, keepdims=True)
        first, second = (np.eye(3) + np.outer(row, row) for row in rows)
        eigenvalues = np.linalg.eigvals(np.linalg.solve(second, first)).real
        pair = type(replacement_pair(1, 1))(eigenvalues - 1, [sketch_rows] * 3, [0.0] * 3)
        assert delta(pair, 0.8).value <= worst * (1 + 1e-6)


@pytest.mark.parametrize("sketch_rows", [1, 2, 5, 40])
def test_the_bound_covers_both_directions_and_every_smaller_leverage(sketch_rows: int) -> None:
    leverage = 0.2
    bound = projection_delta(0.3, leverage, sketch_rows)
    smaller = np.linspace(0.01, leverage, 30)
    for direction in ("remove", "add"):
        assert (delta_rp(0.3, smaller, sketch_rows, direction) <= bound).all()
    assert bound <= float(delta_rp(0.3, leverage, sketch_rows)) * (1 + 1e-5)


def test_one_row_is_a_random_linear_combination() -> None:
    plan = plan_projection(CLAIM, 1, 1.0)
    assert plan.leverage == pytest.approx(rp_pstar(1.0, 1e-6, 1), rel=1e-9)
    release = random_projection(made_rows(), CLAIM, 1, 1.0, source("one"))
    assert release.values.shape == (1, 4)
    assert np.linalg.matrix_rank(release.gram() + release.sigma2 * np.eye(4)) == 1
    with pytest.raises(InvalidReleaseError, match="at least 2 rows"):
        release.sketch()


def test_a_release_says_what_it_is() -> None:
    rows = made_rows()
    release = random_projection(rows, CLAIM, 60, 1.0, source("says"), names=["a", "b", "c", "y"])
    assert release.law == "continuous, floating point"
    assert (release.promise.epsilon, release.promise.neighbours) == (1.0, "zero-out")
    assert release.num_clients == len(rows)
    assert release.sigma2 == plan_projection(CLAIM, 60, 1.0).sigma2
    assert [column.name for column in release.columns] == ["a", "b", "c", "y"]
    assert f"{release.values[0, 0]:.3f}" not in repr(release)


def test_estimators_read_the_release_with_the_law_of_its_error() -> None:
    # An entry of the estimate has a deviation of at most (tr + sigma2) sqrt(2 / r); five of them fail once in 1e5.
    rows = made_rows(4000)
    release = random_projection(rows, curator_claim(8.0, 1e-3, "zero-out"), 2**14, 1.0, source("gram"))
    gram = release.second_moment()
    assert np.abs(gram.matrix - rows.T @ rows).max() < 5 * (np.trace(rows.T @ rows) + release.sigma2) / 2**6.5
    assert gram.matrix == pytest.approx(release.sketch().second_moment().matrix)
    # What the law says is what the independent rows of the sketch show.
    theta = np.array([0.3, -0.5, 0.2, 1.0])
    stated, shown = (each.errors.product_covariance(theta) for each in (gram, release.sketch().second_moment()))
    assert np.diag(stated) == pytest.approx(np.diag(shown), rel=0.1)
    fit = regression(release, "x3", intercept=False)
    assert len(fit.coefficients) == 3
    assert release.restrict(["x3", "x0"]).second_moment().matrix == pytest.approx(gram.matrix[np.ix_([3, 0], [3, 0])])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"rows": [[1.0, math.nan]]}, "finite"),
        ({"rows": [1.0, 2.0]}, "shape"),
        ({"rows": np.zeros((0, 2))}, "shape"),
        ({"rows": [[2.0, 0.0]], "clip": False}, "longer than the bound"),
        ({"row_bound": 0.0}, "row_bound"),
        ({"row_bound": math.nan}, "row_bound"),
        ({"row_bound": math.inf}, "row_bound"),
        ({"sketch_rows": 0}, "sketch_rows"),
        ({"sketch_rows": 2.5}, "sketch_rows"),
        ({"route": "magic"}, "route"),
        ({"names": ["a"]}, "2 columns"),
    ],
)
def test_wrong_arguments_are_refused_by_name(change: dict, complaint: str) -> None:
    arguments = {
        "rows": [[0.1, 0.2]], "claim": CLAIM, "sketch_rows": 3, "row_bound": 1.0, "random_bytes": source("no")
    }  # fmt: skip
    with pytest.raises(ValueError, match=complaint):
        random_projection(**{**arguments, **change})


@pytest.mark.parametrize(
    ("epsilon", "target"), [(0, 1e-6), (601, 1e-6), (-1, 1e-6), (math.nan, 1e-6), (1, 0), (1, 1), (1, math.nan)]
)
def test_claims_out_of_range_are_refused(epsilon: float, target: float) -> None:
    with pytest.raises(ValueError, match=r"epsilon|delta"):
        rp_sigma(epsilon, target, 10, 1.0)


def test_rows_of_less_than_full_rank_need_a_ridge_and_get_one() -> None:
    rows = np.outer(np.linspace(0.1, 0.9, 5), [1.0, 1.0]) / 2
    assert np.isfinite(random_projection(rows, CLAIM, 4, 1.0, source("rank")).values).all()
    with pytest.raises(ValueError, match="full rank"):
        project(np.zeros((3, 2)), 0.0, 4, source("rank"))


@pytest.mark.parametrize("epsilon", [1e-6, 20.0, 600.0])
@pytest.mark.parametrize("target", [1e-15, 0.5])
@pytest.mark.parametrize("sketch_rows", [1, 5, 10**6])
@pytest.mark.slow
def test_extreme_claims_are_kept_and_used_up(epsilon: float, target: float, sketch_rows: int) -> None:
    plan = plan_projection(curator_claim(epsilon, target, "zero-out"), sketch_rows, 1.0)
    assert 0.99 * target < plan.promise.delta <= target


@pytest.mark.slow
def test_the_noise_falls_with_the_claim_and_grows_with_the_sketch_and_the_bound() -> None:
    for neighbours in ("zero-out", "replace-one"):
        by_epsilon = [rp_sigma(epsilon, 1e-6, 30, 1.0, neighbours) for epsilon in (0.1, 0.3, 1.0, 3.0, 9.0)]
        by_delta = [rp_sigma(1.0, target, 30, 1.0, neighbours) for target in (1e-12, 1e-9, 1e-6, 1e-3)]
        by_rows = [rp_sigma(1.0, 1e-6, rows, 1.0, neighbours) for rows in (300, 100, 30, 10, 5, 2)]
        for sigmas in (by_epsilon, by_delta, by_rows):
            assert sigmas == sorted(sigmas, reverse=True)
        assert rp_sigma(1.0, 1e-6, 30, 7.0, neighbours) == pytest.approx(7 * by_rows[2])


@pytest.mark.parametrize("neighbours", ["zero-out", "replace-one"])
def test_a_sketch_and_a_second_moment_by_projection_have_one_ridge(neighbours: Neighbours) -> None:
    claim = curator_claim(1.0, 1e-6, neighbours)
    ridge = 4.0 / projection_weight(claim, 60)
    # The sketch's allows for a row that clipping left 2^-40 too long.
    assert plan_projection(claim, 60, 2.0).sigma2 / CLIPPED == pytest.approx(ridge, rel=1e-12)
