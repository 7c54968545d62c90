"""Laws of privacy profiles: they hold for every pair of Gaussians, up to the stated error of the computation."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lintra_curator.ndis import GaussianPair, delta, delta_als, delta_ols, delta_rp, pair_from_gaussians, renyi_bound
from support import few

RTOL = 1e-5
etas = st.one_of(st.floats(-0.9, -1e-4), st.floats(1e-4, 5.0), st.just(0.0))
groups = st.tuples(etas, st.sampled_from([1, 1.5, 2, 5, 40]), st.one_of(st.just(0.0), st.floats(1e-6, 4.0)))
pairs = st.lists(groups, min_size=1, max_size=4).map(lambda rows: GaussianPair(*map(list, zip(*rows, strict=True))))
epsilons = st.floats(0.0, 6.0)


def covariance(seed: int, size: int) -> np.ndarray:
    factor = np.random.default_rng(seed).standard_normal((size, size + 2))
    return factor @ factor.T


@few
@given(pairs, epsilons, epsilons)
def test_delta_lies_in_the_unit_interval_and_falls_with_epsilon(pair: GaussianPair, one: float, other: float) -> None:
    low, high = (delta(pair, at, RTOL) for at in sorted((one, other)))
    assert 0 <= high.lo <= high.value <= high.hi <= 1
    assert high.lo <= low.hi


@few
@given(pairs, epsilons)
def test_delta_is_at_most_the_chernoff_bound_and_a_finer_computation_agrees(pair: GaussianPair, at: float) -> None:
    coarse, fine = delta(pair, at, 1e-2), delta(pair, at, 1e-7)
    assert coarse.lo <= fine.hi
    assert fine.lo <= coarse.hi
    assert fine.lo <= renyi_bound(pair, at)


@few
@given(pairs, st.floats(0.01, 3.0))
def test_both_directions_are_one_curve(pair: GaussianPair, at: float) -> None:
    mirrored = delta(pair.reverse(), -at, RTOL)
    direct = delta(pair, at, RTOL)
    base, weight = 1 - math.exp(-at), math.exp(-at)
    assert mirrored.lo <= base + weight * direct.hi + 1e-14
    assert base + weight * direct.lo <= mirrored.hi + 1e-14


@few
@given(pairs, pairs, epsilons)
def test_a_composition_tells_at_least_as_much_as_either_part(one: GaussianPair, other: GaussianPair, at: float) -> None:
    both = delta(one.compose(other), at, RTOL)
    assert max(delta(one, at, RTOL).lo, delta(other, at, RTOL).lo) <= both.hi
    swapped = delta(other.compose(one), at, RTOL)
    assert swapped.lo <= both.hi
    assert both.lo <= swapped.hi


@few
@given(st.integers(0, 10**6), st.integers(1, 4), st.floats(0.01, 10.0), epsilons)
def test_independent_noise_on_both_sides_never_raises_delta(seed: int, size: int, noise: float, at: float) -> None:
    mean = np.random.default_rng(seed + 1).standard_normal(size)
    s1, s2 = covariance(seed, size), covariance(seed + 2, size)
    added = noise * np.eye(size)
    before = delta(pair_from_gaussians(mean, s1, np.zeros(size), s2), at, RTOL)
    after = delta(pair_from_gaussians(mean, s1 + added, np.zeros(size), s2 + added), at, RTOL)
    assert after.lo <= before.hi * (1 + 1e-6) + 1e-12


@few
@given(st.integers(0, 10**6), st.integers(2, 4), epsilons)
def test_seeing_fewer_coordinates_never_raises_delta(seed: int, size: int, at: float) -> None:
    mean = np.random.default_rng(seed + 1).standard_normal(size)
    s1, s2 = covariance(seed, size), covariance(seed + 2, size)
    every = delta(pair_from_gaussians(mean, s1, np.zeros(size), s2), at, RTOL)
    some = pair_from_gaussians(mean[1:], s1[1:, 1:], np.zeros(size - 1), s2[1:, 1:])
    assert delta(some, at, RTOL).lo <= every.hi * (1 + 1e-6) + 1e-12


@few
@given(st.floats(0.0, 0.9), st.floats(0.0, 0.9), st.floats(0.5, 500), st.floats(-2, 6))
def test_a_projection_leaks_more_at_a_larger_leverage(one: float, other: float, columns: float, at: float) -> None:
    for direction in ("remove", "add"):
        low, high = (float(delta_rp(at, p, columns, direction)) for p in sorted((one, other)))
        assert low <= high + 1e-13


@few
@given(st.floats(1e-4, 0.45), st.floats(1e-4, 0.45), st.integers(1, 8), st.integers(0, 200), st.floats(0, 3))
def test_sketched_least_squares_leaks_no_more_than_the_sketch(p: float, s: float, d: int, more: int, at: float) -> None:
    exact = delta_als(at, p, s, d + 1 + more, d)
    assert 0 <= exact <= float(delta_rp(at, p + s, d + 1 + more)) * (1 + 1e-7) + 1e-12
    assert 0 <= delta_ols(at, p, s, d + 1 + more, d) <= 1


@few
@given(pairs, st.floats(1.0, 4.0), epsilons)
def test_a_longer_mean_shift_in_the_same_direction_never_lowers_delta(
    pair: GaussianPair, factor: float, at: float
) -> None:
    longer = GaussianPair(pair.eta, pair.mult, factor**2 * pair.tsq)
    assert delta(pair, at, RTOL).lo <= delta(longer, at, RTOL).hi + 1e-14


@few
@given(st.lists(st.tuples(st.floats(1e-4, 5.0), st.sampled_from([1, 2, 5, 40])), min_size=1, max_size=4), epsilons)
def test_with_equal_means_the_more_spread_law_against_the_less_is_harder(
    spread: list[tuple[float, float]], at: float
) -> None:
    eta, mult = zip(*spread, strict=True)
    pair = GaussianPair(eta, mult, [0.0] * len(eta))
    assert delta(pair.reverse(), at, RTOL).lo <= delta(pair, at, RTOL).hi + 1e-14
