"""`ron_gauss` releases: the law of their noise, and how well the worst two rows can be told apart.

Seeds are fixed; a comparison raises a false alarm with probability 1e-6 at most over the choice of its seed.
"""

from functools import cache

import numpy as np
import pytest
from scipy import stats

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, from_ring, to_ring
from lintra_protocol.mechanisms.ron_gauss import RonGauss
from lintra_protocol.privacy.statement import Claim, Neighbours
from support import source
from support.measured import (
    calibrated_for,
    document_of,
    encode_rows,
    layout_of,
    measurement_of,
    noise_sigmas,
    setting_of,
    words_of_steps,
)

CLIENTS = 4
LIMIT = float(stats.norm.isf(5e-7))
TOLERANCE = 0.03
CLASSES = {"label": 2, "levels": (0, 0, 2, 3), "bins": (4, 0, 0, 3), "mean_weight": "1", "dimension": 5}
NUMERIC = {"label": 1, "levels": (0, 0, 2, 3), "bins": (0, 0, 0, 0), "mean_weight": "0.6", "dimension": 5}
OPTIONS = {
    "two classes": CLASSES,
    "a covariance for each class": CLASSES | {"covariance": "per_class"},
    "a numeric label": NUMERIC,
}


def claim(neighbours: Neighbours = "replace-one") -> Claim:
    return Claim(epsilon="20", delta="0.000001", min_clients=CLIENTS, neighbours=neighbours)


@cache
def planned(name: str, neighbours: Neighbours = "replace-one") -> RonGauss:
    plain = RonGauss.model_validate({"row_bound": "0.8", "fraction_bits": 0, "sigma": 4} | OPTIONS[name])
    return calibrated_for(plain, 4, claim(neighbours), 100)


def releases(mechanism: RonGauss, victim: FloatArray, runs: int, random_bytes: RandomBytes) -> FloatArray:
    """Return `runs` sums in ring units, shape `(runs, w)`: one victim among clients whose rows are zero."""
    total = np.zeros((runs, layout_of(mechanism, 4).num_noised), np.uint64)
    for client in range(CLIENTS):
        rows = np.tile(victim if client == 0 else np.zeros(4), (runs, 1))
        total += to_ring(encode_rows(mechanism, rows, random_bytes))
    return from_ring(total).astype(np.float64)


def exact(mechanism: RonGauss, row: FloatArray) -> FloatArray:
    return words_of_steps(mechanism, document_of(mechanism).clip(row[np.newaxis], setting_of(mechanism)))[0].astype(
        np.float64
    )


def worst_rows(mechanism: RonGauss) -> tuple[FloatArray, FloatArray]:
    """Search for two rows that are as far apart as the promise assumes: every level, cell, sign and many angles."""
    rng = np.random.default_rng(5)
    rows = rng.uniform(-1, 1, (4000, 4)) * rng.choice([0.03, 0.1, 0.3, 1], (4000, 1))
    rows[:, 2], rows[:, 3] = rng.integers(0, 2, 4000), rng.integers(0, 3, 4000)
    reports = words_of_steps(mechanism, document_of(mechanism).clip(rows, setting_of(mechanism))) / noise_sigmas(
        mechanism, 4
    )
    squares = np.square(reports).sum(axis=1)
    distances = squares[:, np.newaxis] + squares - 2 * reports @ reports.T
    first, second = np.unravel_index(np.argmax(distances), distances.shape)
    return rows[first], rows[second]


def measured_mu(
    told: RonGauss, used: RonGauss, pair: tuple[FloatArray, FloatArray], runs: int, label: str
) -> tuple[float, float]:
    """Tell two rows apart by their log-likelihood ratio under the stated noise; return mu and its deviation."""
    weights = (exact(told, pair[1]) - exact(told, pair[0])) / np.square(noise_sigmas(told, 4).astype(float))
    scores = [releases(used, row, runs, source(f"{label} {number}")) @ weights for number, row in enumerate(pair)]
    spread = float(np.sqrt((scores[0].var(ddof=1) + scores[1].var(ddof=1)) / 2))
    mu = float(scores[1].mean() - scores[0].mean()) / spread
    return mu, float(np.sqrt(2 / runs + mu**2 / (4 * runs)))


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.slow
def test_the_noise_of_repeated_releases_has_the_stated_law_and_this_test_would_notice_if_not(name: str) -> None:
    mechanism, runs = planned(name), 6000
    row = np.array([0.3, -0.2, 1, 2])
    noise = releases(mechanism, row, runs, source(f"law {name}")) - exact(mechanism, row)
    noise -= exact(mechanism, np.zeros(4)) * (CLIENTS - 1)
    stated = noise_sigmas(mechanism, 4) * CLIENTS**0.5
    covariance = (noise / stated).T @ (noise / stated) / runs
    diagonal, others = np.diag(covariance), covariance[~np.eye(len(covariance), dtype=bool)]
    # Each diagonal entry is a mean of squares of deviation sqrt(2/runs), each other one a mean of products.
    per_entry = float(stats.norm.isf(5e-7 / covariance.size))
    assert np.all(np.abs(diagonal - 1) < per_entry * (2 / runs) ** 0.5)
    assert np.all(np.abs(others) < per_entry * (1 / runs) ** 0.5)
    assert np.all(np.abs(diagonal / 1.15**2 - 1) > per_entry * (2 / runs) ** 0.5)
    own = mechanism.deviations
    assert own.squares**2 / own.products**2 == pytest.approx(2, rel=1e-3)


@pytest.mark.parametrize("name", OPTIONS)
def test_the_worst_rows_reach_the_promise_and_none_exceed_it(name: str) -> None:
    mechanism = planned(name)
    promised = float(measurement_of(mechanism, 4, claim()).squared_distance) ** 0.5 / mechanism.sigma
    one, other = (exact(mechanism, row) for row in worst_rows(mechanism))
    assert 0.998 * promised < float(np.linalg.norm((one - other) / noise_sigmas(mechanism, 4))) <= promised


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two classes", "a numeric label"])
def test_the_worst_rows_are_told_apart_as_well_as_promised_and_better_with_a_tenth_less_noise(name: str) -> None:
    mechanism = planned(name)
    promised = measurement_of(mechanism, 4, claim()).privacy(CLIENTS).mu
    pair = worst_rows(mechanism)
    mu, deviation = measured_mu(mechanism, mechanism, pair, 60_000, f"audit {name}")
    assert LIMIT * deviation < TOLERANCE * promised
    assert abs(mu / promised - 1) < TOLERANCE
    less = mechanism.model_copy(update={"sigma": mechanism.sigma * 9 // 10})
    mu, _ = measured_mu(mechanism, less, pair, 60_000, f"less {name}")
    assert mu / promised - 1 > 2 * TOLERANCE
