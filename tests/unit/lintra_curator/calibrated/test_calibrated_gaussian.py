"""Envelopes are upper bounds, attained constants are attained, and the noise is the smallest that keeps the claim."""

import math

import numpy as np
import pytest
from papers.calibrated import published_covariance_delta, published_logistic_sensitivity
from papers.gaussian_process import (
    RadialKernel,
    gaussian_process_prediction,
    mean_shift,
    plan_gaussian_process,
    posterior,
    process_sensitivity,
)

from lintra_curator.calibrated.calibrated_gaussian import (
    Sensitivity,
    calibrate,
    calibrated_draw,
    envelope,
    renyi_envelope,
    split_envelope,
)
from lintra_curator.calibrated.logistic_regression import plan_logistic
from lintra_curator.claims.claim import curator_claim
from lintra_curator.ndis.gaussian_pair import GaussianPair
from lintra_curator.ndis.profile_evaluation import delta
from lintra_protocol.privacy.gaussian import gaussian_delta, gaussian_mu
from support import source

CLAIM = curator_claim(1.0, 1e-6, "zero-out")
KERNEL = RadialKernel(1.0, 0.5)


# --- envelopes ------------------------------------------------------------------------------------------------


def test_the_renyi_envelope_is_that_of_the_vector() -> None:
    ratio = math.log(1.2)
    assert renyi_envelope(1.0, Sensitivity(0.3, ratio, ratio, True)) == pytest.approx(0.0235967140, rel=1e-6)


@pytest.mark.parametrize("one_direction", [True, False])
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.grid(3)
@pytest.mark.slow
def test_no_pair_within_a_sensitivity_exceeds_the_envelope(seed: int, one_direction: bool) -> None:
    generator = np.random.default_rng(seed)
    kappa, shift, epsilon = generator.uniform(0.01, 0.8), generator.uniform(0, 0.6), generator.uniform(0.05, 2)
    logs = np.array([kappa]) if one_direction else kappa * generator.uniform(size=4)
    sensitivity = Sensitivity(shift, kappa, kappa if one_direction else max(logs.sum(), kappa), one_direction)
    bounds = [bound(epsilon, sensitivity) for bound in (renyi_envelope, split_envelope)]
    assert envelope(epsilon, sensitivity) == min(bounds)
    weights = generator.dirichlet(np.ones(len(logs)))
    # X more spread than Y, with the shift in the metric of Y; and the same pair the other way round.
    pair = GaussianPair(np.expm1(logs), np.ones(len(logs)), shift**2 * weights / np.exp(logs))
    for each in (pair, pair.reverse()):
        assert delta(each, epsilon).hi <= min(bounds)


def test_a_direction_that_alone_takes_everything_comes_close_to_the_envelope() -> None:
    pair = GaussianPair([math.expm1(0.01)], [1.0], [0.2**2 * math.exp(-0.01)])
    assert delta(pair, 1.0).value > 0.85 * envelope(1.0, Sensitivity(0.2, 0.01, 0.01, True))


# Computed with 60 digits, for one moving direction and no shift; the closed form is below the last one.
@pytest.mark.parametrize(
    ("ratio", "epsilon", "truth"),
    [(1e-6, 8e-6, 3.564288232527188e-11), (1e-7, 1e-6, 4.4133391190011274e-13), (1e-9, 1.2e-8, 5.539598518945943e-16)],
)
def test_a_tiny_change_of_covariance_is_not_lost_to_rounding(ratio: float, epsilon: float, truth: float) -> None:
    found = split_envelope(epsilon, Sensitivity(0.0, ratio, ratio, True))
    assert truth <= found <= truth * (1 + 1e-3)


def test_without_a_change_of_covariance_the_envelope_is_the_gaussian_profile() -> None:
    assert envelope(0.7, Sensitivity(0.4, 0.0, 0.0, True)) == gaussian_delta(0.7, 0.4)
    assert renyi_envelope(0.7, Sensitivity(0.4, 0.0, 0.0, True)) >= gaussian_delta(0.7, 0.4)


def test_the_published_zero_certifies_what_is_false() -> None:
    epsilon, ratio = 0.3466, math.log(2)
    assert published_covariance_delta(epsilon, ratio, ratio) == 0
    truth = delta(GaussianPair([1.0], [1.0], [0.0]), epsilon)
    assert truth.lo == pytest.approx(0.1034, abs=1e-4)
    assert envelope(epsilon, Sensitivity(0.0, ratio, ratio, True)) >= truth.lo
    assert published_covariance_delta(0.3, ratio, ratio) > 0


def test_an_infinite_sensitivity_is_never_private_and_one_that_is_no_number_is_refused() -> None:
    assert envelope(1.0, Sensitivity(math.inf, 0.0, 0.0, True)) == 1
    assert envelope(1.0, Sensitivity(0.1, math.inf, math.inf, True)) == 1
    for numbers in ((math.nan, 0.1, 0.1), (0.1, math.nan, 0.1), (-0.1, 0.1, 0.1), (0.1, 0.2, 0.1)):
        with pytest.raises(ValueError, match=r"numbers of at least 0|volume"):
            Sensitivity(*numbers, False)
    with pytest.raises(ValueError, match="volume"):
        Sensitivity(0.1, 0.1, 0.2, True)


# --- calibration ----------------------------------------------------------------------------------------------


def test_a_fixed_covariance_gives_the_analytic_gaussian_mechanism() -> None:
    plan = calibrate(CLAIM, lambda sigma: Sensitivity(2 / sigma if sigma else math.inf, 0.0, 0.0, True))
    assert plan.sigma == pytest.approx(2 / gaussian_mu(1.0, 1e-6), rel=1e-9)
    assert plan.promise.delta <= CLAIM.float_delta


def test_no_noise_is_added_where_the_scatter_is_enough() -> None:
    plan = calibrate(CLAIM, lambda sigma: Sensitivity(0.01, 1e-4, 1e-4, True))
    assert plan.sigma == 0
    assert plan.promise.delta < CLAIM.float_delta


def test_a_sensitivity_that_noise_does_not_lower_is_refused() -> None:
    with pytest.raises(ValueError, match="no amount of noise"):
        calibrate(CLAIM, lambda sigma: Sensitivity(3.0, 0.0, 0.0, True))


def test_draws_are_refused_where_there_is_no_law() -> None:
    stream = source("draw")
    for arguments in (
        (np.zeros(2), np.eye(3), 1.0),
        (np.array([math.nan]), np.eye(1), 1.0),
        (np.zeros(2), np.diag([1.0, -1.0]), 0.5),
        (np.zeros(2), np.zeros((2, 2)), 0.0),
        (np.zeros(2), np.eye(2), math.nan),
    ):
        with pytest.raises(ValueError, match=r"draw needs|finite|positive definite"):
            calibrated_draw(*arguments, stream)  # type: ignore[call-arg]


# --- logistic regression --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("regularization", "max_rows", "sigma", "published"),
    [(1, 1000, 4.6132544, 6.3847040), (10, 1000, 0.40440307, 1.4143186), (100, 10_000, 0.021628995, 0.41766940)],
)
@pytest.mark.slow
def test_one_moving_eigenvalue_asks_for_far_less_noise_than_the_published_route(
    regularization: float, max_rows: int, sigma: float, published: float
) -> None:
    plan = plan_logistic(CLAIM, 1.0, regularization, max_rows)
    assert plan.sigma == pytest.approx(sigma, rel=1e-6)
    assert plan.promise.status == "proved"
    assert plan.promise.delta <= CLAIM.float_delta
    # The claim holds, with little to spare, for the pair that takes all that the sensitivity allows.
    found = plan.sensitivity
    pair = GaussianPair([math.expm1(found.log_ratio)], [1.0], [found.shift**2 * math.exp(-found.log_ratio)])
    assert 0.8 * CLAIM.float_delta < delta(pair, 1.0).hi <= CLAIM.float_delta
    far = published_logistic_sensitivity(published, 1.0, regularization, 10, max_rows)
    assert envelope(1.0, far) == pytest.approx(CLAIM.float_delta, rel=1e-3)
    assert 1 / regularization / gaussian_mu(1.0, 1e-6) == pytest.approx(4.2247 / regularization, rel=1e-4)


# --- Gaussian process -----------------------------------------------------------------------------------------


def test_the_variance_of_a_prediction_has_the_ratio_of_the_vector() -> None:
    assert process_sensitivity(0.5, 1.0, 0.1, 1.0, 10).log_ratio == pytest.approx(1.29928298413, rel=1e-9)
    # The published ratio, ln(1 + K / sigma^2), is larger.
    assert process_sensitivity(0.5, 1.0, 0.1, 1.0, 10).log_ratio < math.log(1 + 1 / 0.25)


def test_a_record_at_the_point_attains_the_ratio_and_others_stay_below() -> None:
    plan = plan_gaussian_process(CLAIM, KERNEL, 0.1, 1.0, 50)
    generator = np.random.default_rng(1)
    point = np.zeros((1, 2))

    def variance(inputs: np.ndarray) -> float:
        return posterior(plan, inputs, np.zeros(len(inputs)), point)[1]

    bound = process_sensitivity(0.5, 1.0, 0.1, 1.0, 50).log_ratio
    alone = math.log((1 + 0.25) / (variance(point) + 0.25))
    assert alone == pytest.approx(bound, rel=1e-9)
    for _ in range(20):
        inputs = 0.3 * generator.normal(size=(4, 2))
        moved = math.log((variance(inputs[1:]) + 0.25) / (variance(inputs) + 0.25))
        assert 0 <= moved < bound


@pytest.mark.parametrize(("amplitude", "noise_variance"), [(1.0, 0.1), (0.2, 1.5)])
def test_one_record_moves_the_mean_by_no_more_than_the_bound(amplitude: float, noise_variance: float) -> None:
    generator = np.random.default_rng(3)
    plan = plan_gaussian_process(CLAIM, RadialKernel(amplitude, 0.4), noise_variance, 1.0, 8)
    bound = mean_shift(amplitude, noise_variance, 1.0, 8)
    assert bound < math.sqrt(8 * amplitude / noise_variance)
    largest = 0.0
    for _ in range(300):
        inputs = generator.normal(size=(8, 2)) * generator.uniform(0, 1)
        point = np.zeros((1, 2))
        targets = np.sign(generator.normal(size=8))
        whole, less = (posterior(plan, inputs[:k], targets[:k], point)[0] for k in (8, 7))
        largest = max(largest, abs(whole - less))
    assert 0.1 * bound < largest <= bound


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_record_that_the_others_bear_against_moves_the_mean_by_all_of_the_bound(count: int) -> None:
    # A linear kernel in one dimension, K = 1 at the point: the others are equal, and all targets pull one way.
    noise = 0.01
    other, own = math.sqrt(noise / count), (2 * count - 1) * math.sqrt(noise / count)
    features, targets = np.array([other] * (count - 1) + [own]), np.array([-1.0] * (count - 1) + [1.0])

    def mean(kept: int) -> float:
        matrix = np.outer(features[:kept], features[:kept]) + noise * np.eye(kept)
        return float(features[:kept] @ np.linalg.solve(matrix, targets[:kept])) if kept else 0.0

    assert own <= 1
    bound = mean_shift(1.0, noise, 1.0, count)
    assert bound * (1 - 1e-6) < abs(mean(count) - mean(count - 1)) <= bound


def test_a_prediction_is_a_draw_about_the_posterior_mean() -> None:
    inputs = np.linspace(-1, 1, 21)[:, np.newaxis]
    plan = plan_gaussian_process(curator_claim(5.0, 1e-2, "zero-out"), KERNEL, 0.5, 1.0, 30)
    median = lambda count: (1 << 63).to_bytes(8, "little") * (count // 8)  # noqa: E731
    release = gaussian_process_prediction(inputs, 3 * np.ones(21), np.zeros(1), plan, median)
    mean, variance = posterior(plan, inputs, np.ones(21), np.zeros((1, 1)))
    assert release.value == pytest.approx(mean)
    assert 0 < variance < 1
    drawn = gaussian_process_prediction(inputs, np.ones(21), np.zeros(1), plan, source("draw")).value
    assert drawn != release.value
    assert abs(drawn - mean) < 6 * math.hypot(plan.calibrated.sigma, 1)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"inputs": np.zeros((3, 1))}, "more records"),
        ({"targets": np.zeros(3)}, "needs finite"),
        ({"targets": np.array([0.0, math.nan])}, "needs finite"),
        ({"point": np.zeros(2)}, "needs finite"),
        ({"inputs": np.full((2, 1), math.inf)}, "finite"),
    ],
)
def test_wrong_arguments_of_a_prediction_are_refused(change: dict, complaint: str) -> None:
    arguments = {
        "inputs": np.zeros((2, 1)), "targets": np.zeros(2), "point": np.zeros(1),
        "plan": plan_gaussian_process(CLAIM, KERNEL, 0.1, 1.0, 2), "random_bytes": source("no"),
    }  # fmt: skip
    if "more records" in complaint:
        change = {**change, "targets": np.zeros(3)}
    with pytest.raises(ValueError, match=complaint):
        gaussian_process_prediction(**{**arguments, **change})


@pytest.mark.parametrize(
    ("numbers", "complaint"),
    [((0.0, 1.0, 5), "noise_variance"), ((1.0, 0.0, 5), "target"), ((1.0, 1.0, 0), "max_rows")],
)
def test_plans_of_a_prediction_without_bounds_are_refused(numbers: tuple[float, float, int], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        plan_gaussian_process(CLAIM, KERNEL, *numbers)
    with pytest.raises(ValueError, match="amplitude"):
        RadialKernel(math.nan, 1.0)
    with pytest.raises(ValueError, match="zero-out"):
        plan_gaussian_process(curator_claim(1.0, 1e-6, "replace-one"), KERNEL, 1.0, 1.0, 5)
