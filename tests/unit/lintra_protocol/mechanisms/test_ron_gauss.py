"""`ron_gauss`: the plan of the noise, what a row becomes, and what a task may not say."""

from collections.abc import Mapping
from dataclasses import astuple
from itertools import product
from math import isqrt

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from pydantic import ValidationError

from lintra_protocol.crypto.ring import FloatArray, from_ring, to_ring
from lintra_protocol.crypto.sharing import combine, split
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import FalseClaimError, InvalidTaskError, LintraError, RowUnderfilledError
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms.noise_law import MIN_SIGMA
from lintra_protocol.mechanisms.ron_gauss import RonGauss
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.transforms.orthonormal import frame, frame_digest
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

SEED = bytes(range(32))
DIGEST = frame_digest(frame(SEED, 4, 2))
TARGET = 0.236704380663
THIRDS = ("red", "green", "blue")


def claim(**changes: object) -> Claim:
    return Claim.model_validate({"epsilon": "1", "delta": "0.000001", "min_clients": 1000} | changes)


def mechanism(**changes: object) -> RonGauss:
    """Return one of four numbers, projected to two, with T = 2000 at f = 12, two classes and no histogram."""
    values = {
        "row_bound": "0.48828125",
        "fraction_bits": 12,
        "sigma": 801577,
        "dimension": 2,
        "frame_seed": base64url(SEED),
        "frame_digest": DIGEST,
        "label": 4,
        "levels": (0, 0, 0, 0, 2),
        "bins": (0, 0, 0, 0, 0),
        "mean_weight": "1",
    }
    return RonGauss.model_validate(values | changes)


def wide(label_levels: int, bins: int, weight: str) -> RonGauss:
    """Return one of 64 numbers projected to ten, T = 2000, for the known plans."""
    digest = frame_digest(frame(SEED, 64, 10))
    return mechanism(
        dimension=10,
        frame_digest=digest,
        label=64 if label_levels else -1,
        levels=(0,) * 64 + ((label_levels,) if label_levels else ()),
        bins=(bins,) * 64 + ((0,) if label_levels else ()),
        mean_weight=weight,
    )


def ceil_root(variance: int) -> int:
    return isqrt(variance - 1) + 1


def exact(given: RonGauss, rows: FloatArray) -> FloatArray:
    return words_of_steps(given, document_of(given).clip(rows, setting_of(given))).astype(float)


# --- the noise --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("classes", "bins", "weight", "planned", "mu", "words"),
    [
        (2, 0, "1", (5389889, 321263, None, 642524823131, None), 0.236704284432, 77),
        (0, 0, "0.6", (None, 552255, None, 397622917212, None), 0.236704318686, 65),
        (2, 5, "1", (7785396, 464046, None, 928091411189, 124566321), 0.236704356395, 77 + 5 * 64),
    ],
)
def test_known_plans_in_the_smallest_integer_deviations(
    classes: int, bins: int, weight: str, planned: tuple[int | None, ...], mu: float, words: int
) -> None:
    products = planned[3] or 0
    given = wide(classes, bins, weight).model_copy(update={"sigma": ceil_root(products)})
    measurement_of(given, len(given.levels), claim()).check(10_000)
    assert layout_of(given, 0).num_noised == words
    for deviation, variance in zip(astuple(given.deviations)[:5], planned, strict=True):
        assert variance is None or deviation == ceil_root(variance)
    # Deviations rounded up promise a little more than the variances of the plan, so that a smaller sigma will do.
    assert mu * 0.998 < measurement_of(given, len(given.levels), claim()).privacy(1000).mu <= mu
    smallest = measurement_of(given, len(given.levels), claim()).smallest_sigma()
    assert 0.997 * given.sigma < smallest <= given.sigma
    measurement_of(given.model_copy(update={"sigma": smallest}), len(given.levels), claim()).check(10_000)


def test_squares_carry_at_least_twice_the_variance_of_products() -> None:
    own = mechanism().deviations
    assert (own.squares - 1) ** 2 < 2 * own.products**2 <= own.squares**2


def test_counts_never_decide() -> None:
    two = mechanism()
    one = mechanism(label=-1, levels=(0,) * 4, bins=(0,) * 4)
    assert measurement_of(one, 4, claim()).privacy(1000).mu == pytest.approx(
        measurement_of(two, 5, claim()).privacy(1000).mu, rel=1e-3
    )
    assert measurement_of(one, 4, claim()).privacy(1000).mu <= measurement_of(two, 5, claim()).privacy(1000).mu


def test_every_word_has_the_noise_of_its_kind() -> None:
    given = mechanism(bins=(3, 0, 0, 0, 0))
    own = given.deviations
    assert_array_equal(
        noise_sigmas(given, 5),
        [own.counts] * 2 + [own.sums] * 4 + [own.squares, own.products, own.squares] + [own.histograms] * 3,
    )
    assert layout_of(given).least_sigma == noise_sigmas(given, 5).min()


@pytest.mark.parametrize("change", [{}, {"covariance": "per_class"}, {"bins": (16, 2, 0, 0, 0)}])
@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
def test_calibration_keeps_the_claim_and_one_step_less_breaks_it(change: dict[str, object], neighbours: str) -> None:
    promised = claim(neighbours=neighbours, max_corrupt_clients=10)
    given = calibrated_for(mechanism(**change), 5, promised, 10_000)
    measurement_of(given, 5, promised).check(10_000)
    assert 0.999 < measurement_of(given, 5, promised).privacy(1000).epsilon <= 1
    with pytest.raises(FalseClaimError):
        measurement_of(given.model_copy(update={"sigma": given.sigma - 1}), 5, promised).check(10_000)


def test_fewer_clients_weaken_the_promise_and_below_the_minimum_break_it() -> None:
    given = calibrated_for(mechanism(), 5, claim(), 10_000)
    epsilons = [measurement_of(given, 5, claim()).privacy(clients).epsilon for clients in (4000, 2000, 1000, 999, 500)]
    assert epsilons == sorted(set(epsilons))
    measurement_of(given, 5, claim()).privacy(1000).require(claim())
    with pytest.raises(FalseClaimError):
        measurement_of(given, 5, claim()).privacy(999).require(claim())
    with pytest.raises(RowUnderfilledError):
        measurement_of(given, 5, claim(min_clients=20, max_corrupt_clients=10)).privacy(10)


def test_large_noise_only_ever_uses_a_coarser_grid() -> None:
    grids = [calibrated_for(mechanism(row_bound=bound), 5, claim(), 10_000) for bound in ("0.5", "4", "32")]
    bits = [given.fraction_bits for given in grids]
    assert bits == sorted(bits, reverse=True)
    assert all(MIN_SIGMA <= min(noise_sigmas(given, 5)) <= max(noise_sigmas(given, 5)) <= MAX_SIGMA for given in grids)


# --- what a row becomes -----------------------------------------------------------------------------------------------


def test_a_known_row_through_a_frame_of_the_tasks_own() -> None:
    given = mechanism()
    row = np.array([[0.5, 0.5, 0, -0.7, 1]])
    expected = np.rint(np.array([16384, 16384, 0, -22938]) @ frame(SEED, 4, 2) / 2**18)
    assert np.linalg.norm(expected) > 2000
    steps = document_of(given).clip(row, setting_of(given))
    assert steps[0, 0] == 1
    assert_array_equal(steps[0, 1:], np.trunc(expected * 2000 / np.ceil(np.linalg.norm(expected))))
    first, second = steps[0, 1:].tolist()
    assert_array_equal(
        words_of_steps(given, steps), [[0, 4096, 0, 0, first, second, first**2, first * second, second**2]]
    )


def test_categories_numbers_and_labels_each_find_their_place() -> None:
    given = mechanism(
        dimension=5,
        frame_seed="",
        frame_digest="",
        levels=(0, 3, 2, 0),
        bins=(4, 3, 2, 8),
        label=3,
        row_bound="100",
        mean_weight="0.6",
    )
    assert (given.num_features, given.num_classes, given.has_numeric_label) == (5, 1, True)
    assert given.label_bound == (given.bound + 1) // 2 == 204800
    one = 4096
    row = np.array([[0.25, 2, 0, -0.5]])
    vector = [one // 4, -one, -one, one, -one, -102400]
    assert_array_equal(document_of(given).clip(row, setting_of(given)), [[0, *vector, 2, 2, 0, 2]])
    parts = given.unpack(
        measurement_of(given, 4).decode(words_of_steps(given, document_of(given).clip(row, setting_of(given))))
    )
    assert parts.counts is None
    assert_array_equal(parts.sums * 4096, [vector])
    assert_array_equal(parts.products * 4096**2, [np.outer(vector, vector)])
    assert [cells.tolist() for cells in parts.histograms] == [[0, 0, 1, 0], [0, 0, 1], [1, 0], [0, 0, 1, 0, 0, 0, 0, 0]]


def test_hostile_rows_are_clipped_exactly() -> None:
    given = mechanism(bins=(5, 5, 5, 5, 0))
    rows = np.array([[1e300] * 5, [-1e300] * 5, [1e17, -1e17, 0.0, 1e-300, 1e9], [0, 0, 0, 0, -1e9]])
    for steps in document_of(given).clip(rows, setting_of(given)):
        assert 0 <= steps[0] <= 1
        assert int(steps[1]) ** 2 + int(steps[2]) ** 2 <= 2000**2
        assert all(0 <= cell < 5 for cell in steps[3:])
    assert np.abs(exact(given, rows)).max() <= layout_of(given).bound


def test_only_rows_that_are_too_long_where_they_are_projected_count_as_shrunk() -> None:
    given = mechanism()
    columns = frame(SEED, 4, 2) / 2**15
    inside, outside = 0.48 * columns[:, 0], 0.5 * columns[:, 0]
    rows = np.hstack([[inside, outside, np.zeros(4)], [[0], [1], [1]]])
    assert document_of(given).is_clipped(rows).tolist() == [False, True, False]


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("column", [0, 4])
def test_a_row_that_is_not_finite_makes_no_report(value: float, column: int) -> None:
    row = np.zeros((1, 5))
    row[0, column] = value
    with pytest.raises(ValueError, match="finite"):
        encode_rows(mechanism(), row, source("noise"))


def test_shares_of_noised_vectors_add_up_bit_for_bit() -> None:
    given = calibrated_for(mechanism(bins=(3, 0, 0, 0, 0)), 5, claim(), 10_000)
    rows = np.random.default_rng(1).uniform(-1, 1, (30, 5))
    noised = encode_rows(given, rows, source("noise"))
    servers = np.zeros((3, layout_of(given, 5).num_noised), np.uint64)
    for number, report in enumerate(noised):
        servers += split(to_ring(report), 3, source(f"share {number}"))
    assert_array_equal(from_ring(combine(servers)), noised.sum(axis=0))
    assert_array_equal(noised - exact(given, rows), measurement_of(given, 5).noise(30, source("noise")))


def test_decoding_gives_rows_and_feature_units() -> None:
    given = mechanism(bins=(2, 0, 0, 0, 0))
    rows = np.array([[0.1, 0.2, -0.1, 0.1, 0], [0.1, -0.2, 0.2, 0.1, 1], [-0.3, 0, 0, 0, 1]])
    parts = given.unpack(
        measurement_of(given, 5).decode(exact(given, rows).sum(axis=0, keepdims=True).astype(np.int64))
    )
    assert parts.counts is not None
    assert_array_equal(parts.counts, [1, 2])
    projected = rows[:, :4] @ frame(SEED, 4, 2) / 2**15
    assert np.abs(parts.sums - [projected[0], projected[1] + projected[2]]).max() < 1e-3
    assert np.abs(parts.products[0] - projected.T @ projected).max() < 1e-3
    assert_array_equal(parts.histograms[0], [1, 2])


# --- what a task may not say ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"levels": (0, 0, 2), "bins": (0,) * 3, "label": 2}, "those of 3 columns, the task has 5"),
        ({"levels": (0, 0, 0, 0, 1)}, "at least 2 levels"),
        ({"bins": (0, 0, 0, 0, 2)}, "column 4: 2 cells do not fit"),
        ({"levels": (0, 0, 3, 0, 2), "bins": (0, 0, 2, 0, 0)}, "column 2: 2 cells do not fit 3 levels"),
        ({"dimension": 5}, "dimension 5 does not fit 4 features"),
        ({"frame_digest": ""}, "stand together"),
        ({"frame_seed": "", "frame_digest": ""}, "a frame is needed exactly if"),
        ({"dimension": 4}, "a frame is needed exactly if"),
        ({"frame_seed": "A" * 42 + "B"}, "frame: not canonical"),
        ({"fraction_bits": 16}, "15 fraction bits"),
        ({"mean_weight": "0"}, "mean_weight"),
        ({"mean_weight": "1.5"}, "mean_weight"),
        ({"mean_weight": "-1"}, "mean_weight"),
        ({"label": -1, "levels": (0,) * 5, "covariance": "per_class", "dimension": 3}, "needs a label with levels"),
        ({"row_bound": "0.0001"}, "below one step"),
        ({"row_bound": "-1"}, "row_bound -1 is not positive"),
        ({"row_bound": "0"}, "row_bound 0 is not positive"),
        ({"sigma": 4}, "deviations lie between"),
        ({"sigma": MAX_SIGMA}, "deviations lie between"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(changes: Mapping[str, object], complaint: str) -> None:
    with pytest.raises(InvalidTaskError, match=complaint):
        measurement_of(mechanism(**changes), 5, claim()).check(10_000)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"levels": (0, 0, 0, 2), "label": 3}, "4 columns have levels, 5 have bins"),
        ({"label": 5}, "label 5 is not the number of one of 5 columns"),
        ({"label": -2}, "greater than or equal to -1"),
        ({"dimension": 0}, "greater than or equal to 1"),
        ({"frame_seed": "A"}, "match pattern"),
        ({"indicator": 0}, "greater than or equal to 1"),
    ],
)
def test_what_no_document_may_say_is_refused_when_it_is_read(changes: Mapping[str, object], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        mechanism(**changes)


def test_a_frame_that_takes_a_client_too_long_is_refused() -> None:
    with pytest.raises(InvalidTaskError, match="too long"):
        measurement_of(mechanism(dimension=1000, label=-1, levels=(0,) * 2000, bins=(0,) * 2000), 2000, claim()).check(
            10_000
        )


@pytest.mark.slow
def test_whatever_a_stranger_writes_into_the_parameters_ends_in_words() -> None:
    tiny, huge = "0.0000000000000000000000000000000000000001", "999999999999999999"
    values: dict[str, list[object]] = {
        "row_bound": ["0.5", tiny, huge, "-1"],
        "mean_weight": ["1", tiny, huge],
        "indicator": [1, 2**30],
        "bins": [(0,) * 5, (65536, 1, 1, 1, 0)],
        "fraction_bits": [0, 15, 40],
        "sigma": [4, MAX_SIGMA],
    }
    claims = [claim(), claim(min_clients=2**32), claim(delta="0.9", epsilon=huge)]
    accepted = 0
    for *parameters, given in product(*values.values(), claims):
        changed = mechanism().model_copy(update=dict(zip(values, parameters, strict=True)))
        # Calibration sets the last two parameters itself.
        measurement = measurement_of(changed, 5, given)
        for ask in (measurement.check, measurement.calibrated) if parameters[-2:] == [0, 4] else (measurement.check,):
            try:
                ask(2**32)
            except LintraError:
                continue
            accepted += 1
    assert accepted > 0


def test_too_little_noise_is_refused() -> None:
    with pytest.raises(FalseClaimError):
        measurement_of(mechanism(sigma=801577 * 9 // 10), 5, claim()).check(10_000)


def test_a_frame_that_the_digest_does_not_name_stops_a_client() -> None:
    with pytest.raises(InvalidTaskError, match="frame_digest"):
        encode_rows(mechanism(frame_seed=base64url(bytes(32))), np.zeros((1, 5)), source("noise"))


COLOURS = Column(name="colour", lower="0", upper="2", kind="category", levels=THIRDS)
SQUARE = [Column(name=name, lower="-1", upper="1") for name in "abcd"]


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ([*SQUARE, COLOURS], "'colour' has 3 levels, not 2"),
        ([*SQUARE, Column(name="y", lower="0", upper="1", kind="boolean")], "'y' has 0 levels, not 2"),
        ([COLOURS, *SQUARE], "'colour' has 3 levels, not 0"),
        ([*SQUARE[:3], Column(name="d", lower="0", upper="1"), COLOURS], "'d': center and scale"),
        ([*SQUARE[:3], Column(name="d", lower="-1", upper="1", scale="2"), COLOURS], "'d': center and scale"),
    ],
)
def test_columns_that_the_mechanism_does_not_fit_are_refused(columns: list[Column], complaint: str) -> None:
    with pytest.raises(InvalidTaskError, match=complaint):
        mechanism().check_columns(columns)


def test_more_cells_than_values_are_refused() -> None:
    columns = [*SQUARE[:3], Column(name="d", lower="-1", upper="1", kind="integer"), COLOURS]
    given = mechanism(levels=(0, 0, 0, 0, 3), bins=(0, 0, 0, 3, 0))
    given.check_columns(columns)
    with pytest.raises(InvalidTaskError, match="'d' has fewer values than the 4 cells"):
        given.model_copy(update={"bins": (0, 0, 0, 4, 0)}).check_columns(columns)
