"""`ron_gauss_centred`: what is subtracted and clipped, the noise and its promise, and what a task may not say."""

from math import isqrt

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from pydantic import ValidationError

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import FalseClaimError, InvalidTaskError
from lintra_protocol.mechanisms.ron_gauss_centred import RonGaussCentred
from lintra_protocol.privacy.composition import Spending
from lintra_protocol.privacy.statement import Claim, Neighbours
from lintra_protocol.transforms.orthonormal import frame, frame_digest
from support import source
from support.measured import calibrated_for, document_of, measurement_of, noise_sigmas, setting_of, words_of_steps

SEED = bytes(range(32))
ROWS = np.array([[0.5, -0.25, 0.75, 0.0, 0], [0.5, -0.25, 0.75, 0.0, 1], [-1.0, 1.0, 0.125, 0.5, 1]])


def claim(**changes: object) -> Claim:
    return Claim.model_validate({"epsilon": "1", "delta": "0.000001", "min_clients": 1000} | changes)


def mechanism(**changes: object) -> RonGaussCentred:
    """Return one of four numbers, not projected, and two classes; T = 4096 at f = 12."""
    values: dict[str, object] = {
        "row_bound": "1",
        "fraction_bits": 12,
        "sigma": 10**6,
        "dimension": 4,
        "label": 4,
        "levels": (0, 0, 0, 0, 2),
        "after": base64url(SEED),
        "centers": ((0, 0, 0, 0), (16384, -8192, 24576, 0)),
    }
    return RonGaussCentred.model_validate(values | changes)


def triangle(vector: FloatArray) -> FloatArray:
    return np.outer(vector, vector)[np.triu_indices(len(vector))]


def exact(given: RonGaussCentred, rows: FloatArray) -> FloatArray:
    return words_of_steps(given, document_of(given).clip(rows, setting_of(given))).astype(float)


def test_a_row_is_taken_about_the_centre_of_its_own_class() -> None:
    found = exact(mechanism(), ROWS[:2]) / 4.0**12
    assert_array_equal(found[0], triangle(ROWS[0, :4]))
    assert_array_equal(found[1], np.zeros(10))


def test_what_is_clipped_is_the_distance_to_the_centre_and_not_the_row() -> None:
    far = mechanism(row_bound="0.5", centers=((0,) * 4, (-32768, 32768, 4096, 16384)))
    assert_array_equal(exact(far, ROWS[2:]), np.zeros((1, 10)))
    assert_array_equal(document_of(far).is_clipped(ROWS), [True, True, False])
    assert (
        document_of(far).clip(ROWS, setting_of(far))[1, 1:] @ document_of(far).clip(ROWS, setting_of(far))[1, 1:]
        <= 2048**2
    )


def test_products_by_class_stand_in_the_block_of_the_class() -> None:
    pooled, own = mechanism(), mechanism(covariance="per_class")
    together = exact(pooled, ROWS).sum(axis=0)
    blocks = own.unpack(measurement_of(own, 5).decode(exact(own, ROWS).sum(axis=0, keepdims=True).astype(np.int64)))
    assert blocks.shape == (2, 4, 4)
    assert_array_equal(blocks.sum(axis=0)[np.triu_indices(4)], together / 4.0**12)
    assert_array_equal(blocks[0], np.outer(ROWS[0, :4], ROWS[0, :4]))
    with pytest.raises(ValueError, match="expected 20 words"):
        own.unpack(np.zeros(10))


def test_rows_are_projected_before_the_centre_is_subtracted() -> None:
    matrix = frame(SEED, 4, 2)
    given = mechanism(
        row_bound="4",
        dimension=2,
        frame_seed=base64url(SEED),
        frame_digest=frame_digest(matrix),
        centers=((0, 0), (3277, -6554)),
    )
    vectors = ROWS[:, :4] @ matrix / 2.0**15 - np.array([[0, 0], [0.1, -0.2], [0.1, -0.2]])
    steps = document_of(given).clip(ROWS, setting_of(given))[:2, 1:] / 4096
    assert np.abs(steps - vectors[:2]).max() < 2 / 4096
    assert "projected to 2 of 4" in measurement_of(given).clipping_rule()


def test_a_numeric_label_is_centred_and_clipped_with_the_other_coordinates() -> None:
    given = mechanism(label=3, levels=(0,) * 4, dimension=3, centers=((0, 0, 0, 16384),), row_bound="4")
    rows = np.array([[0.5, 0.0, 0.0, 0.75], [0.0, 0.0, 0.0, 0.5], [0.0, 0.0, 0.0, -9.0]])
    found = document_of(given).clip(rows, setting_of(given))
    assert_array_equal(found[:, 0], [0, 0, 0])
    assert_array_equal(found[:, 1:], [[2048, 0, 0, 2048], [0, 0, 0, 0], [0, 0, 0, -12288]])
    small = document_of(given.model_copy(update={"row_bound": "0.25"})).clip(
        rows, setting_of(given.model_copy(update={"row_bound": "0.25"}))
    )[:, 1:]
    assert np.square(small).sum(axis=1).max() <= 1024**2


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
@pytest.mark.parametrize("covariance", ["pooled", "per_class"])
def test_mu_is_that_of_products_alone(neighbours: Neighbours, covariance: str) -> None:
    promised = claim(neighbours=neighbours, max_corrupt_clients=10)
    given = calibrated_for(mechanism(covariance=covariance), 5, promised, 10_000)
    half = 1 if neighbours == "replace-one" else 2
    expected = given.bound**2 / (half * (990 * given.sigma**2 - 4)) ** 0.5
    assert measurement_of(given, 5, promised).privacy(1000).mu == pytest.approx(expected, rel=1e-12)
    assert 0.999 < measurement_of(given, 5, promised).privacy(1000).epsilon <= 1
    with pytest.raises(FalseClaimError):
        measurement_of(given.model_copy(update={"sigma": given.sigma * 999_999 // 1_000_000}), 5, promised).check(
            10_000
        )


def test_the_worst_rows_are_at_a_right_angle_whatever_their_classes() -> None:
    rng = np.random.default_rng(6)
    for covariance in ("pooled", "per_class"):
        given = mechanism(covariance=covariance, centers=((0,) * 4, (0,) * 4))
        rows = np.column_stack([rng.normal(size=(4000, 4)), rng.integers(0, 2, 4000)])
        rows[::2, :4] = [1, 0, 0, 0]
        rows[1::200, :4] = [0, 1, 0, 0]
        words = exact(given, rows) / noise_sigmas(given, 5)
        distances = np.square(words[::2] - words[1::2]).sum(axis=1)
        most = float(measurement_of(given, 5, claim()).squared_distance) / given.sigma**2
        assert 0.999 * most < distances.max() <= most


def test_both_rounds_compose_to_the_root_of_the_sum_of_squares() -> None:
    first, second = (
        measurement_of(
            calibrated_for(mechanism(), 5, claim(epsilon=epsilon), 10_000), 5, claim(epsilon=epsilon)
        ).privacy(1000)
        for epsilon in ("0.4", "0.9")
    )
    together = Spending.of(first) + Spending.of(second)
    assert together.mu == pytest.approx((first.mu**2 + second.mu**2) ** 0.5, rel=1e-12)


def test_noise_is_stated_word_by_word() -> None:
    given = mechanism(covariance="per_class", sigma=1000)
    diagonal = isqrt(2 * 1000**2) + 1
    block = np.where(np.equal(*np.triu_indices(4)), diagonal, 1000)
    assert_array_equal(noise_sigmas(given, 5), np.tile(block, 2))
    sample = measurement_of(given, 5).noise(20_000, source("noise")) / noise_sigmas(given, 5)
    # The mean of 20 000 squares has deviation 0.01; six of them leave a false alarm below 1e-7 for 20 words.
    assert np.abs(np.square(sample).mean(axis=0) - 1).max() < 0.06
    assert np.abs(np.square(sample / 1.05).mean(axis=0) - 1).min() > 0.03


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"centers": ((0,) * 4,)}, "2 centers of 4 numbers"),
        ({"centers": ((0,) * 4, (0,) * 3)}, "2 centers of 4 numbers"),
        ({"centers": ((0,) * 4, (0, 0, 0, 2**25 + 1))}, "33554432"),
        ({"label": 3, "levels": (0,) * 4, "dimension": 3, "centers": ((0, 0, 0, 2**15 + 1),)}, "between its bounds"),
        ({"label": 5}, "label 5 is not the number"),
        ({"after": ""}, "after"),
    ],
)
def test_a_document_whose_centers_do_not_fit_is_none(change: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        mechanism(**change)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"after": "A" * 42 + "B"}, "after: not canonical"),
        ({"fraction_bits": 16}, "15 fraction bits"),
        ({"row_bound": "0.0001"}, "below one step"),
        ({"dimension": 3, "centers": ((0,) * 3,) * 2}, "a frame is needed"),
        ({"frame_seed": base64url(SEED), "frame_digest": base64url(SEED)}, "a frame is needed exactly"),
        ({"label": -1, "levels": (0,) * 4, "centers": ((0,) * 4,), "covariance": "per_class"}, "label with levels"),
    ],
)
def test_a_task_that_does_not_fit_is_refused_in_words(change: dict[str, object], words: str) -> None:
    given = mechanism(**change)
    with pytest.raises(InvalidTaskError, match=words):
        measurement_of(given, len(given.levels), claim()).check(10_000)


def test_centers_that_squares_cannot_hold_are_refused() -> None:
    size = 300
    far = mechanism(
        dimension=size, label=-1, levels=(0,) * size, centers=((2**25,) * size,), row_bound="16", fraction_bits=9
    )
    with pytest.raises(InvalidTaskError, match="farther from the middle"):
        measurement_of(far, size, claim()).check(10_000)
