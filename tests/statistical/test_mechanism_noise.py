"""The noise of what is released: its size, its independence, and what it hides, for every mechanism.

Every test states how often it would fail were its seeds drawn anew, and shows that it rejects a parameter 5 % off.
"""

import math

import numpy as np
import pytest

from lintra_protocol.crypto.ring import FloatArray, IntArray, from_ring, to_ring
from lintra_protocol.mechanisms import MECHANISMS, NewtonStep, RangeFinder
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.laplace_law import LaplaceNoise
from lintra_protocol.privacy.statement import Claim
from support import source, uncalibrated
from support.measured import (
    calibrated_for,
    document_of,
    encode_rows,
    layout_of,
    measurement_of,
    noise_sigmas,
    reports_without_noise,
    setting_of,
    words_of_steps,
)

# What few clients' Wishart noise gives is no Gaussian law (test_wishart_sum.py), and the worst rows of a joint sum are
# found by search (test_joint_release.py).
ELSEWHERE = {"second_moment_wishart", "ron_gauss"}
ALL = set(MECHANISMS)
# Noise of clients that adds up to Laplace noise has heavier tails, and statistics of its own below.
LAPLACE = sorted(kind for kind in ALL if issubclass(MECHANISMS[kind], LaplaceNoise))
KINDS = sorted(ALL - ELSEWHERE - set(LAPLACE))
CLAIM = Claim(epsilon="4", delta="0.00001", min_clients=12)
CLIENTS, COLUMNS, ROUNDS = 12, 2, 4000

every_mechanism = pytest.mark.parametrize("kind", KINDS)
every_laplace = pytest.mark.parametrize("kind", LAPLACE)


def calibrated(kind: str) -> Mechanism:
    if kind == "osnap_published":
        # Its own noise is not defined for so few clients; this one has the mu of the others.
        return published(sparsity=1)
    asked = uncalibrated(kind, rows=3, columns=COLUMNS)
    if isinstance(asked, RangeFinder):
        # The bound is nearly reached where projections are short: by a factor of sqrt(1 - C^2 r / (B^2 d)), here .990.
        asked = asked.model_copy(update={"projected_bound": "0.2"})
    if isinstance(asked, NewtonStep):
        # With it the cosine of two rows of full length may be 1/4, where the bound is reached.
        asked = asked.model_copy(update={"intercept": "0.6124"})
    mechanism: Mechanism = calibrated_for(asked, COLUMNS, CLAIM, 1000)
    return mechanism


def orthogonal_to_the_projection(mechanism: RangeFinder) -> tuple[list[float], list[float]]:
    """Return two rows of norm 1 whose projections are equal and as long as C, and which differ otherwise."""
    shared = mechanism.signs(COLUMNS)[:, 0] / COLUMNS
    across = np.array([shared[1], -shared[0]]) * np.sqrt(COLUMNS)
    short = float(mechanism.projected_bound)
    return tuple((short * shared + side * np.sqrt(1 - short**2 / COLUMNS) * across).tolist() for side in (1, -1))


def published(sparsity: int) -> Mechanism:
    """Return the published mechanism, with three rows or one for each of several copies, and a sigma of our choice."""
    rows, sigma = (3, 1_600_000) if sparsity == 1 else (2, 1_300_000)
    asked = uncalibrated("osnap_published", rows=rows, sparsity=sparsity)
    mechanism: Mechanism = asked.model_copy(update={"fraction_bits": 20, "sigma": sigma})
    return mechanism


def releases(mechanism: Mechanism, row: list[float], label: str, rounds: int = ROUNDS) -> IntArray:
    """Return `rounds` released sketches, shape `(rounds, m, w/c)`: one client has `row`, all others the null row."""
    rows = np.zeros((rounds * CLIENTS, COLUMNS))
    rows[::CLIENTS] = row
    noised = encode_rows(mechanism, rows, source(label))
    # A row of zeros lies in a cell of a histogram; the null row does not, and in other mechanisms it is that row.
    noised[~rows.any(axis=1)] -= reports_without_noise(mechanism, np.zeros((1, COLUMNS)))
    reports = to_ring(noised).reshape(rounds, CLIENTS, layout_of(mechanism).blocks[0].copies, -1)
    matrix = mechanism.public_matrix(CLIENTS, bytes(32))
    # One round after another lies beside its neighbours, so that one call adds all of them up.
    sketch = np.zeros((matrix.rows, rounds * reports.shape[3]), np.uint64)
    matrix.add_reports(sketch, np.arange(CLIENTS), reports.transpose(1, 2, 0, 3).reshape(CLIENTS, -1))
    return from_ring(sketch).reshape(matrix.rows, rounds, -1).transpose(1, 0, 2)


def deviations(mechanism: Mechanism) -> FloatArray:
    """Return the stated deviation of every released word, shape `(m, w/c)`."""
    counts = mechanism.public_matrix(CLIENTS, bytes(32)).row_counts()
    layout = layout_of(mechanism, COLUMNS)
    of_a_client = noise_sigmas(mechanism, COLUMNS)[: layout.num_released] * layout.blocks[0].spread
    stated: FloatArray = np.sqrt(counts)[:, np.newaxis] * of_a_client
    return stated


def smoothing_of(sparsity: int, rounds: int = 40) -> tuple[int, FloatArray]:
    """Return the stated parameter of a server's smoothing noise, and all the noise that it adds in some rounds."""
    mechanism = uncalibrated("osnap", rows=8, sparsity=sparsity)
    shares = np.zeros((rounds, 8, 100), np.uint64)
    random_bytes = source(f"smoothing {sparsity}")
    for share in shares:
        measurement_of(mechanism, 2).add_server_noise(share, random_bytes)
    return measurement_of(mechanism).smoothing, from_ring(shares).astype(np.float64)


@pytest.mark.parametrize("sparsity", [2, 4])
def test_smoothing_noise_has_its_parameter_and_this_test_would_notice_if_not(sparsity: int) -> None:
    # 32 000 squares: one deviation of their mean is sqrt(2/32000) = 0.8 %; five leave a false alarm below 1e-6. A
    # discrete Gaussian of parameter 3 or more has its parameter as deviation to 15 digits.
    parameter, noise = smoothing_of(sparsity)
    limit = 5 * math.sqrt(2 / noise.size)
    ratio = np.square(noise / parameter).mean()
    assert parameter**2 >= 4 * sparsity > (parameter - 1) ** 2
    assert abs(ratio - 1) < limit
    for wrong in (0.95, 1.05):
        assert abs(ratio / wrong**2 - 1) > limit
    assert abs(noise.mean()) < 5 * parameter / math.sqrt(noise.size)


def test_smoothing_noise_is_new_in_every_word_and_every_round() -> None:
    # 40 products of rounds have deviation 1/sqrt(800) each; six leave a false alarm below 1e-7.
    parameter, noise = smoothing_of(2)
    flat = (noise / parameter).reshape(40, -1)
    correlations = (flat[1:] * flat[:-1]).mean(axis=1)
    assert np.abs(correlations).max() < 6 / math.sqrt(flat.shape[1])
    assert (flat[0] * (flat[0] + flat[1])).mean() > 6 / math.sqrt(flat.shape[1])


def sizes_are_plausible(noise: IntArray, stated: FloatArray) -> bool:
    """Return whether no mean square is six deviations off; 4000 rounds, one deviation is sqrt(2/4000)."""
    ratios = np.square(noise / stated).mean(axis=0)
    return bool(np.all(np.abs(ratios - 1) < 6 * math.sqrt(2 / ROUNDS)))


@every_mechanism
def test_a_release_has_the_stated_noise_and_this_test_would_notice_if_not(kind: str) -> None:
    # Six deviations and at most six words: a false alarm below 2e-8. At 10 % the rejection is certain in every
    # word; at 5 % the mean over all words is what shows it.
    mechanism = calibrated(kind)
    noise, stated = releases(mechanism, [0.0, 0.0], "size"), deviations(mechanism)
    assert sizes_are_plausible(noise, stated)
    assert not sizes_are_plausible(noise, stated * 1.1)
    assert not sizes_are_plausible(noise, stated / 1.1)
    overall = np.square(noise / stated).mean()
    limit = 4 * math.sqrt(2 / noise.size)
    assert abs(overall - 1) < limit
    assert abs(overall / 1.05**2 - 1) > limit
    assert abs(overall * 1.05**2 - 1) > limit


@every_mechanism
def test_released_words_are_centred_and_uncorrelated(kind: str) -> None:
    # Six deviations of a mean or a correlation, at most 21 of them: a false alarm below 1e-7.
    mechanism = calibrated(kind)
    words = (releases(mechanism, [0.0, 0.0], "size") / deviations(mechanism)).reshape(ROUNDS, -1)
    assert np.abs(words.mean(axis=0)).max() < 6 / math.sqrt(ROUNDS)
    correlations = words.T @ words / ROUNDS
    assert np.abs(correlations - np.diag(np.diag(correlations))).max() < 6 / math.sqrt(ROUNDS)
    # A fifth of one word mixed into another is thirteen deviations.
    mixed = (words[:, 0] * 0.2 + words[:, -1]) @ words[:, 0] / ROUNDS
    assert abs(mixed) > 6 / math.sqrt(ROUNDS)


LAPLACE_ROUNDS = 16_000


def scale_off(noise: FloatArray, scale: float) -> float:
    """Return by how many deviations the mean distance from 0 differs from that of discrete Laplace noise of a scale."""
    expected = 2 * scale * (scale + 1) / (2 * scale + 1)
    deviation = math.sqrt((2 * scale * (scale + 1) - expected**2) / noise.size)
    return float(abs(np.abs(noise).mean() - expected) / deviation)


@pytest.mark.parametrize("kind", ["histogram_laplace", pytest.param("sum_laplace", marks=pytest.mark.slow)])
def test_a_release_has_laplace_noise_of_the_stated_scale_and_this_test_would_notice_if_not(kind: str) -> None:
    # 32 000 distances or more, of deviation b each: one deviation of the mean is 0.56 % of b. Five leave a false alarm
    # below 1e-6; a scale 5 % off is nine away.
    mechanism = calibrated(kind)
    noise = releases(mechanism, [0.0, 0.0], "size", LAPLACE_ROUNDS).astype(np.float64)
    assert scale_off(noise, mechanism.sigma) < 5
    assert scale_off(noise, mechanism.sigma * 1.05) > 5
    assert scale_off(noise, mechanism.sigma / 1.05) > 5
    # Six deviations in each of at most six words; a scale 10 % off shows in every word alone.
    for word in noise.reshape(LAPLACE_ROUNDS, -1).T:
        assert scale_off(word, mechanism.sigma) < 6
        assert min(scale_off(word, mechanism.sigma * wrong) for wrong in (1 / 1.1, 1.1)) > 6
    # Of Gaussian noise with this deviation as much as 0.798 of it is the mean distance, and of Laplace noise 0.707.
    assert scale_off(noise, deviations(mechanism)[0, 0] * math.sqrt(2 / math.pi)) > 5


@every_laplace
def test_released_words_of_laplace_noise_are_centred_and_uncorrelated(kind: str) -> None:
    # Signs are bounded, so Hoeffding's bound holds for their means and products: six deviations of one are passed with
    # a chance below 2 exp(-18), and at most 21 of them leave a false alarm below 1e-6.
    words = releases(calibrated(kind), [0.0, 0.0], "size", LAPLACE_ROUNDS).reshape(LAPLACE_ROUNDS, -1)
    signs, limit = np.sign(words).astype(np.float64), 6 / math.sqrt(LAPLACE_ROUNDS)
    assert np.abs(signs.mean(axis=0)).max() < limit
    products = signs.T @ signs / LAPLACE_ROUNDS
    assert np.abs(products - np.diag(np.diag(products))).max() < limit
    # A fifth of one word mixed into another gives a sixth of the products, 21 deviations.
    mixed = np.sign(words[:, 0] * 0.2 + words[:, -1]) @ signs[:, 0] / LAPLACE_ROUNDS
    assert abs(mixed) > limit


@every_mechanism
@pytest.mark.slow
def test_the_best_guess_at_one_row_succeeds_as_often_as_mu_says_and_not_more(kind: str) -> None:
    """Tell the worst pair of rows apart by the projection on their difference, which is the optimal test."""
    mechanism = calibrated(kind)
    orthogonal = ([1.0, 0.0], [0.0, 1.0])
    pairs = {
        "second_moment": orthogonal,
        "ron_gauss_centred": orthogonal,
        "osnap_published": ([1.0, 1.0], [-1.0, -1.0]),
        "histogram": ([1.0, 1.0], [-1.0, -0.5]),
        "newton_step": ([0.79, 1.0], [-0.79, 1.0]),
    }
    first, second = pairs.get(kind, ([1.0, 0.0], [-1.0, 0.0]))
    if isinstance(mechanism, RangeFinder):
        first, second = orthogonal_to_the_projection(mechanism)
    samples = [releases(mechanism, row, f"guess {row}") / deviations(mechanism) for row in (first, second)]
    exact = [
        words_of_steps(mechanism, document_of(mechanism).clip(np.array([row]), setting_of(mechanism), bytes))
        for row in (first, second)
    ]
    row_number, sign = (int(part[0, 0]) for part in mechanism.public_matrix(CLIENTS, bytes(32)).entries(np.arange(1)))
    scale = deviations(mechanism)[row_number]
    points = [sign * one[0] / scale for one in exact]
    direction = points[0] - points[1]
    threshold = float((points[0] + points[1]) @ direction / 2)
    right = (samples[0][:, row_number] @ direction > threshold).mean() / 2
    right += (samples[1][:, row_number] @ direction < threshold).mean() / 2
    mu = measurement_of(mechanism, COLUMNS, CLAIM).privacy(CLIENTS).mu
    # 8000 guesses: one deviation is at most 0.0056; five leave a false alarm below 1e-6.
    assert abs(right - success(mu)) < 5 * 0.0056
    assert abs(right - success(mu * 1.3)) > 5 * 0.0056
    assert abs(right - success(mu / 1.3)) > 5 * 0.0056
    assert float(np.linalg.norm(direction)) <= mu
    assert float(np.linalg.norm(direction)) > mu * 0.98


def success(distance: float) -> float:
    """Return how often the best guess between two Gaussians of unit variance is right."""
    return (1 + math.erf(distance / 2 / math.sqrt(2))) / 2


def test_copies_show_a_row_once_in_each_of_their_rows_and_mu_counts_all_of_them() -> None:
    mechanism = published(sparsity=2)
    samples = [releases(mechanism, row, f"copies {row}") / deviations(mechanism) for row in ([1.0, 1.0], [-1.0, -1.0])]
    row_numbers, signs = mechanism.public_matrix(CLIENTS, bytes(32)).entries(np.arange(1))
    # By symmetry the optimal test adds up all words of the victim's rows, each with the sign of its entry.
    shown = [signs[0] @ sample[:, row_numbers[0]].sum(axis=2).T for sample in samples]
    right = (shown[0] > 0).mean() / 2 + (shown[1] < 0).mean() / 2
    mu = measurement_of(mechanism, COLUMNS, CLAIM).privacy(CLIENTS).mu
    assert mu == pytest.approx(2 * 2**20 * math.sqrt(COLUMNS * (1 / 12 + 1 / 12)) / mechanism.sigma)
    # 8000 guesses: one deviation is at most 0.0056; five leave a false alarm below 1e-6. One copy would show less.
    assert abs(right - success(mu)) < 5 * 0.0056
    assert abs(right - success(mu / math.sqrt(2))) > 5 * 0.0056
    assert abs(right - success(mu * 1.3)) > 5 * 0.0056
