"""The clip counter: what a client sends, what it costs, and who has none."""

from fractions import Fraction
from itertools import product
from math import sqrt

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import FalseClaimError, InvalidTaskError
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms import MECHANISMS, AnyMechanism, RonGauss, SecondMoment, Sum
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.privacy.statement import Claim
from support import make_task, source, uncalibrated
from support.measured import (
    calibrated_for,
    clip_steps,
    layout_of,
    measurement_of,
    measurement_of_sketch,
    noise_sigmas,
    reports_without_noise,
    row_distance,
)

CLAIM = Claim(epsilon="1", delta="0.000001", min_clients=64)
SUM = Sum(row_bound="5", fraction_bits=0, sigma=100, clip_count_weight="0.7")
PRODUCTS = SecondMoment(row_bound="5", fraction_bits=0, sigma=1000, clip_count_weight="0.7")
COUNTING = [
    SUM,
    PRODUCTS,
    *(
        PRODUCTS.model_copy(update={"intercept": intercept, "trace": trace})
        for intercept in ("0", "5", "7")
        for trace in (False, True)
    ),
]
JOINT = RonGauss(
    row_bound="1", fraction_bits=0, sigma=64, dimension=2, levels=(0, 0, 2), bins=(2, 2, 0), label=2, mean_weight="1",
    clip_count_weight="0.7",
)  # fmt: skip


def ball() -> FloatArray:
    rows = product(range(-5, 6), repeat=2)
    return np.array([row for row in rows if sum(x * x for x in row) <= 25], np.float64)


def with_both_flags(mechanism: Mechanism, rows: FloatArray) -> list[list[int]]:
    """Return all reports of rows that a bound of a column moved, and of the same rows unmoved."""
    flags = (np.zeros(len(rows), np.bool_), np.ones(len(rows), np.bool_))
    return np.concatenate([reports_without_noise(mechanism, rows, outside) for outside in flags]).tolist()


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
@pytest.mark.parametrize("mechanism", COUNTING, ids=str)
def test_no_two_reports_of_a_small_ball_are_further_apart_than_stated_and_some_are_as_far(
    mechanism: AnyMechanism, neighbours: str
) -> None:
    reports = np.array(with_both_flags(mechanism, ball()))
    others = reports if neighbours == "replace-one" else np.zeros((1, reports.shape[1]), np.int64)
    # Variances in sigma^2, unrounded: 1 or, for squares, 2. Twice the distance is an integer.
    halves = np.where(noise_sigmas(mechanism, 2) == mechanism.sigma, 2, 1)
    largest = max(int((np.square(others - report) * halves).sum(axis=1).max()) for report in reports)
    stated = measurement_of(mechanism, 2, CLAIM.model_copy(update={"neighbours": neighbours})).squared_distance
    assert Fraction(largest, 2) == stated
    assert stated == row_distance(mechanism, neighbours) + clip_steps(mechanism) ** 2  # type: ignore[arg-type]


@pytest.mark.parametrize("mechanism", COUNTING, ids=str)
def test_no_report_of_a_small_ball_is_longer_than_what_a_proof_allows(mechanism: AnyMechanism) -> None:
    reports = np.array(with_both_flags(mechanism, ball()))
    allowed = measurement_of(mechanism, 2, CLAIM).squared_length
    assert allowed is not None
    assert np.square(reports).sum(axis=1).max() <= allowed


@pytest.mark.parametrize("pairs", [(), ((0, 1),), ((0, 1), (0, 2), (1, 2))])
def test_joint_sums_are_as_far_apart_as_stated_and_no_farther(pairs: tuple[tuple[int, int], ...]) -> None:
    paired = {"pairs": pairs, "pair_bins": (2, 2, 2 * (len(pairs) > 1)), "pair_weight": "0.8", "count_weight": "1.2"}
    mechanism = calibrated_for(JOINT.model_copy(update=paired if pairs else {}), 3, CLAIM, 640)
    angles = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    rows = np.concatenate([np.column_stack([circle, np.full(60, level)]) for level in (0, 1)])
    scaled = np.array(with_both_flags(mechanism, rows)) / noise_sigmas(mechanism, 3)
    squares = np.square(scaled).sum(axis=1)
    largest = float((squares[:, np.newaxis] + squares - 2 * scaled @ scaled.T).max())
    stated = float(measurement_of(mechanism, 3, CLAIM).squared_distance) / mechanism.sigma**2
    assert 0.999 * stated < largest <= stated * (1 + 1e-9)
    without = stated - clip_steps(mechanism) ** 2 / mechanism.sigma**2
    assert largest > (1.3 if not pairs else 1.2) * without
    if pairs:
        bare = mechanism.model_copy(update={"pairs": (), "pair_bins": ()})
        assert largest > 1.05 * float(measurement_of(bare, 3, CLAIM).squared_distance) / mechanism.sigma**2


def test_a_row_counts_if_a_column_or_the_norm_bound_moved_it_and_not_if_it_lies_on_the_sphere() -> None:
    mechanism = SUM.model_copy(update={"fraction_bits": 4})
    columns = (Column(name="a", lower="-4", upper="4"), Column(name="b", lower="-9", upper="9"))
    task = make_task(mechanism, columns=columns, check=False)
    rows = np.array([[0.0, 0.0], [4.0, 3.0], [4.0, 3.01], [4.01, 0.0], [-9.0, 9.0], [4.0, 0.0], [1.0, 2.0]])
    noise = measurement_of(mechanism, 2).noise(len(rows), source("noise"))
    sent = (task.encode(rows, source("noise")) - noise)[:, -1]
    assert_array_equal(sent // clip_steps(mechanism), [0, 0, 1, 1, 1, 0, 0])
    assert clip_steps(mechanism) == int(0.7 * 2 * 5 * 16)


def test_a_row_of_the_very_norm_is_unclipped_however_its_squares_round() -> None:
    mechanism = Sum(row_bound="1", fraction_bits=20, sigma=100, clip_count_weight="0.2")
    directions = np.random.default_rng(3).normal(size=(2000, 7))
    unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    assert not reports_without_noise(mechanism, unit)[:, -1].any()
    assert reports_without_noise(mechanism, unit * (1 + 1e-6))[:, -1].all()


def test_what_a_row_sends_does_not_depend_on_its_company() -> None:
    rows = np.random.default_rng(4).normal(size=(50, 3)) * 4
    for mechanism in (SUM, PRODUCTS):
        together = reports_without_noise(mechanism, rows)
        assert_array_equal(
            together, np.concatenate([reports_without_noise(mechanism, row[np.newaxis]) for row in rows])
        )


@pytest.mark.parametrize("mechanism", [SUM, PRODUCTS, JOINT], ids=["sum", "second_moment", "ron_gauss"])
@pytest.mark.parametrize("weight", ["0.1", "0.2", "1"])
def test_all_noise_grows_by_the_root_of_one_plus_the_squared_weight(mechanism: AnyMechanism, weight: str) -> None:
    columns = 3 if mechanism is JOINT else 2
    bare, counting = (
        calibrated_for(mechanism.model_copy(update={"clip_count_weight": own}), columns, CLAIM, 640)
        for own in ("0", weight)
    )
    assert bare.fraction_bits == counting.fraction_bits
    assert counting.sigma / bare.sigma == pytest.approx(sqrt(1 + float(weight) ** 2), rel=1e-4)
    assert layout_of(counting, columns).num_noised == layout_of(bare, columns).num_noised + 1
    assert noise_sigmas(counting, columns)[-1] == counting.sigma
    measurement_of(counting, columns, CLAIM).check(640)
    with pytest.raises(FalseClaimError):
        measurement_of(bare.model_copy(update={"clip_count_weight": weight}), columns, CLAIM).check(640)


def test_without_a_counter_a_task_has_the_bytes_that_it_had_and_with_one_others() -> None:
    bare = SUM.model_copy(update={"clip_count_weight": "0"})
    assert b"clip" not in bare.canonical()
    assert b'"clip_count_weight":"0.7"' in SUM.canonical()
    assert Sum.from_canonical(bare.canonical()) == bare
    assert Sum.from_canonical(SUM.canonical()) == SUM
    assert layout_of(bare, 3).num_noised == 3
    with pytest.raises(ValueError, match="no clip counter"):
        measurement_of_sketch(bare, np.zeros((1, 3), np.int64)).clipped_rows(np.zeros((1, 3), np.int64))


def test_every_mechanism_counts_whose_rows_can_be_clipped_and_the_other_refuses_in_words() -> None:
    claim = CLAIM.model_copy(update={"min_clients": 600})
    without = [kind for kind, member in MECHANISMS.items() if "clip counter" not in member.allows]
    assert without == ["histogram", "histogram_laplace", "sum_laplace"]
    mechanism = calibrated_for(uncalibrated("histogram"), 3, claim, 1000).model_copy(
        update={"clip_count_weight": "0.2"}
    )
    with pytest.raises(InvalidTaskError, match="histogram cannot count clipped rows"):
        measurement_of(mechanism, 3, claim).check(1000)


@pytest.mark.parametrize("weight", ["-0.1", "1.01"])
def test_a_weight_out_of_range_is_refused(weight: str) -> None:
    with pytest.raises(InvalidTaskError, match="between 0 and 1"):
        calibrated_for(SUM.model_copy(update={"clip_count_weight": weight}), 2, CLAIM, 640)


def test_a_weight_below_one_step_of_the_grid_is_refused() -> None:
    with pytest.raises(InvalidTaskError, match="less than one step"):
        measurement_of(SUM.model_copy(update={"clip_count_weight": "0.01"}), 2, CLAIM).check(640)


def test_decoded_numbers_are_those_without_the_counter() -> None:
    rows = ball()
    for mechanism in (SUM, PRODUCTS.model_copy(update={"intercept": "2", "trace": True})):
        bare = mechanism.model_copy(update={"clip_count_weight": "0"})
        total = reports_without_noise(mechanism, rows * 1.5).sum(axis=0, keepdims=True)
        assert_array_equal(measurement_of(mechanism, 2).decode(total), measurement_of(bare, 2).decode(total[:, :-1]))
        assert (
            measurement_of_sketch(mechanism, total).clipped_rows(total)
            == (np.linalg.norm(rows * 1.5, axis=1) > 5).sum()
        )
