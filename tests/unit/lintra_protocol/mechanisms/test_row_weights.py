"""Row weights: the distances that the promise rests on, by enumeration of all small integer rows, and the shrinking."""

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import isqrt, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.mechanisms import SecondMoment
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.clipping import dither, shrink_factors
from lintra_protocol.privacy.statement import Claim
from support import source
from support.measured import calibrated_for, layout_of, measurement_of, noise_sigmas, with_contributors

CLAIM = Claim(epsilon="1", delta="0.000001", min_clients=100)
MODES: dict[str, dict[str, object]] = {
    "features": {"row_weights": "features", "target": 1, "target_bound": "2"},
    "all": {"row_weights": "all", "target": 1},
    "no target": {"row_weights": "all"},
    "turned": {
        "row_weights": "features",
        "target": 1,
        "target_bound": "2",
        "features_basis": (("1.5", "-0.7"), ("0.2", "30")),
    },
}


def weighted(mode: str = "all", **changes: object) -> SecondMoment:
    """Return a mechanism with row weights on a grid of whole numbers."""
    given = {"row_bound": "2", "fraction_bits": 0, "sigma": 1000, "intercept": "1", "rounding": "dithered"}
    return SecondMoment.model_validate(given | MODES[mode] | changes)


def ball(squared: int, size: int) -> IntArray:
    """Return all integer vectors of so many entries whose squared norm is at most `squared`, shape `(k, size)`."""
    reach = range(-isqrt(squared), isqrt(squared) + 1)
    return np.array([row for row in product(reach, repeat=size) if sum(x * x for x in row) <= squared], np.int64)


def halves(measurement: Measurement) -> IntArray:
    """Return 2 for every word with noise sigma and 1 for every square: twice the inverse of each word's variance."""
    return np.where(measurement.layout.sigmas[: measurement.layout.num_noised] == 1000, 2, 1)


def farthest(words: IntArray, others: IntArray, weights: IntArray) -> Fraction:
    """Return the largest squared distance of two reports, in multiples of each word's noise over sigma."""
    scaled, second = words * np.sqrt(weights), others * np.sqrt(weights)
    squares = np.square(scaled).sum(axis=1)[:, None] + np.square(second).sum(axis=1) - 2 * scaled @ second.T
    first, other = np.unravel_index(int(squares.argmax()), squares.shape)
    # The largest is found in floating point, and computed in integers.
    return Fraction(int((np.square(words[first] - others[other]) * weights).sum()), 2)


def reports_of(measurement: Measurement, persons: list[IntArray], counter: bool) -> IntArray:
    """Return the noised words of every person's integer vectors; of nobody the null report, which comes last."""
    setting, mechanism = measurement.setting, measurement.mechanism
    blocks = mechanism.blocks(measurement.num_columns, setting)
    words = [blocks.summed(mechanism.fill(rows, setting)) for rows in persons]
    sums = np.array([*words, np.zeros_like(words[0])])
    if not counter:
        return sums
    # A clipped row adds g, another one nothing: each of them may be either; a null row is never clipped.
    clipped = np.array([*[measurement.layout["clipped"].bound] * len(words), 0], np.int64)
    return np.vstack([np.column_stack([sums, np.zeros(len(sums), np.int64)]), np.column_stack([sums, clipped])])


@pytest.mark.parametrize("mode", ["features", "all"])
@pytest.mark.parametrize("squared", [4, 9, 13])
@pytest.mark.parametrize("trace", [False, True])
def test_no_two_weighted_rows_are_farther_apart_than_stated_and_some_are_as_far(
    squared: int, mode: str, trace: bool
) -> None:
    vectors = [row[np.newaxis] for row in ball(squared, 3)]
    for count, weight, neighbours in product(("exact", "noisy"), ("0", "0.5"), ("replace-one", "zero-out")):
        mechanism = weighted(mode, row_bound=bound_of(squared), trace=trace, count=count, clip_count_weight=weight)
        assert mechanism.squared_bound == squared
        claim = CLAIM.model_copy(update={"neighbours": neighbours})
        measurement = Measurement(mechanism, 2, Setting(), claim)
        words = reports_of(measurement, vectors, weight != "0")
        null = np.zeros((1, words.shape[1]), np.int64)
        others = words if neighbours == "replace-one" else null
        assert farthest(words, others, halves(measurement)) == measurement.squared_distance


def bound_of(squared: int) -> str:
    """Return a decimal bound whose square, rounded down, is `squared`."""
    root = isqrt(squared * 10**24)
    return f"{(root + (root * root < squared * 10**24)) / 10**12:.12f}".rstrip("0").rstrip(".")


@pytest.mark.parametrize("trace", [False, True])
@pytest.mark.parametrize(
    ("rows", "squared", "bound"), [(1, 9, None), (2, 4, None), (3, 3, None), (3, 3, "2"), (2, 9, "3")]
)
@pytest.mark.grid(3)
def test_no_person_moves_weighted_products_farther_than_stated_and_some_as_far(
    rows: int, squared: int, bound: str | None, trace: bool
) -> None:
    held = {"rows_per_person": rows, "organisations_per_person": 1, "max_rows": 100, "person_bound": bound}
    for count, neighbours in product(("exact", "noisy"), ("replace-one", "zero-out", "add-remove")):
        if count == "exact" and (neighbours == "add-remove" or (neighbours == "replace-one" and rows > 1)):
            continue
        setting = Setting(Contributors.model_validate(held | {"count": count}))
        mechanism = weighted("features", trace=trace, row_bound=bound_of(squared))
        claim = CLAIM.model_copy(update={"neighbours": neighbours})
        measurement = Measurement(mechanism, 2, setting, claim)
        persons = persons_of(mechanism.person_bound(setting), rows)
        words = reports_of(measurement, persons, counter=False)
        null = np.zeros((1, words.shape[1]), np.int64)
        others = words if neighbours == "replace-one" else null
        assert farthest(words, others, halves(measurement)) == measurement.squared_distance


def persons_of(bound: int, most: int) -> list[IntArray]:
    """Return all persons of one to `most` integer vectors of three entries, squared norms together at most `bound`."""
    single = ball(bound, 3)
    long = np.square(single).sum(axis=1)
    if most > 1:
        # The products of x and -x are the same, so that half of all vectors tell all persons apart.
        single = single[[tuple(row) >= tuple(-row) for row in single]]
        long = np.square(single).sum(axis=1)
    persons: list[IntArray] = []
    for number in range(1, most + 1):
        some = np.array([*combinations_with_replacement(range(len(single)), number)], np.int64)
        persons += [single[places] for places in some[long[some].sum(axis=1) <= bound]]
    return persons


def test_a_constant_outside_the_trace_would_break_the_promise_and_is_found() -> None:
    measurement = Measurement(weighted(trace=True, row_bound="3"), 2, Setting(), CLAIM)
    vectors = ball(9, 3)
    right = measurement.layout.reports(measurement.mechanism.fill(vectors, Setting()))
    wrong = right.copy()
    wrong[:, measurement.layout.sent("trace")] = np.square(vectors[:, 1:]).sum(axis=1, keepdims=True)
    stated, weights = measurement.squared_distance, halves(measurement)
    assert farthest(right, right, weights) == stated == 81
    # A row of nothing but its constant, and one that has none left: R^4 + R^4 / 2.
    assert farthest(wrong, wrong, weights) == Fraction(3, 2) * stated


EXTREMES: list[Callable[[int], bytes]] = [bytes, lambda count: b"\xff" * count]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bits", [3, 8])
def test_no_dithered_row_leaves_the_ball_and_none_is_truncated(mode: str, bits: int) -> None:
    mechanism, rng = weighted(mode, row_bound="2.5", fraction_bits=bits), np.random.default_rng(5)
    rows = rng.normal(size=(2000, 3)) * np.exp(rng.normal(size=(2000, 1)) * 3)
    persons = rows[:1800].reshape(-1, 3, 3)
    held = Setting(Contributors(rows_per_person=3, organisations_per_person=1, max_rows=100, count="noisy"))
    for taken, setting in ((rows, Setting()), (persons, held)):
        for words in (*EXTREMES, source("dither")):
            steps = mechanism.clip(taken, setting, words).reshape(len(taken), -1)
            lengths = np.square(steps).sum(axis=1)
            assert lengths.max() <= mechanism.person_bound(setting)
            weights = mechanism.weights(3)
            unshrunk = weights.vectors(taken.reshape(-1, 3)).reshape(len(taken), -1)
            # Every entry is one of the two whole numbers beside that of the shrunk vector: nothing was truncated.
            along = (steps * unshrunk).sum(axis=1) / np.square(unshrunk).sum(axis=1)
            assert (np.abs(steps - along[:, None] * unshrunk) < 2).all()


def test_dither_after_the_clip_leaves_the_ball_and_is_found() -> None:
    rows = np.random.default_rng(6).normal(size=(1000, 4)) * 100
    on_the_sphere = rows * shrink_factors(np.sqrt(np.square(rows).sum(axis=1)), 20.0)[:, None]
    lengths = np.square(dither(on_the_sphere, source("late"))).sum(axis=1)
    assert (lengths > 400).mean() > 0.3


TURN = np.array([[1.5, -0.7], [0.2, 30.0]])
"""The matrix of the mode "turned"."""


def shrunk_by(mode: str, rows: FloatArray, factor: float) -> FloatArray:
    """Return the weights t^2 of rows of three columns at R = 2.5, c = 1; `factor` is k, Y = 2."""
    target = np.clip(rows[:, 1], -2, 2) * factor if mode in ("features", "turned") else rows[:, 1] * factor
    features = 1 + np.square(rows[:, [0, 2]]).sum(axis=1)
    if mode == "turned":
        features = 1 + np.square(rows[:, [0, 2]] @ TURN.T).sum(axis=1)
    if mode in ("features", "turned"):
        return np.minimum(1, 2.5**2 / 2 / features)
    return np.minimum(1, 2.5**2 / (features + target**2))


@pytest.mark.parametrize("mode", MODES)
def test_products_are_those_of_rows_with_the_weights_of_the_formula(mode: str) -> None:
    mechanism = weighted(mode, row_bound="2.5", fraction_bits=20)
    rows = np.random.default_rng(7).normal(size=(400, 3)) * 1.5
    measurement = measurement_of(mechanism, 3)
    factor = mechanism.weights(3).target_factor
    by_features = mode in ("features", "turned")
    expected = 2.5 / sqrt(2) / 2 if by_features else 1.0
    assert factor == pytest.approx(expected, rel=1e-5)
    vectors = np.column_stack([np.ones(400), rows])
    vectors[:, 2] = (np.clip(rows[:, 1], -2, 2) if by_features else rows[:, 1]) * factor
    if mode == "turned":
        vectors[:, [1, 3]] = rows[:, [0, 2]] @ TURN.T
    exact = measurement.exact_reports(rows, None, source("weights")).sum(axis=0, keepdims=True)
    products = vectors.T @ (vectors * shrunk_by(mode, rows, factor)[:, None])
    assert_allclose(measurement.decode(exact), products, atol=0.01)


def test_the_trace_tightens_the_corner_like_every_other_square() -> None:
    measurement = measurement_of(weighted(trace=True, row_bound="100"), 2)
    words = np.arange(1, 8)[np.newaxis]
    # Squares 1, 4, 6 and a trace of 7: each moves by (7 - 11) / 4.
    assert_array_equal(measurement.decode(words), [[0, 2, 3], [2, 3, 5], [3, 5, 5]])


def test_a_row_with_a_missing_number_sends_zeros_its_constant_too_and_reads_as_many_random_words() -> None:
    rows = np.array([[1.0, np.nan, 0.5], [1.0, 0.25, 0.5]])
    for count in ("exact", "noisy"):
        measurement = measurement_of(weighted("features", row_bound="60", count=count, clip_count_weight="0.2"), 3)
        reports = measurement.exact_reports(rows, np.array([True, True]), source("missing"))
        assert not reports[0].any()
        assert reports[1].all()
    read: list[int] = []
    measurement.exact_reports(rows[:1], None, lambda count: read.append(count) or bytes(count))
    assert sum(read) == 4 * 4


def test_under_an_exact_count_of_an_organisation_a_row_with_a_missing_number_counts_and_adds_nothing() -> None:
    mechanism = weighted("features", row_bound="60")
    held = with_contributors(
        mechanism, Contributors(rows_per_person=1, organisations_per_person=1, max_rows=9, count="exact")
    )
    rows = np.array([[1.0, np.nan, 0.5], [1.0, 0.25, 0.5]])
    both, whole = (
        measurement_of(held, 3).exact_contribution(some, np.arange(len(some)), bytes) for some in (rows, rows[1:])
    )
    assert_array_equal(both[:-1], whole[:-1])
    assert (both[-1], whole[-1]) == (2, 1)


def test_the_clip_counter_counts_bounds_of_columns_and_of_the_target_and_no_weight() -> None:
    rows = np.array([[90.0, 1.0], [0.0, 1.9], [0.0, -2.1], [0.0, np.nan]])
    features, everything = (measurement_of(weighted(mode), 2) for mode in ("features", "all"))
    assert_array_equal(features.is_clipped(rows), [False, False, True, False])
    assert_array_equal(everything.is_clipped(rows), [False] * 4)


def test_the_words_are_the_triangle_with_the_constant_the_trace_and_a_count() -> None:
    mechanism = weighted(trace=True, count="noisy", row_bound="10")
    assert [(block.name, block.size) for block in layout_of(mechanism, 2).blocks] == [
        ("products", 6),
        ("trace", 1),
        ("count", 1),
    ]
    assert layout_of(mechanism, 2).rows_per_count == 20
    assert_array_equal(noise_sigmas(mechanism, 2), [1415, 1000, 1000, 1415, 1000, 1415, 1415, 1000])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rounding": "nearest"}, "use rounding 'dithered'"),
        ({"intercept": "0"}, "give an intercept above 0"),
        ({"target": 2}, "not the number of one of 2 columns"),
        ({"row_weights": "features"}, "give a target and its target_bound"),
        ({"row_weights": "features", "target": 0}, "give a target and its target_bound"),
        ({"target_bound": "2"}, "leave target_bound out"),
        ({"target": None, "target_factor": "1.4"}, "needs a target"),
        ({"row_weights": None}, "belong to row_weights"),
        ({"features_basis": (("1", "0"), ("0", "1"))}, "1 rows of 1 numbers turn 1 features"),
        ({"features_basis": (("1", "0"),)}, "1 rows of 1 numbers turn 1 features"),
        ({"features_basis": (("0",),)}, "no inverse"),
        ({"features_basis": (("1000001",),)}, "no number is larger than 1000000"),
        ({"target": None, "features_basis": (("1", "2"), ("2", "4"))}, "no inverse"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_words(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidTaskError, match=words):
        calibrated_for(weighted().model_copy(update=changes), 2, CLAIM, 1000)


def test_weights_are_left_out_of_documents_that_have_none() -> None:
    plain = SecondMoment(row_bound="1", fraction_bits=0, sigma=4)
    assert not {"row_weights", "target", "target_bound", "target_factor", "rounding"} & plain.model_dump().keys()
    assert weighted("features").model_dump().items() >= MODES["features"].items()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [1e150, 1e300, 1.7e308])
def test_a_row_of_any_size_stays_in_the_ball(mode: str, size: float) -> None:
    """A factor in steps once became infinite, and infinity times 0 an integer whose square wraps to 0."""
    mechanism = weighted(mode, row_bound="10", fraction_bits=6)
    rows = np.array([[size, -size, size], [0.0, size, -size], [-size, 1.0, size]])
    steps = mechanism.clip(rows, Setting(), system_randomness)
    assert max(sum(int(step) ** 2 for step in row) for row in steps) <= mechanism.squared_bound


def test_products_of_turned_rows_are_straightened_to_those_of_the_columns() -> None:
    mechanism = weighted("turned", row_bound="100", fraction_bits=16)
    rows = np.random.default_rng(8).normal(size=(50, 3))
    measurement = measurement_of(mechanism, 3)
    collected = measurement.decode(measurement.exact_reports(rows, None, source("turn")).sum(axis=0, keepdims=True))
    straightening = mechanism.weights(3).straightening(3)
    assert straightening is not None
    own = mechanism.weights(3).target_factor
    vectors = np.column_stack([np.ones(50), rows]) * [1, 1, own, 1]
    vectors[:, 2] = np.clip(vectors[:, 2], -2 * own, 2 * own)
    weights = np.minimum(1, 100**2 / 2 / (1 + np.square(rows[:, [0, 2]] @ TURN.T).sum(axis=1)))
    assert_allclose(straightening.T @ collected @ straightening, vectors.T @ (vectors * weights[:, None]), rtol=1e-3)


def test_a_turned_row_is_bounded_after_it_was_turned() -> None:
    """A row within the ball leaves it where it is turned by 30; bounding it before would break the promise."""
    mechanism = weighted("turned", row_bound="10", fraction_bits=6)
    row = np.array([[0.0, 0.0, 4.0]])
    steps = mechanism.clip(row, Setting(), source("after"))
    assert (steps**2).sum() <= mechanism.squared_bound
    turned = mechanism.weights(3).vectors(row)
    assert (turned**2).sum() > 100 * mechanism.squared_bound
