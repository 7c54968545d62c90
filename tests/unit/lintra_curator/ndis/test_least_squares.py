"""Least squares: geometry, both laws against independent computations, and the assumption that fails."""

import math

import numpy as np
import pytest
from scipy.special import gammaln

from lintra_curator.ndis import (
    als_max_loss,
    delta,
    delta_als,
    delta_ols,
    delta_rp,
    influences,
    ols_pair,
    pair_from_gaussians,
)


def problem(n: int = 40, d: int = 3, seed: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n, d))
    return features, features @ np.ones(d) + 0.5 * rng.standard_normal(n)


def law(features: np.ndarray, target: np.ndarray, r: float) -> tuple[np.ndarray, np.ndarray]:
    gram = features.T @ features
    x = np.linalg.solve(gram, features.T @ target)
    return x, np.sum((target - features @ x) ** 2) / r * np.linalg.inv(gram)


def als_by_brute_force(at: float, p: float, s: float, r: int, sign: int) -> float:
    """Integrate (f - e^epsilon g)_+ on a grid of y1 and |y_rest| for d = 2, from the densities themselves."""
    q, d = p + s, 2
    m1, m2, shift = (1 - p) ** 2 / (1 - q), (1 - p) / (1 - q), math.sqrt(s * p) / (1 - p)
    u = (np.arange(1400) + 0.5) / 1400 * 2 - 1
    y = np.sinh(4 * u)  # midpoint rule in u
    weight = 4 * np.cosh(4 * u) * (2 / 1400)
    y1, y2 = np.meshgrid(y, y, indexing="ij")
    norm = gammaln((r + 1) / 2) - gammaln((r + 1 - d) / 2) - d / 2 * math.log(math.pi)
    first = np.exp(norm - (r + 1) / 2 * np.log1p(y1**2 + y2**2))
    root = math.sqrt(m1 * m2)
    second = root * np.exp(norm - (r + 1) / 2 * np.log1p(m1 * (y1 + shift) ** 2 + m2 * y2**2))
    assert weight @ first @ weight == pytest.approx(1, abs=1e-6)
    assert weight @ second @ weight == pytest.approx(1, abs=1e-6)
    excess = first - math.exp(at) * second if sign > 0 else second - math.exp(at) * first
    return float(weight @ np.maximum(excess, 0) @ weight)


@pytest.mark.slow
def test_the_shares_and_leverages_give_the_pair_of_the_two_laws() -> None:
    features, target = problem()
    leverage, share = influences(features, target)
    assert leverage.sum() == pytest.approx(3)
    assert share.sum() == pytest.approx(1)
    for row in (0, 7, 21):
        kept = np.arange(40) != row
        direct = pair_from_gaussians(*law(features, target, 25.0), *law(features[kept], target[kept], 25.0))
        pair = ols_pair(leverage[row], share[row], 25.0, 3)
        for at in (0.1, 0.8):
            assert delta(pair, at, 1e-7).value == pytest.approx(delta(direct, at, 1e-7).value, rel=1e-5, abs=0)
            assert delta(pair.reverse(), at, 1e-7).value == pytest.approx(
                delta(direct.reverse(), at, 1e-7).value, rel=1e-5
            )


def test_leverage_and_share_add_up_to_the_leverage_in_features_and_target() -> None:
    features, target = problem(seed=5)
    leverage, share = influences(features, target)
    basis, _ = np.linalg.qr(np.column_stack([features, target]))
    assert leverage + share == pytest.approx((basis**2).sum(axis=1))


@pytest.mark.parametrize(
    ("direction", "value"), [("remove", 3.595888832681e-4), ("add", 1.756359227769e-4), ("both", 3.595888832681e-4)]
)
def test_the_gaussian_law_has_its_vectors(direction: str, value: float) -> None:
    assert delta_ols(1, 0.016, 0.0226, 300, 12, direction) == pytest.approx(value, rel=1e-10, abs=0)  # type: ignore[arg-type]


def test_adding_can_be_worse_than_removing_by_orders_of_magnitude() -> None:
    found = [delta_ols(2.3252, 0.29177, 0.01573, 160, 5, direction) for direction in ("remove", "add", "both")]
    assert found[0] == pytest.approx(3.1e-9, rel=0.02, abs=0)
    assert found[1] == found[2] == pytest.approx(0.0727, abs=1e-4)


@pytest.mark.slow
def test_the_quick_formula_lies_in_the_certified_interval() -> None:
    rng = np.random.default_rng(4)
    for _ in range(150):
        d = int(rng.integers(1, 30))
        r, at = float(rng.integers(d + 1, 400)), 3 * float(rng.random())
        p, s = (float(x) for x in rng.random(2) * 10 ** rng.uniform(-3, -0.5))
        pair = ols_pair(p, s, r, d)
        for direction, each in (("remove", pair), ("add", pair.reverse())):
            value = delta_ols(at, p, s, r, d, direction)  # type: ignore[arg-type]
            found = delta(each, at, 1e-7)
            assert found.lo * (1 - 1e-8) - 1e-60 <= value <= found.hi * (1 + 1e-8) + 1e-60


def test_the_exact_law_has_its_vectors() -> None:
    assert delta_als(0.5, 0.05, 0.05, 100, 5, "remove") == pytest.approx(0.05734189405834, rel=1e-11, abs=0)
    assert als_max_loss(0.02, 0.02, 50, 4, "remove") == pytest.approx(0.494654602923, rel=1e-11, abs=0)


@pytest.mark.parametrize(("direction", "sign"), [("remove", 1), ("add", -1)])
@pytest.mark.parametrize(("at", "p", "s", "r"), [(0.1, 0.1, 0.05, 12), (0.3, 0.03, 0.1, 20), (0.0, 0.2, 0.2, 8)])
@pytest.mark.slow
def test_the_exact_law_agrees_with_brute_force_in_two_dimensions(
    direction: str, sign: int, at: float, p: float, s: float, r: int
) -> None:
    expected = als_by_brute_force(at, p, s, r, sign)
    assert delta_als(at, p, s, r, 2, direction) == pytest.approx(expected, abs=2e-6)  # type: ignore[arg-type]
    assert delta_als(at, 1.1 * p, s, r, 2, direction) != pytest.approx(expected, abs=2e-4)  # type: ignore[arg-type]


# Student's distribution with 40 digits: a row so influential that the two laws hardly overlap, and far tails.
@pytest.mark.parametrize(
    ("at", "p", "s", "r", "direction", "truth"),
    [
        (0.0, 0.37104858898213594, 0.056077061640043606, 20000, "add", 1.0),
        (0.0015173965430123673, 0.08506428526906454, 0.15798256032187616, 20000, "add", 1.0),
        (2.674148114745303, 0.0007319281946165971, 0.0030923358601926895, 3000, "remove", 5.613393981324337e-169),
        (1.9091115552213, 0.0070003523991828565, 0.0004197015510801877, 3000, "add", 2.47657680769315e-47),
        (1.9688995173789692, 1.4151734411681084e-05, 0.004933595300332049, 20000, "remove", 3.111580495575205e-108),
    ],
)
def test_the_exact_law_keeps_far_rows_and_far_tails(
    at: float, p: float, s: float, r: int, direction: str, truth: float
) -> None:
    assert delta_als(at, p, s, r, 1, direction) == pytest.approx(truth, rel=1e-9, abs=0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "numbers",
    [
        *[(0.03, 0.01, 40, 1), (0.01, 0.05, 60, 6), (0.2, 0.1, 9, 8), (0.0, 0.1, 30, 3)],
        *[(0.2, 0.1, 2000, 3), (0.37, 0.056, 20000, 2), (0.01, 0.3, 300, 12)],
    ],
)
def test_the_two_directions_of_either_law_are_one_curve(numbers: tuple[float, float, int, int]) -> None:
    for profile in (delta_ols, delta_als):
        for at in (0.05, 0.2, 0.6):
            expected = 1 - math.exp(-at) + math.exp(-at) * profile(at, *numbers, "add")
            assert profile(-at, *numbers, "remove") == pytest.approx(expected, rel=1e-9, abs=0)


def test_the_exact_law_tends_to_the_gaussian_one_and_both_stay_below_the_sketch() -> None:
    ratios = []
    for r in (100, 10**4, 10**6):
        p = s = 0.5 / math.sqrt(r)  # so that the mean shift stays the same
        gaussian, exact = delta_ols(0.3, p, s, r, 4), delta_als(0.3, p, s, r, 4)
        ratios.append(gaussian / exact)
        assert exact <= gaussian
        assert exact <= float(delta_rp(0.3, p + s, r))
    assert ratios == pytest.approx([1.0425, 1.0004, 1.000004], rel=1e-4, abs=0)


def test_the_gaussian_law_does_not_bound_the_exact_one_in_every_direction() -> None:
    row = (0.26571602, 0.00558580, 0.36336302, 22, 1)
    assert delta_als(*row, "add") > 1.1 * delta_ols(*row, "add")
    assert delta_als(*row) < delta_ols(*row)


def test_the_loss_of_the_exact_law_is_bounded() -> None:
    for direction in ("remove", "add"):
        largest = als_max_loss(0.05, 0.02, 30, 4, direction)  # type: ignore[arg-type]
        found = [delta_als(largest * x, 0.05, 0.02, 30, 4, direction) for x in (0.9, 0.98, 1.0, 2.0)]  # type: ignore[arg-type]
        assert found[0] > found[1] > 0
        assert found[2:] == [0.0, 0.0]


# (r, d, epsilon, s), two leverages, and the two-sided delta at each: the larger leverage leaks less.
@pytest.mark.parametrize(
    ("case", "leverages", "values"),
    [
        ((3, 1, 0.2, 0.04711), (0.036623, 0.050181), (4.364484e-4, 4.315460e-4)),
        ((5, 1, 0.5, 0.06155), (0.034922, 0.065564), (3.99982e-5, 2.70907e-5)),
        ((4, 2, 0.2, 0.02759), (0.021454, 0.029396), (3.78960e-5, 3.68998e-5)),
        ((12, 2, 0.2, 0.00947), (0.005373, 0.010088), (5.0452e-10, 4.1466e-10)),
    ],
)
def test_delta_is_not_monotone_in_leverage_as_the_paper_assumes(
    case: tuple[int, int, float, float], leverages: tuple[float, float], values: tuple[float, float]
) -> None:
    r, d, at, s = case
    found = [delta_ols(at, p, s, r, d) for p in leverages]
    assert found == pytest.approx(values, rel=2e-5, abs=0)
    certified = [
        (delta(ols_pair(p, s, r, d), at, 1e-6), delta(ols_pair(p, s, r, d).reverse(), at, 1e-6)) for p in leverages
    ]
    assert max(one.lo for one in certified[0]) > max(one.hi for one in certified[1])


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((1, -0.1, 0.1, 10, 2), "leverage"),
        ((1, 0.6, 0.4, 10, 2), "leverage"),
        ((1, math.nan, 0.4, 10, 2), "leverage"),
        ((1, 0.1, 0.1, 0, 2), "columns"),
        ((1, 0.1, 0.1, 10, 0), "features"),
        ((math.inf, 0.1, 0.1, 10, 2), "epsilon"),
    ],
)
def test_arguments_out_of_range_are_refused(numbers: tuple[float, float, float, int, int], words: str) -> None:
    for profile in (delta_ols, delta_als):
        with pytest.raises(ValueError, match=words):
            profile(*numbers)


def test_a_sketch_with_fewer_rows_than_features_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 5 rows"):
        delta_als(1, 0.1, 0.1, 4, 5)


@pytest.mark.parametrize(
    ("features", "target", "words"),
    [
        (np.ones((5, 2)), np.arange(5.0), "deficient"),
        (np.eye(2), np.ones(2), "deficient"),
        (np.eye(5)[:, :2], np.eye(5)[0], "residual"),
        (np.eye(5), np.ones(4), "shapes"),
    ],
)
def test_problems_without_influences_are_refused(features: np.ndarray, target: np.ndarray, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        influences(features, target)
