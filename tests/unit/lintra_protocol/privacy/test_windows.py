"""What k releases promise together, against compositions that know nothing of mu."""

import math
from dataclasses import replace

import numpy as np
import pytest

from lintra_protocol.privacy.composition import Spending
from lintra_protocol.privacy.gaussian import gaussian_epsilon
from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.privacy.windows import repeated


def statement(mu: float = 0.2, **fields: float) -> PrivacyStatement:
    return PrivacyStatement("replace-one", gaussian_epsilon(mu, 1e-6), 1e-6, mu, **fields)  # type: ignore[arg-type]


def delta_by_adding_losses(mu: float, times: int, epsilon: float, step: float = 2e-3) -> float:
    """Compose the laws of the privacy loss on a grid, by adding them `times` times, and read delta off its definition.

    The loss of one release, L = mu^2/2 + mu Z, is rounded up to the grid, so the result is above the exact one, by a
    shift of at most `times` steps.
    """
    size = 1 << 15
    grid = (np.arange(size) - size // 2) * step
    cumulative = np.array([0.5 * math.erfc(-(edge - mu**2 / 2) / (mu * math.sqrt(2))) for edge in grid])
    masses = np.diff(cumulative, prepend=0.0)
    spectrum = np.fft.rfft(np.roll(masses, size // 2))
    together = np.roll(np.fft.irfft(spectrum**times, size), size // 2)
    above = grid > epsilon
    return float((together[above] * -np.expm1(epsilon - grid[above])).sum())


@pytest.mark.parametrize(("mu", "times"), [(0.2, 2), (0.2, 12), (0.35, 52)])
def test_epsilon_of_all_releases_is_that_of_losses_added_up(mu: float, times: int) -> None:
    together = repeated(statement(mu), times)
    shift = times * 2e-3
    assert delta_by_adding_losses(mu, times, together.epsilon + shift) <= 1e-6
    # A tenth of the releases less would not cover it: the sum of losses spends more than that.
    fewer = repeated(statement(mu), max(1, times * 9 // 10))
    assert delta_by_adding_losses(mu, times, fewer.epsilon) > 1e-6


@pytest.mark.parametrize("times", [2, 52, 1000])
def test_a_statement_of_k_releases_is_what_the_ledger_adds_up(times: int) -> None:
    one = statement(0.01, slack=1e-14, delta_coalition=1e-12)
    spent = Spending.zero()
    for _ in range(times):
        spent += Spending.of(one)
    together = repeated(one, times)
    assert together.mu == pytest.approx(spent.mu, rel=1e-11)
    assert together.mu >= spent.mu * (1 - 1e-12)
    assert together.epsilon == pytest.approx(spent.epsilon_at(1e-6), rel=1e-9)
    assert together.slack >= times * one.slack * (1 - 1e-15)
    assert together.delta_coalition == pytest.approx(times * 1e-12)


def test_what_is_no_noise_counts_k_times_and_leaves_nothing_when_delta_is_used_up() -> None:
    one = statement(delta_coalition=3e-7)
    assert repeated(one, 3).epsilon > repeated(replace(one, delta_coalition=0.0), 3).epsilon
    assert repeated(one, 4).epsilon == math.inf
    assert repeated(one, 4).epsilon_at(1e-4) < math.inf


def test_one_release_is_itself_and_none_is_refused() -> None:
    assert repeated(statement(), 1) == statement()
    with pytest.raises(ValueError, match="at least one release, got 0"):
        repeated(statement(), 0)


def test_a_point_without_a_curve_is_composed_by_adding() -> None:
    point = PrivacyStatement("replace-one", 0.5, 1e-7)
    assert (repeated(point, 3).epsilon, repeated(point, 3).delta) == (1.5, pytest.approx(3e-7))


def sum_of_discrete_gaussians(sigma: int, count: int) -> np.ndarray:
    """Return the law of so many discrete Gaussians added up, on whole numbers about 0, by adding them one by one."""
    size = 1 << 11
    grid = np.arange(size) - size // 2
    masses = np.exp(-(grid**2) / (2 * sigma**2))
    spectrum = np.fft.rfft(np.roll(masses / masses.sum(), size // 2))
    return np.roll(np.fft.irfft(spectrum**count, size), size // 2).clip(0)


@pytest.mark.parametrize(("windows", "together"), [(2, 2), (4, 2), (3, 3)])
def test_reports_of_a_source_in_one_sum_move_it_by_their_number_and_not_by_its_root(
    windows: int, together: int
) -> None:
    # A report moves a sum of 4 clients by 3; `together` of a source's reports move one sum by as many times 3.
    law, epsilon, moved = sum_of_discrete_gaussians(8, 4), 0.5, 3 * together
    one = statement(3 / math.sqrt(4 * 8**2 - 4))
    keep = law > 1e-15
    losses = np.log(np.where(keep, law, 1)) - np.log(np.where(np.roll(law, moved) > 1e-15, np.roll(law, moved), 1e-15))
    masses = np.bincount(np.ceil((losses[keep] + 16) / 2e-3).astype(int), weights=law[keep])
    spent = masses
    for _ in range(windows // together - 1):
        spent = np.convolve(spent, masses)
    grid = np.arange(len(spent)) * 2e-3 - 16 * (windows // together)
    above = grid > epsilon
    delta = float((spent[above] * -np.expm1(epsilon - grid[above])).sum())
    # So exact that a tenth more noise would have been a tenth too much; and what counts windows alone is wrong.
    assert delta <= repeated(one, windows, together).delta_at(epsilon) * 1.02
    assert delta >= repeated(statement(0.9 * one.mu), windows, together).delta_at(epsilon)
    assert delta > 2 * repeated(one, windows).delta_at(epsilon)


def test_a_report_that_may_be_merged_costs_its_part_of_all_that_a_source_may_send() -> None:
    one = statement(0.05, slack=1e-14, delta_coalition=1e-9)
    spent = Spending.zero()
    for _ in range(6):
        spent += Spending.of(repeated(one, 1, 3))
    assert spent.mu == pytest.approx(repeated(one, 6, 3).mu, rel=1e-11) == pytest.approx(0.05 * math.sqrt(18))
    # However a source's six reports fall into sums of three at most, their mu is no more than that.
    for parts in ((3, 3), (3, 2, 1), (1,) * 6, (2, 2, 2)):
        assert math.hypot(*(0.05 * part for part in parts)) <= spent.mu


def test_several_reports_in_one_release_need_a_whole_curve() -> None:
    with pytest.raises(ValueError, match="whole curve"):
        repeated(PrivacyStatement("replace-one", 1.0, 1e-6), 2, 2)
    with pytest.raises(ValueError, match="at least one report in a release, got 0"):
        repeated(statement(), 2, 0)
