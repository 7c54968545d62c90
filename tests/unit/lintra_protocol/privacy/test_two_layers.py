"""Two layers of noise: exact laws of small sums and of dependent rows stay below T1 and T2, at the price they name."""

import math
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from lintra_protocol.privacy.discrete import discrete_delta, kappa
from lintra_protocol.privacy.gaussian import gaussian_epsilon, gaussian_mu
from lintra_protocol.privacy.statement import SMOOTHING
from lintra_protocol.privacy.two_layers import (
    alone_slack,
    alone_variance,
    error_ratio,
    split_variance,
    together_slack,
)

Law = NDArray[np.float64]
EPSILONS = (0.1, 1.0, 3.0)


def line(variance: float) -> Law:
    """The law of one draw, on integers about 0."""
    places = np.arange(-int(10 * math.sqrt(variance)) - 5, int(10 * math.sqrt(variance)) + 6)
    masses = np.exp(-(places**2) / (2 * variance))
    return np.asarray(masses / masses.sum())


def summed(variance: float, floor: float, clients: int) -> Law:
    """That of so many clients' noise and one server's."""
    law = np.ones(1)
    for each in [variance] * clients + ([floor] if floor else []):
        law = np.convolve(law, line(each))
    return law


def delta_of(law: Law, moved: tuple[int, ...], epsilon: float) -> float:
    """Of a law on a line or a plane against itself, moved: exactly, but for tails of 1e-20 and rounding."""
    wide = np.pad(law, [(abs(step), abs(step)) for step in moved])
    other = np.roll(wide, moved, axis=tuple(range(len(moved))))
    return max(float(np.clip(wide - math.exp(epsilon) * other, 0, None).sum()) - 1e-13, 0.0)


@pytest.mark.parametrize("clients", [1, 2, 4])
@pytest.mark.parametrize("floor", [0.0, 4.0, 9.0, 40.0])
def test_sums_of_both_layers_stay_below_their_theorems(floor: float, clients: int) -> None:
    for variance, moved, epsilon in product((9.0, 16.0), (1, 4, 11), EPSILONS):
        exact = delta_of(summed(variance, floor, clients), (moved,), epsilon)
        mu = moved / math.sqrt(clients * variance + floor - SMOOTHING)
        slack = together_slack(clients, 1, variance, SMOOTHING, floor)
        assert exact <= discrete_delta(epsilon, mu, slack) * (1 + 1e-9)
        if clients == 1:
            alone = moved / math.sqrt(alone_variance(variance, SMOOTHING, floor))
            assert exact <= discrete_delta(epsilon, alone, alone_slack(1, variance, SMOOTHING, floor)) * (1 + 1e-9)
            # A promise that counted the client's noise twice would be false.
            twice = moved / math.sqrt(alone_variance(2 * variance, SMOOTHING, floor) + SMOOTHING)
            assert moved < 11 or exact > discrete_delta(epsilon, twice, 0.0)


def on_a_plane(columns: list[tuple[int, int]], variance: float, floor: float, reach: int) -> Law:
    """The law of two dependent rows: noise of clients with these columns, and of one server in both."""
    places = np.arange(-reach, reach + 1)
    masses = np.exp(-(places**2) / (2 * floor))
    law = np.multiply.outer(masses / masses.sum(), masses / masses.sum())
    draws = line(variance)
    for column in columns:
        total = np.zeros_like(law)
        for value, mass in enumerate(draws, -(len(draws) // 2)):
            total += mass * np.roll(law, (column[0] * value, column[1] * value), (0, 1))
        law = total
    return law


@pytest.mark.parametrize(
    ("columns", "variance", "floor"),
    [([(1, 1), (1, -1)], 16.0, 8.0), ([(1, -1), (1, 1), (0, 1)], 9.0, 8.0), ([(2, 1), (1, 2)], 9.0, 20.0),
     pytest.param([(6, 1), (-2, 3)], 9.0, 100.0, marks=pytest.mark.slow)],
)  # fmt: skip
def test_dependent_rows_stay_below_both_theorems(columns: list[tuple[int, int]], variance: float, floor: float) -> None:
    grams = np.array([np.outer(column, column) for column in columns])
    reach = int(8 * math.sqrt(floor + variance * np.max(grams.sum(axis=0))))
    own, entries = np.array(columns[0], np.float64), int(np.dot(columns[0], columns[0]))
    for epsilon, of_both in product(EPSILONS, (True, False)):
        known = columns if of_both else columns[:1]
        law = on_a_plane(known, variance, floor, reach)
        exact = delta_of(law, columns[0], epsilon)
        if of_both:
            covariance = variance * grams.sum(axis=0) + (floor - SMOOTHING) * np.eye(2)
            mu = math.sqrt(own @ np.linalg.solve(covariance, own))
            largest = max(int(np.dot(column, column)) for column in columns)
            slack = len(columns) * kappa(1 / (1 / variance + largest / floor)) + 2 * kappa(SMOOTHING)
        else:
            mu = 1 / math.sqrt(alone_variance(variance, SMOOTHING, floor, entries))
            slack = 2 * alone_slack(1, variance, SMOOTHING, floor, entries)
        assert exact <= discrete_delta(epsilon, mu, slack) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_what_a_floor_leaves_of_a_leverage_is_bounded_for_any_matrix(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, clients, added = int(rng.integers(2, 7)), int(rng.integers(7, 40)), float(rng.uniform(0.01, 20))
    matrix = rng.integers(-3, 4, (rows, clients)).astype(np.float64)
    gram, own = matrix @ matrix.T, matrix[:, :1]
    leverage, squared = float((own.T @ np.linalg.solve(gram, own))[0, 0]), float(np.square(own).sum())
    left = float((own.T @ np.linalg.solve(gram + added * np.eye(rows), own))[0, 0])
    assert left <= leverage / (1 + added * leverage / max(squared, 1)) * (1 + 1e-12)
    # Equal eigenvalues attain it, so that a floor that counted any more would be a false promise.
    flat = np.repeat(np.eye(rows), clients, axis=1)
    even = 1 / (clients + added)
    assert even == pytest.approx((1 / clients) / (1 + added / clients))
    assert np.linalg.inv(flat @ flat.T + added * np.eye(rows))[0, 0] == pytest.approx(even)


def test_merged_reports_of_a_source_need_the_second_form() -> None:
    variance, floor, times = 9.0, 30.0, 3
    exact = delta_of(summed(variance, floor, times), (times * 2,), 1.0)
    merged = 2 / math.sqrt(alone_variance(variance, SMOOTHING, floor, merged=True))
    assert exact <= discrete_delta(1.0, times * merged, times * alone_slack(1, variance, SMOOTHING, floor))
    assert exact > discrete_delta(1.0, 2 / math.sqrt(alone_variance(variance, SMOOTHING, floor)), 0.0)


def test_nothing_hides_a_report_in_several_rows_without_a_floor() -> None:
    with pytest.raises(ValueError, match="hide nothing alone behind 3 entries"):
        alone_variance(100.0, SMOOTHING, 0.0, 3)


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize(
    ("together", "alone", "clients"), [(1000, 133, 190), (1000, 133, 5), (900, 800, 2), (50, 7, 1)]
)
def test_both_variances_are_as_small_as_both_promises_allow(
    together: float, alone: float, clients: int, merged: bool
) -> None:
    variance, floor = split_variance(together, alone, clients, merged=merged)
    assert clients * variance + floor >= together * (1 - 1e-12)
    assert (variance if not floor or not merged else 0.0) + floor >= alone * (1 - 1e-12)
    # Whatever else keeps both promises has more noise in a sum with the floor of one server, or of several.
    for more in (0.9, 0.99, 1.01, 1.1):
        other = max(together - clients * variance * more, alone - variance * more * (not merged), 0.0)
        assert clients * variance * more + 2 * other >= (clients * variance + 2 * floor) * (1 - 1e-9)


COSTS = {
    (1, 3, 10**9, 0): (6.5, 12.6, 18.3, 23.9),
    (1, 3, 200, 10): (5.6, 11.3, 16.7, 21.8),
    (1, 5, 10**9, 0): (2.7, 5.2, 7.8, 10.2),
    (0.1, 0.3, 10**9, 0): (6.2, 12.1, 17.7, 23.0),
    (4, 12, 10**9, 0): (7.3, 14.2, 20.7, 26.8),
    (1, 3, 20, 1): (3.8, 7.6, 11.3, 14.9),
}


@pytest.mark.parametrize("row", COSTS)
def test_a_second_layer_costs_what_the_table_says(row: tuple[float, float, int, int]) -> None:
    epsilon, alone, clients, corrupt = row
    delta = 1e-6
    ratio = (gaussian_mu(epsilon, delta) / gaussian_mu(alone, delta)) ** 2
    costs = [100 * (error_ratio(ratio, clients, corrupt, servers) - 1) for servers in (2, 3, 4, 5)]
    assert tuple(round(cost, 1) for cost in costs) == COSTS[row]
    if (epsilon, alone) == (1, 3):
        assert costs[0] <= 6.6
        assert costs[1] <= 12.7


INVENTED = {10: (1.00, 1.00), 100: (1.33, 1.41), 190: (2.58, 5.06), 199: (3.00, 20.2)}


@pytest.mark.parametrize("invented", INVENTED)
def test_invented_clients_gain_no_more_than_the_floor_leaves(invented: int) -> None:
    """Of 200 clients and a plan against 10: with both layers, and with one."""
    one, three = (gaussian_mu(epsilon, 1e-6) ** -2 for epsilon in (1.0, 3.0))
    variance, floor = split_variance(one, three, 190)
    layers = (200 - invented) * variance + floor, (200 - invented) * one / 190
    shown = [gaussian_epsilon(1 / math.sqrt(total), 1e-6) for total in layers]
    assert tuple(round(epsilon, 1 if epsilon > 10 else 2) for epsilon in shown) == INVENTED[invented]


TWICE = {"both": 4.34, "servers": 1.45}


def test_noise_that_is_drawn_twice_for_the_same_reports_is_worth_half() -> None:
    """With both layers everybody else is invented, and the client's own noise is the same in both."""
    one, three = (gaussian_mu(epsilon, 1e-6) ** -2 for epsilon in (1.0, 3.0))
    variance, floor = split_variance(one, three, 190)
    left = {"both": variance + floor / 2, "servers": one / 2}
    assert {who: round(gaussian_epsilon(total**-0.5, 1e-6), 2) for who, total in left.items()} == TWICE
