"""Sensitivity of what is released together: known values, and a search for pairs of rows that exceed it."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from papers.ron_gauss_sensitivity import augmented_distance, centred_covariance_distance

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.mechanisms.joint_rows import JointWords
from lintra_protocol.noise.clipping import clip_exactly
from lintra_protocol.noise.joint_noise import JointVariances, joint_squared_mu
from lintra_protocol.privacy.statement import Neighbours
from support.joint_words import packed, spread

ALPHA_BETA_GAMMA = [(0.5, 1, 1), (1, 1, 1), (0.1, 1.2, 1), (0.1, 0.5, 2), (2, 1.9, 0.3), (0.3, 3, 1), (1, 0.2, 1)]


def variances(alpha: float, beta: float, gamma: float, cells: float = 1.0) -> JointVariances:
    """Return variances such that one unit of count, sum, product and cell is alpha, beta, gamma and `cells` sigma."""
    inverse = [1 / Fraction(weight) ** 2 for weight in (alpha, beta, gamma, cells)]
    return JointVariances(*inverse)


def unit_mu(given: JointVariances, classes: int, histograms: int = 0, neighbours: Neighbours = "replace-one") -> float:
    square = joint_squared_mu(
        given, squared_bound=1, indicator=1, num_classes=classes, num_histograms=histograms, neighbours=neighbours
    )
    return math.sqrt(square)


@pytest.mark.parametrize(
    ("alpha", "beta", "gamma", "classes", "mu"),
    [
        (0.5, 1, 1, 1, 2.121320343560),
        (0.5, 1, 1, 2, 2.121320343560),
        (1, 1, 1, 2, 2.449489742783),
        (1e-9, 2, 1, 1, 4),
        (0.1, 1.2, 1, 3, 2.432447327282),
    ],
)
def test_known_joint_parameters(alpha: float, beta: float, gamma: float, classes: int, mu: float) -> None:
    assert unit_mu(variances(alpha, beta, gamma), classes) == pytest.approx(mu, rel=1e-12)


@pytest.mark.parametrize(
    ("constant", "squared", "distance"),
    [
        (0, 1, 1.414213562373),
        (0.5, 1, 1.767766952966),
        (1.5, 1, 4.242640687119),
        (0.5, 2, 3.181980515339),
        (1, 0.25, 1.414213562373),
    ],
)
def test_known_distances_of_augmented_products(constant: float, squared: float, distance: float) -> None:
    assert augmented_distance(constant, squared) == pytest.approx(distance, rel=1e-12)


@pytest.mark.parametrize("constant", [0.0, 0.3, 0.9, 1.0, 1.1, 2.0])
def test_no_pair_of_augmented_vectors_is_farther_apart_and_some_is_as_far(constant: float) -> None:
    angles = np.linspace(0, np.pi, 2001)
    found = 0.0
    for one, other in product(np.linspace(0, 1, 11), repeat=2):
        inner = constant**2 + one * other * np.cos(angles)
        squares = (constant**2 + one**2) ** 2 + (constant**2 + other**2) ** 2 - 2 * inner**2
        found = max(found, float(squares.max()))
    assert 0.99999 < found**0.5 / augmented_distance(constant, 1.0) < 1 + 1e-12


def test_known_distance_of_centred_covariances() -> None:
    assert centred_covariance_distance(10) == 0.36
    assert centred_covariance_distance(1) == 0


@pytest.mark.parametrize("num_rows", [2, 3, 10])
def test_no_replaced_row_moves_the_centred_covariance_farther_and_some_moves_it_as_far(num_rows: int) -> None:
    generator = np.random.default_rng(num_rows)
    worst = 0.0
    for _ in range(300):
        rows = generator.standard_normal((num_rows + 1, 2))
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
        one, other = (np.cov(block.T, bias=True) for block in (rows[:-1], np.vstack([rows[1:-1], rows[-1:]])))
        worst = max(worst, float(np.linalg.norm(one - other)))
    opposite = np.vstack([-np.eye(1, 2), np.repeat(np.eye(1, 2), num_rows - 1, axis=0)])
    same = np.repeat(np.eye(1, 2), num_rows, axis=0)
    reached = np.linalg.norm(np.cov(opposite.T, bias=True) - np.cov(same.T, bias=True))
    assert worst <= centred_covariance_distance(num_rows)
    assert reached == pytest.approx(centred_covariance_distance(num_rows), rel=1e-12)


@pytest.mark.parametrize("weights", ALPHA_BETA_GAMMA)
@pytest.mark.parametrize("classes", [1, 2])
def test_the_parameter_is_the_maximum_over_norms_cosines_and_classes(
    weights: tuple[float, float, float], classes: int
) -> None:
    alpha, beta, gamma = weights
    cosines = np.linspace(-1, 1, 4001)
    found = 0.0
    for one, other in product(np.linspace(0, 1, 6), repeat=2):
        inner = one * other * cosines
        products = gamma**2 * (one**4 + other**4 - 2 * inner**2)
        within = beta**2 * (one**2 + other**2 - 2 * inner) + products
        across = 2 * alpha**2 + beta**2 * (one**2 + other**2) + products
        found = max(found, float(within.max()), float(across.max()) if classes > 1 else 0.0)
    assert 1 - 1e-6 < found**0.5 / unit_mu(variances(*weights), classes) < 1 + 1e-12


@pytest.mark.parametrize("weights", ALPHA_BETA_GAMMA)
def test_against_the_null_vector_every_part_counts_once(weights: tuple[float, float, float]) -> None:
    alpha, beta, gamma = weights
    given = variances(alpha, beta, gamma, 0.7)
    assert unit_mu(given, 1, 0, "zero-out") == pytest.approx((beta**2 + gamma**2) ** 0.5)
    assert unit_mu(given, 2, 3, "zero-out") == pytest.approx((alpha**2 + beta**2 + gamma**2 + 3 * 0.49) ** 0.5)


def test_at_the_largest_weight_of_the_means_the_products_cost_nothing() -> None:
    weight = 2**0.5
    assert unit_mu(variances(1, weight, 1), 1) == pytest.approx(unit_mu(variances(1, weight, 1e-6), 1), rel=1e-9)
    assert unit_mu(variances(1, 1.2, 1), 1) > 1.01 * unit_mu(variances(1, 1.2, 1e-6), 1)


def test_every_histogram_moves_two_cells() -> None:
    given = variances(1, 1, 1, 0.7)
    squares = [unit_mu(given, 2, number) ** 2 for number in range(4)]
    assert np.diff(squares) == pytest.approx([2 * 0.49] * 3)


def test_the_square_is_exact() -> None:
    given = JointVariances(Fraction(7), Fraction(3), Fraction(11), Fraction(13))
    square = joint_squared_mu(
        given, squared_bound=2, indicator=5, num_classes=1, num_histograms=2, neighbours="replace-one"
    )
    # b = 2/3, g = 4/11: 2g + 2b + b^2/(2g), and two cells of each histogram.
    assert square == Fraction(8, 11) + Fraction(4, 3) + Fraction(4, 9) * Fraction(11, 8) + 4 * Fraction(25, 13)


def test_with_the_planned_proportions_counts_never_decide_and_one_by_one_costs_up_to_a_fifth_more() -> None:
    ratios = {1: 0.0, 2: 0.0}
    for weight in np.sqrt(np.linspace(0.01, 2, 200)):
        given = variances(weight**2 / 2, weight, 1)
        alone, together = (unit_mu(given, classes) for classes in (1, 2))
        assert together == pytest.approx(alone, rel=1e-12)
        parts = 4 * weight**2 + 2
        ratios[1] = max(ratios[1], float(parts**0.5 / alone))
        ratios[2] = max(ratios[2], float((parts + weight**4 / 2) ** 0.5 / together))
    assert ratios == {1: pytest.approx((4 / 3) ** 0.5, rel=1e-4), 2: pytest.approx(1.5**0.5, rel=1e-4)}


# --- the plan of the design: U = 4096, T = 2000, p = 10, epsilon = 1, delta = 1e-6, 1000 clients ----------------------

TARGET = 0.236704380663
PLANS = {
    "classes": (2, 0, (5389889, 321263, 642524823131, 1), 0.236704284432),
    "no classes": (1, 0, (1, 552255, 397622917212, 1), 0.236704318686),
    "histograms": (2, 64, (7785396, 464046, 928091411189, 124566321), 0.236704356395),
}
every_plan = pytest.mark.parametrize("plan", PLANS)


def planned(plan: str) -> tuple[int, int, JointVariances, float]:
    classes, histograms, (counts, sums, products, cells), mu = PLANS[plan]
    totals = (1000 * counts - 4, 1000 * sums - 4, 2 * (1000 * products - 4), 1000 * cells - 4)
    return classes, histograms, JointVariances(*(Fraction(total) for total in totals)), mu


def planned_mu(plan: str) -> float:
    classes, histograms, totals, _ = planned(plan)
    square = joint_squared_mu(
        totals,
        squared_bound=2000**2,
        indicator=4096,
        num_classes=classes,
        num_histograms=histograms,
        neighbours="replace-one",
    )
    return math.sqrt(square)


@every_plan
def test_known_plans_give_their_parameter_and_keep_the_claim(plan: str) -> None:
    assert planned_mu(plan) == pytest.approx(planned(plan)[3], rel=1e-11)
    assert planned_mu(plan) < TARGET


def hostile_vectors(generator: np.random.Generator, count: int) -> IntArray:
    """Return pairs of clipped integer vectors, shape `(count, 2, 10)`: random cosines, mostly of full norm."""
    first, second = generator.standard_normal((2, count, 10))
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    second -= (second * first).sum(axis=1, keepdims=True) * first
    second /= np.linalg.norm(second, axis=1, keepdims=True)
    cosines = generator.uniform(-1, 1, (count, 1))
    pairs = np.stack([first, cosines * first + np.sqrt(1 - cosines**2) * second], axis=1)
    norms = np.where(generator.random((count, 2, 1)) < 0.8, 2003, generator.uniform(0, 2000, (count, 2, 1)))
    return clip_exactly(np.rint(pairs * norms).astype(np.int64).reshape(-1, 10), 2000).reshape(count, 2, 10)


def deviations(layout: JointWords, totals: JointVariances) -> FloatArray:
    counts, sums, squares, cells = (
        float(v) ** 0.5 for v in (totals.counts, totals.sums, totals.products, totals.histograms)
    )
    return spread(layout, counts, sums, squares, squares / 2**0.5, cells)


@every_plan
@pytest.mark.parametrize("per_class", [False, True])
def test_no_pair_of_rows_exceeds_the_plan_and_some_pair_comes_within_a_thousandth(plan: str, per_class: bool) -> None:
    classes, histograms, totals, mu = planned(plan)
    layout = JointWords(classes, 10, per_class, (5,) * histograms)
    generator = np.random.default_rng(7)
    found = 0.0
    for _ in range(8):
        vectors = hostile_vectors(generator, 500)
        groups = generator.integers(0, classes, (500, 2))
        cells = generator.integers(0, 5, (500, 2, histograms))
        if histograms:
            cells[:250, 1] = (cells[:250, 0] + 1) % 5
        one, other = (packed(layout, groups[:, i], vectors[:, i], cells[:, i], 4096) for i in (0, 1))
        distances = np.linalg.norm((one - other) / deviations(layout, totals), axis=1)
        found = max(found, float(distances.max()))
    assert 0.999 * mu < found <= mu


@pytest.mark.parametrize("part", ["counts", "sums", "products", "histograms"])
def test_a_variance_that_matters_must_be_positive(part: str) -> None:
    values = {name: Fraction(1) for name in ("counts", "sums", "products", "histograms")}
    with pytest.raises(ValueError, match="positive"):
        unit_mu(JointVariances(**values | {part: Fraction(0)}), 2, 1)


def test_numbers_out_of_range_are_refused() -> None:
    for changed in ({"squared_bound": 0}, {"indicator": 0}, {"num_classes": 0}, {"num_histograms": -1}):
        numbers = {"squared_bound": 1, "indicator": 1, "num_classes": 1, "num_histograms": 0} | changed
        with pytest.raises(ValueError, match="positive"):
            joint_squared_mu(variances(1, 1, 1), **numbers, neighbours="replace-one")
    for constant, squared in ((-1.0, 1.0), (1.0, 0.0), (float("nan"), 1.0), (1.0, float("inf"))):
        with pytest.raises(ValueError, match="expected"):
            augmented_distance(constant, squared)
    with pytest.raises(ValueError, match="needs a row"):
        centred_covariance_distance(0)
