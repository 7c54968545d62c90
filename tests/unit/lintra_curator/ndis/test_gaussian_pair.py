"""Pairs of Gaussians: invariants, ranges, the moment-generating function, and what is refused."""

import math

import numpy as np
import pytest

from lintra_curator.ndis import GaussianPair, delta, pair_from_gaussians, renyi_bound, rp_pair, split_bound
from lintra_protocol.privacy.gaussian import gaussian_delta

S1, S2 = np.array([[2, 0.5], [0.5, 1]]), np.diag([1.0, 1.5])


def test_the_logarithm_of_the_moments_of_a_projection_has_its_known_value() -> None:
    assert rp_pair(0.05, 30).log_mgf(4.0) == pytest.approx(0.4682340077104, rel=1e-12, abs=0)


def test_moments_agree_with_draws_of_the_loss_itself() -> None:
    rng = np.random.default_rng(3)
    mu = np.array([0.3, -0.2])
    x = mu + rng.standard_normal((400_000, 2)) @ np.linalg.cholesky(S1).T
    square = np.einsum("ni,ij,nj->n", x, np.linalg.inv(S2), x)
    centered = np.einsum("ni,ij,nj->n", x - mu, np.linalg.inv(S1), x - mu)
    loss = 0.5 * (square - centered - math.log(np.linalg.det(S1) / np.linalg.det(S2)))
    pair = pair_from_gaussians(mu, S1, [0, 0], S2)
    # Deviations of means of 400,000 draws are below 0.002 here; 5 of them, for a false-alarm rate below 1e-5.
    for s in (-0.4 + 0j, 0.2 + 0j, 0.1 + 1j, -0.2 + 3j):
        assert abs(np.mean(np.exp(s * loss)) - np.exp(pair.log_mgf(s))) < 0.01
    assert abs(np.mean(np.exp(0.2 * loss)) - np.exp(pair.log_mgf(0.21)).real) > 0.0005


def test_moments_at_0_and_minus_1_are_1_and_reversal_reflects_them() -> None:
    pair = pair_from_gaussians([0.3, -0.2], S1, [0, 0], S2)
    assert np.allclose(pair.log_mgf(np.array([0.0, -1.0])), 0, atol=1e-14)
    assert pair.reverse().log_mgf(0.3) == pytest.approx(pair.log_mgf(-1.3), rel=1e-12, abs=0)
    assert pair.reverse().reverse().eta == pytest.approx(pair.eta, rel=1e-14, abs=0)


def test_a_composition_multiplies_moments() -> None:
    one, other = rp_pair(0.1, 5), GaussianPair([-0.2, 0.0], [2, 1], [0.4, 0.3])
    s = np.array([0.2, 0.5 + 2j])
    assert np.allclose(one.compose(other, one).log_mgf(s), 2 * one.log_mgf(s) + other.log_mgf(s), rtol=1e-13)


def test_the_pair_does_not_depend_on_coordinates() -> None:
    rng = np.random.default_rng(5)
    basis = rng.standard_normal((2, 2)) * [1e-6, 1e8]
    mu = np.array([0.3, -0.2])
    plain = pair_from_gaussians(mu, S1, [0, 0], S2)
    turned = pair_from_gaussians(mu @ basis, basis.T @ S1 @ basis, [0, 0], basis.T @ S2 @ basis)
    assert turned.eta == pytest.approx(plain.eta, rel=1e-9, abs=0)
    assert turned.tsq == pytest.approx(plain.tsq, rel=1e-9, abs=0)


def test_equal_covariances_give_one_group_without_change_of_variance() -> None:
    pair = pair_from_gaussians([1.0, 0.0], S1, [0.0, 0.0], S1)
    assert pair.eta.tolist() == [0.0]
    assert pair.mult.tolist() == [2.0]
    assert pair.tsq[0] == pytest.approx(np.linalg.inv(S1)[0, 0], rel=1e-12, abs=0)


@pytest.mark.parametrize("power", [-8, -20, -34])
def test_covariances_that_differ_little_keep_their_digits(power: int) -> None:
    rng = np.random.default_rng(9)
    factor, direction = rng.integers(-9, 10, (6, 9)).astype(float), rng.integers(-3, 4, 6).astype(float)
    base, change = factor @ factor.T, 2.0**power * np.outer(direction, direction)  # exact, also their sum
    pair = pair_from_gaussians(np.zeros(6), base + change, np.zeros(6), base)
    expected = 2.0**power * direction @ np.linalg.solve(base, direction)
    assert pair.eta.max() == pytest.approx(expected, rel=1e-12, abs=0)
    assert pair.mult[np.argmax(pair.eta)] == 1
    assert pair.mult.sum() == 6


def test_laws_that_are_too_far_apart_to_compare_are_refused() -> None:
    assert pair_from_gaussians(0.0, 1e-14, 0.0, 1.0).eta[0] == pytest.approx(-1)
    for v1, v2 in ((1e-16, 1.0), (1.0, 1e-16)):
        with pytest.raises(ValueError, match="too far apart"):
            pair_from_gaussians(0.0, v1, 0.0, v2)


def test_singular_covariances_of_one_range_are_compared_within_it() -> None:
    rng = np.random.default_rng(6)
    embed = rng.standard_normal((5, 2))
    mu = np.array([0.3, -0.2])
    inner = pair_from_gaussians(mu, S1, [0, 0], S2)
    outer = pair_from_gaussians(embed @ mu, embed @ S1 @ embed.T, np.zeros(5), embed @ S2 @ embed.T)
    assert outer.eta == pytest.approx(inner.eta, rel=1e-9, abs=0)
    assert outer.tsq == pytest.approx(inner.tsq, rel=1e-9, abs=0)


@pytest.mark.parametrize(
    ("mu", "first", "second"),
    [
        ([0.0, 0.0], np.diag([1.0, 0.0]), np.diag([1.0, 1.0])),
        ([0.0, 0.0], np.diag([1.0, 0.0]), np.diag([0.0, 1.0])),
        ([0.0, 1.0], np.diag([1.0, 0.0]), np.diag([2.0, 0.0])),
        ([1.0, 0.0], np.zeros((2, 2)), np.zeros((2, 2))),
    ],
)
def test_different_ranges_or_a_mean_outside_make_delta_1(
    mu: list[float], first: np.ndarray, second: np.ndarray
) -> None:
    pair = pair_from_gaussians(mu, first, [0.0, 0.0], second)
    assert pair.disjoint
    assert pair.reverse().disjoint
    assert pair.compose(rp_pair(0.1, 3)).disjoint
    assert pair.max_loss == math.inf
    assert delta(pair, 100.0).lo == 1.0
    assert renyi_bound(pair, 100.0) == 1.0
    with pytest.raises(ValueError, match="disjoint"):
        pair.log_mgf(0.5)


def test_two_constants_that_agree_are_the_same_law() -> None:
    pair = pair_from_gaussians([1.0, 0.0], np.zeros((2, 2)), [1.0, 0.0], np.zeros((2, 2)))
    assert delta(pair, 0.0).hi == 0.0


def test_the_largest_loss_is_that_of_the_best_outcome() -> None:
    pair = pair_from_gaussians(0.4, 1.0, 0.0, 2.0)
    x = np.linspace(-20, 20, 400_001)
    loss = -((x - 0.4) ** 2) / 2 + x**2 / 4 + 0.5 * math.log(2.0)
    assert pair.max_loss == pytest.approx(loss.max(), rel=1e-9, abs=0)
    assert pair.reverse().max_loss == math.inf


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([0.0], np.eye(1), [0.0, 0.0], np.eye(1)), "coordinates"),
        (([0.0, 0.0], np.eye(3), [0.0, 0.0], np.eye(2)), "shape"),
        (([0.0, math.nan], np.eye(2), [0.0, 0.0], np.eye(2)), "finite"),
        (([0.0, 0.0], np.diag([1, math.inf]), [0.0, 0.0], np.eye(2)), "finite"),
        (([0.0, 0.0], np.array([[1.0, 0.5], [0.0, 1.0]]), [0.0, 0.0], np.eye(2)), "symmetric"),
        (([0.0, 0.0], np.array([[1.0, 2.0], [2.0, 1.0]]), [0.0, 0.0], np.eye(2)), "semidefinite"),
        (([[0.0, 0.0]], np.eye(2), [0.0, 0.0], np.eye(2)), "vector"),
    ],
)
def test_laws_that_are_no_gaussians_are_refused(arguments: tuple[object, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        pair_from_gaussians(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("eta", "mult", "tsq", "words"),
    [
        ([-1.0], [1], [0], "above -1"),
        ([math.inf], [1], [0], "above -1"),
        ([math.nan], [1], [0], "above -1"),
        ([0.1], [-1], [0], "at least 0"),
        ([0.1], [1], [math.nan], "at least 0"),
        ([0.1], [1, 2], [0], "one length"),
        ([0.1], [0], [1], "no mean shift"),
    ],
)
def test_invariants_out_of_range_are_refused(eta: list[float], mult: list[float], tsq: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        GaussianPair(eta, mult, tsq)


def test_moments_outside_the_strip_are_refused() -> None:
    pair = GaussianPair([0.5, -0.5], [1, 1], [0, 0])
    for s in (2.0, -2.0, 3 + 1j):
        with pytest.raises(ValueError, match="infinite"):
            pair.log_mgf(s)


def test_a_pair_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        rp_pair(0.1, 3).eta[0] = 0.0


def test_the_chernoff_bound_has_its_known_value_and_lies_above_the_profile() -> None:
    assert renyi_bound(rp_pair(0.05, 30), 1) == pytest.approx(4.86342631e-5, rel=1e-6, abs=0)
    for pair in (rp_pair(0.05, 30), GaussianPair([0.2, -0.1, 0.0], [3, 1, 2], [0.1, 0.2, 0.3])):
        for at in (0.0, 0.5, 3.0, 20.0):
            assert delta(pair, at, 1e-6).value <= renyi_bound(pair, at) <= 1.0


@pytest.mark.slow
def test_the_split_lies_above_the_profile_of_mean_and_covariance_together() -> None:
    covariance = rp_pair(0.05, 4)
    shift = 0.3
    joint = pair_from_gaussians([shift, 0, 0, 0], np.eye(4) / 0.95, np.zeros(4), np.eye(4))

    def hard(at: float) -> float:
        return delta(covariance, at, 1e-6).hi

    for at in (0.0, 0.5, 1.0):
        bound = split_bound(at, shift, hard)
        assert delta(joint, at, 1e-6).lo <= bound
        assert delta(joint.reverse(), at, 1e-6).lo <= bound
    assert split_bound(1.0, 0.4, lambda at: 0.0) == pytest.approx(gaussian_delta(1.0, 0.4), rel=1e-9, abs=0)
    with pytest.raises(ValueError, match="epsilon"):
        split_bound(-1.0, shift, hard)
