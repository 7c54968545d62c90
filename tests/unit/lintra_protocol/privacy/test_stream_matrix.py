"""The matrix of a stream: S_k against all sets, errors against dense algebra, and Theorem T against an adversary."""

from fractions import Fraction
from itertools import combinations
from math import comb, exp, floor, sqrt

import numpy as np
import pytest

from lintra_protocol.privacy.discrete import discrete_delta, kappa
from lintra_protocol.privacy.gaussian import gaussian_delta
from lintra_protocol.privacy.stream_matrix import StreamMatrix

BLUR = Fraction(1, 10)


def stream(rows: int, reports: int, damping: str, blur: Fraction = BLUR, memory: int | None = None) -> StreamMatrix:
    return StreamMatrix(rows, reports, Fraction(damping), blur, memory)


def plain(rows: int, damping: str, memory: int | None = None) -> np.ndarray:
    """Return C as the definition spells it, entry by entry."""
    entries = [
        Fraction(floor(256 * Fraction(damping) * Fraction(comb(2 * j, j), 4**j) + Fraction(1, 2)), 256)
        for j in range(rows)
    ]
    entries = [Fraction(1), *entries[1 : memory or rows], *[Fraction(0)] * rows]
    return np.array([[float(entries[i - j]) if i >= j else 0.0 for j in range(rows)] for i in range(rows)])


@pytest.mark.parametrize(("damping", "memory"), [("1", None), (".55", None), (".55", 3), (".05", None)])
def test_the_price_is_that_of_the_worst_set_of_windows(damping: str, memory: int | None) -> None:
    for rows in range(1, 9):
        dense = plain(rows, damping, memory)
        gram = dense.T @ dense
        for reports in range(1, rows + 1):
            asked = stream(rows, reports, damping, memory=memory)
            np.testing.assert_array_equal(asked.dense(), dense)
            worst = max(gram[np.ix_(chosen, chosen)].sum() for chosen in combinations(range(rows), reports))
            assert float(asked.squared_norm) == pytest.approx(worst, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [9, 10])
@pytest.mark.parametrize("damping", ["1", ".55", ".05"])
def test_the_price_is_that_of_the_worst_set_of_more_windows(damping: str, rows: int) -> None:
    dense = plain(rows, damping)
    gram = dense.T @ dense
    for reports in range(1, rows + 1):
        worst = max(gram[np.ix_(chosen, chosen)].sum() for chosen in combinations(range(rows), reports))
        assert float(stream(rows, reports, damping).squared_norm) == pytest.approx(worst, rel=1e-12)


def test_the_price_of_another_matrix_is_found_by_no_prefix() -> None:
    """With entries that rise again the first k windows are not the worst: why no other matrix is offered."""
    dense = np.array([[1, 0, 0, 0], [0.1, 1, 0, 0], [0.1, 0.9, 1, 0], [0.1, 0.9, 0.9, 1.0]])
    gram = dense.T @ dense
    sums = {chosen: gram[np.ix_(chosen, chosen)].sum() for chosen in combinations(range(4), 2)}
    assert max(sums, key=lambda chosen: sums[chosen]) != (0, 1)


@pytest.mark.parametrize("weights", ["total", "last", "slope"])
def test_errors_are_those_of_dense_algebra(weights: str) -> None:
    rows = 9
    chosen = {"total": np.ones(rows), "last": np.eye(rows)[-1], "slope": np.arange(rows) - 4.0}[weights]
    asked, dense = stream(rows, 2, ".7"), plain(rows, ".7")
    back = np.linalg.inv(dense)
    covariance = back @ (np.eye(rows) + 0.01 * (dense - np.eye(rows)) @ (dense - np.eye(rows)).T) @ back.T
    assert asked.variance(chosen) == pytest.approx(chosen @ covariance @ chosen, rel=1e-12)
    assert asked.window_variance == pytest.approx(covariance.diagonal().max(), rel=1e-12)


@pytest.mark.parametrize(
    ("rows", "reports", "damping", "total", "single"),
    [
        (12, 1, ".65", 1.96, 1.24), (12, 2, ".4", 2.48, 1.24), (12, 4, ".25", 2.95, 1.24),
        (52, 1, ".55", 2.66, 1.25), (52, 2, ".3", 3.66, 1.2), (52, 4, ".2", 4.57, 1.22), (52, 12, ".1", 5.99, 1.21),
        (365, 1, ".45", 4.07, 1.23), (365, 2, ".3", 5.27, 1.25), (365, 4, ".15", 7.65, 1.17),
        (365, 12, ".1", 10.25, 1.25),
    ],
)  # fmt: skip
def test_the_table_of_the_design_holds(rows: int, reports: int, damping: str, total: float, single: float) -> None:
    """Deviations over those of one plain window at the same promise; one of them differs in the last printed digit."""
    asked = stream(rows, reports, damping)
    price = sqrt(asked.squared_norm / reports)
    assert price * sqrt(asked.variance(np.ones(rows))) == pytest.approx(total, abs=0.011)
    assert price * sqrt(asked.window_variance) == pytest.approx(single, abs=0.0051)


def test_no_lost_memory_exceeds_the_headroom() -> None:
    """Memories are lost from some window on, in each of 300 histories, at the matrix for which it matters most."""
    rng, asked = np.random.default_rng(5), stream(12, 1, "1")
    dense, worst = asked.dense(), 0.0
    for _ in range(300):
        lost = rng.integers(0, 13, (1, 12))
        masked = np.where(np.arange(12)[:, np.newaxis] >= lost, 0.0, dense - np.eye(12))
        back = np.linalg.inv(np.eye(12) + masked)
        covariance = back @ (np.eye(12) + 0.01 * masked @ masked.T) @ back.T
        worst = max(worst, covariance.diagonal().max())
    assert asked.window_variance < worst < asked.headroom_variance - 1


# --- Theorem T ------------------------------------------------------------------------------------------------------


def law(sigma: int, most: int) -> np.ndarray:
    """Return the discrete Gaussian on -most .. most."""
    steps = np.exp(-(np.arange(-most, most + 1.0) ** 2) / (2 * sigma**2))
    return np.asarray(steps / steps.sum())


def best_adversary(epsilon: float, sigma: int, first: int, distance: int, blur: int) -> float:
    """Return delta of the best adversary of two windows, who decides on the second after it saw the first.

    A row is moved by `distance` in one or both windows. `first` is 256 t_1, and the blur has deviation `blur`.
    The adversary knows everything but this server's noise, and leaves the source out of the second window or not.
    """
    most = 9 * sigma
    fresh, blurs = law(sigma, most), law(blur, 5 * blur)
    seen = np.arange(-most, most + distance + 1)
    found = 0.0
    for in_first in (0, distance):
        total = 0.0
        for value in seen:
            chances = [fresh[value - shift + most] if abs(value - shift) <= most else 0.0 for shift in (in_first, 0)]
            options = []
            for in_second in (0, distance):
                worlds = np.zeros((2, 8 * most))
                for world, (before, shift) in enumerate(((value - in_first, in_second), (value, 0))):
                    for blurred, chance in enumerate(blurs):
                        back = (first * (before + blurred - 5 * blur) + 128) // 256
                        start = 4 * most + shift - back - most
                        worlds[world, start : start + fresh.size] += chances[world] * chance * fresh
                options.append(np.maximum(worlds[0] - exp(epsilon) * worlds[1], 0).sum())
            total += max(options)
        found = max(found, total)
    return found


@pytest.mark.parametrize("epsilon", [0.5, pytest.param(1.5, marks=pytest.mark.slow)])
def test_the_best_adaptive_adversary_of_two_windows_stays_below_the_theorem_and_above_the_root_of_two(
    epsilon: float,
) -> None:
    """Were mu that of two plain windows, the enumerated adversary would break the promise."""
    sigma, distance, asked = 12, 8, stream(2, 2, "1")
    delta = best_adversary(epsilon, sigma, int(asked.steps[1]), distance, blur=2)
    mu = asked.distance(distance, 2) / sqrt(sigma**2 - 4)
    assert delta <= discrete_delta(epsilon, mu, 2 * kappa(4))
    one = stream(2, 1, "1")
    assert delta > gaussian_delta(epsilon, sqrt(2) * sqrt(one.squared_norm) * distance / sigma)
