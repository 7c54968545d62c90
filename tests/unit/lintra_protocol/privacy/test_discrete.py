"""The price of integers: vectors, and exact enumeration that stays below the bounds."""

import math
from itertools import pairwise

import numpy as np
import pytest

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.discrete import (
    discrete_delta,
    discrete_epsilon,
    discrete_mu,
    kappa,
    row_slack,
    smoothed_slack,
)
from lintra_protocol.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu

KAPPA = [(0.25, 2.876953e-2), (0.5, 2.068927e-4), (1, 1.070115e-8), (2, 2.862866e-17), (4, 2.049001e-34)]


def discrete_gaussian_pmf(variance: float, reach: int) -> FloatArray:
    """Probabilities of -reach..reach."""
    weights: FloatArray = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * variance))
    weights /= weights.sum()
    return weights


def hockey_stick(pmf: FloatArray, shifted: FloatArray, epsilon: float) -> float:
    return float(np.maximum(pmf - math.exp(epsilon) * shifted, 0).sum())


def exact_delta_of_a_sum(clients: int, variance: float, shift: int, epsilon: float) -> float:
    pmf = np.ones(1)
    for _ in range(clients):
        pmf = np.convolve(pmf, discrete_gaussian_pmf(variance, math.ceil(12 * math.sqrt(variance))))
    room = np.zeros(shift)
    return hockey_stick(np.concatenate([pmf, room]), np.concatenate([room, pmf]), epsilon)


def exact_delta_of_two_rows(
    matrix: list[list[int]], variance: float, smoothing: float, shift: int, epsilon: float
) -> float:
    """The first column's client moves by `shift`; each row gets server noise; everything on a torus of 256 x 256."""
    size = 256
    grid = np.zeros((size, size))
    server = discrete_gaussian_pmf(smoothing, 30)
    grid[:61, :61] = np.outer(server, server)
    grid = np.roll(grid, (-30, -30), axis=(0, 1))
    client = discrete_gaussian_pmf(variance, 30)
    for first, second in zip(*matrix, strict=True):
        steps = zip(range(-30, 31), client, strict=True)
        grid = sum(p * np.roll(grid, (first * k, second * k), axis=(0, 1)) for k, p in steps)
    moved = np.roll(grid, (matrix[0][0] * shift, matrix[1][0] * shift), axis=(0, 1))
    return hockey_stick(grid, moved, epsilon)


@pytest.mark.parametrize(("variance", "value"), KAPPA)
def test_kappa_has_its_reference_values(variance: float, value: float) -> None:
    assert kappa(variance) == pytest.approx(value, rel=3e-7, abs=0)


def test_kappa_bounds_how_uneven_the_lattice_is() -> None:
    for variance in (0.1, 0.25, 0.5):
        sums = [np.exp(-((np.arange(-50, 51) - v) ** 2) / (2 * variance)).sum() for v in np.linspace(0, 1, 21)]
        assert math.log(max(sums) / min(sums)) == pytest.approx(kappa(variance), rel=1e-2)
        assert math.log(max(sums) / min(sums)) <= kappa(variance) * (1 + 1e-9)


def test_slacks_have_their_reference_values() -> None:
    assert row_slack(3, 2, 4, 2) == pytest.approx(1.145148e-16, rel=5e-7, abs=0)
    assert smoothed_slack(1000, 10, 3, 1e6, 8, 2) == pytest.approx(6.148944e-31, rel=2e-7, abs=0)
    # The planning table: sums over 1e5 clients in 256 rows, and over 1e6 clients, with smoothing 4.
    assert row_slack(341, 10, 1837.0**2, 4) == pytest.approx(2e-33, rel=0.05, abs=0)
    assert row_slack(10**6, 1275, 581.0**2, 4) == pytest.approx(3e-31, rel=0.2, abs=0)


@pytest.mark.parametrize("variance", [0.3, 1.0, 16.0])
def test_the_cheap_slack_of_many_clients_is_never_below_the_exact_sum(variance: float) -> None:
    exact = 7 * (math.fsum(kappa(variance * j / (j + 1)) for j in range(1, 5000)) + kappa(0.2))
    assert exact <= row_slack(5000, 7, variance, 0.2) <= 1.1 * exact


def test_the_slack_of_one_client_is_that_of_smoothing_alone() -> None:
    assert row_slack(1, 3, 4.0, 2.0) == 3 * kappa(2.0)


def test_a_sum_of_four_coarse_noises_obeys_theorem_d1() -> None:
    exact = exact_delta_of_a_sum(4, 4.0, 2, 0.5)
    bound = discrete_delta(0.5, 2 / math.sqrt(4 * 4.0 - 1.5), row_slack(4, 1, 4.0, 1.5))
    assert exact == pytest.approx(5.165617e-2, rel=1e-7)
    assert bound == pytest.approx(6.020952e-2, rel=1e-7)
    assert exact <= bound


def test_a_sum_of_sixteen_noises_obeys_theorem_d1() -> None:
    exact = exact_delta_of_a_sum(16, 16.0, 8, 0.5)
    bound = discrete_delta(0.5, 8 / math.sqrt(16 * 16.0 - 1.5), row_slack(16, 1, 16.0, 1.5))
    assert exact == pytest.approx(5.239131e-2, rel=1e-7)
    assert bound == pytest.approx(5.288400e-2, rel=1e-7)
    assert exact <= bound


def test_two_dependent_rows_with_server_noise_obey_theorem_d2() -> None:
    matrix = [[1, 1, 1], [1, -1, 1]]
    gram = np.array(matrix) @ np.array(matrix).T
    leverage = float(np.ones(2) @ np.linalg.inv(gram) @ np.ones(2))
    exact = exact_delta_of_two_rows(matrix, 9.0, 4.0, 3, 0.3)
    bound = discrete_delta(0.3, 3 * math.sqrt(leverage) / 3, smoothed_slack(3, 2, 1, 9.0, 4.0, 2))
    assert exact == pytest.approx(1.62396e-1, rel=5e-6)
    assert bound == pytest.approx(1.77088e-1, rel=5e-6)
    assert exact <= bound


def test_noise_below_the_lattice_breaks_the_continuous_claim_which_is_why_the_slack_exists() -> None:
    exact = exact_delta_of_a_sum(1, 0.1, 1, 0.5)
    assert exact > gaussian_delta(0.5, 1 / math.sqrt(0.1))
    assert exact <= discrete_delta(0.5, 1 / math.sqrt(0.1 - 0.05), row_slack(1, 1, 0.1, 0.05))


def test_without_slack_integers_cost_nothing() -> None:
    assert discrete_delta(1, 0.5, 0.0) == gaussian_delta(1, 0.5)
    assert discrete_epsilon(0.5, 1e-6, 0.0) == gaussian_epsilon(0.5, 1e-6)
    assert discrete_mu(1, 1e-6, 0.0) == gaussian_mu(1, 1e-6) * (1 - 1e-9)


def test_a_planned_variance_reaches_the_reference_mu() -> None:
    # B_Z = 65536, replacing one row, 64 clients in the row, server smoothing.
    variance = math.ceil((2 * 65536 / gaussian_mu(1, 1e-6)) ** 2 / 64)
    assert variance == 4791012321
    assert 2 * 65536 / math.sqrt(64 * variance) == pytest.approx(0.236704380655, abs=6e-13)


def test_a_huge_slack_promises_nothing() -> None:
    assert discrete_delta(1, 0.5, 1e6) == 1.0


def test_epsilon_is_zero_where_delta_alone_covers_everything() -> None:
    assert discrete_epsilon(1e-9, 1e-6, 1e-8) == 0.0


def test_slacks_in_a_row_grow_with_the_clients() -> None:
    slacks = [row_slack(c, 2, 0.5, 0.4) for c in (1, 2, 3, 1000, 1024, 1025, 1026, 10**6)]
    assert all(low < high for low, high in pairwise(slacks))


@pytest.mark.parametrize("variance", [0.0, -1.0, math.nan, 0.01, 1e-9])
def test_a_variance_too_small_for_any_bound_is_refused(variance: float) -> None:
    with pytest.raises(ValueError, match="variance"):
        kappa(variance)


def test_senseless_arguments_are_refused() -> None:
    for counts in [(0, 1), (1, 0)]:
        with pytest.raises(ValueError, match="at least 1"):
            row_slack(*counts, 4.0, 2.0)
        with pytest.raises(ValueError, match="at least 1"):
            smoothed_slack(*counts, 1, 4.0, 2.0, 1)
    with pytest.raises(ValueError, match="takes all"):
        row_slack(2, 1, 2.0, 4.0)
    with pytest.raises(ValueError, match="positive"):
        smoothed_slack(1, 1, 1, 0.0, 4.0, 1)
    for slack in (-1e-9, math.inf, math.nan):
        with pytest.raises(ValueError, match="slack"):
            discrete_delta(1, 1, slack)
    with pytest.raises(ValueError, match="leaves nothing"):
        discrete_mu(0.1, 1e-6, 0.06)


def test_the_noise_of_one_or_two_honest_organisations_obeys_theorem_d1() -> None:
    for honest, variance, shift, epsilon, exact, bound in (
        (1, 16.0, 8, 0.5, 5.960428e-1, 6.855304e-1),
        (2, 1e4, 150, 1.0, 1.487452e-1, 1.487836e-1),
    ):
        assert exact_delta_of_a_sum(honest, variance, shift, epsilon) == pytest.approx(exact, rel=1e-6)
        mu = shift / math.sqrt(honest * variance - 4)
        promised = discrete_delta(epsilon, mu, row_slack(honest, 1, variance, 4.0))
        assert promised == pytest.approx(bound, rel=1e-6)
