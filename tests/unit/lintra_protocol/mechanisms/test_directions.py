"""A second round of second moments along public directions: the promise holds whatever the directions are."""

from fractions import Fraction
from itertools import product
from typing import Literal

import numpy as np
import pytest

from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.mechanisms.directions import MAX_SQUARED_COLUMN, along, directions, encode_basis
from lintra_protocol.mechanisms.second_moment import SecondMoment
from lintra_protocol.privacy.statement import Claim, Neighbours
from support.measured import (
    calibrated_for,
    document_of,
    exact_sum,
    layout_of,
    measurement_of,
    noise_sigmas,
    reports_without_noise,
    row_distance,
    setting_of,
    with_contributors,
)

ONE = 1 << 14
AFTER = "A" * 43
IDENTITY = np.array([[ONE, 0], [0, ONE]])
# Orthonormal, turned, twice the same, as long as a direction may be, and one that turns rows over.
BASES = {
    "identity": IDENTITY,
    "turned": np.array([[11585, 11585], [11585, -11585]]),
    "twice the same": np.array([[ONE, ONE], [0, 0]]),
    "longest": np.array([[16384, 16384], [16384, -16384]]),
    "opposite": np.array([[-ONE, 0], [0, -ONE]]),
    "nothing": np.array([[0, 0], [0, 0]]),
}


def second(basis: IntArray, bound: int = 25, **changes: object) -> SecondMoment:
    """Return the second round on a grid of steps of 1; rows have squared norms up to `bound`."""
    fields = {"row_bound": "5" if bound == 25 else "2", "fraction_bits": 0, "sigma": 1000, "after": AFTER}
    return SecondMoment.model_validate({**fields, "basis": encode_basis(basis), **changes})


def ball(bound: int, size: int) -> IntArray:
    reach = range(-int(bound**0.5), int(bound**0.5) + 1)
    return np.array([row for row in product(reach, repeat=size) if sum(x * x for x in row) <= bound])


def weighted(mechanism: SecondMoment, reports: IntArray, num_columns: int) -> IntArray:
    """Return reports in which the squared difference is doubled, in multiples of sigma: squares have twice variance."""
    single = noise_sigmas(mechanism, num_columns) == mechanism.sigma
    return np.concatenate([reports[:, single], reports[:, single], reports[:, ~single]], axis=1)


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("options", [{}, {"intercept": "3", "trace": True}, {"intercept": "7"}, {"targets": (1,)}])
def test_no_two_rows_of_a_small_ball_are_farther_apart_than_the_promise(name: str, options: dict[str, object]) -> None:
    mechanism, rows = second(BASES[name], **options), ball(25, 2).astype(np.float64)
    reports = weighted(mechanism, reports_without_noise(mechanism, rows), 2)
    squares = np.square(reports[:, np.newaxis] - reports[np.newaxis]).sum(axis=2)
    assert squares.max() <= 2 * row_distance(mechanism, "replace-one")
    if not mechanism.trace:
        assert np.square(reports).sum(axis=1).max() <= 2 * row_distance(mechanism, "zero-out")
    if (name, options) == ("identity", {}):
        assert squares.max() == 2 * row_distance(mechanism, "replace-one") == 2 * 25**2


def test_without_the_second_clip_the_promise_would_be_broken() -> None:
    mechanism, rows = second(BASES["twice the same"]), ball(25, 2)
    joined = along(rows, BASES["twice the same"], ())
    assert np.square(joined).sum(axis=1).max() == 50 > mechanism.squared_bound
    assert (
        np.square(document_of(mechanism).clip(rows.astype(np.float64), setting_of(mechanism))).sum(axis=1).max() <= 25
    )


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
@pytest.mark.parametrize("name", ["twice the same", "longest"])
def test_no_two_persons_of_two_rows_are_farther_apart_than_the_promise(name: str, neighbours: Neighbours) -> None:
    count: Literal["exact", "noisy"] = "noisy" if neighbours == "replace-one" else "exact"
    held = Contributors(rows_per_person=2, max_rows=10, organisations_per_person=1, count=count)
    mechanism = with_contributors(second(BASES[name], 4, intercept="1"), held)
    ones, twos = ball(4, 2).astype(np.float64), ball(8, 4).astype(np.float64)
    found = [exact_sum(mechanism, row[np.newaxis], np.zeros(1, np.int64)) for row in ones]
    found += [exact_sum(mechanism, rows.reshape(2, 2), np.zeros(2, np.int64)) for rows in twos]
    found.append(np.zeros_like(found[0]))
    reports = weighted(mechanism, np.array(found), 2)
    if neighbours == "replace-one":
        squares = np.square(reports).sum(axis=1)
        largest = int((squares[:, np.newaxis] + squares - 2 * reports @ reports.T).max())
    else:
        largest = int(np.square(reports).sum(axis=1).max())
    assert largest <= 2 * row_distance(mechanism, neighbours)


def test_huge_rows_and_any_directions_stay_inside_the_bound() -> None:
    rng = np.random.default_rng(2)
    for bits in (0, 10, 24):
        for _ in range(20):
            basis = rng.integers(-2000, 2001, (30, 8))
            mechanism = second(basis, fraction_bits=bits, targets=(3, 29))
            rows = rng.normal(size=(5, 30)) * 10.0 ** rng.integers(-3, 18, (5, 1))
            assert (
                np.square(document_of(mechanism).clip(rows, setting_of(mechanism))).sum(axis=1).max()
                <= mechanism.squared_bound
            )


def test_products_along_directions_are_exact_and_halves_are_rounded_up() -> None:
    rng = np.random.default_rng(4)
    basis = rng.integers(-3000, 3001, (40, 5))
    rows = rng.integers(-(2**26), 2**26, (6, 40))
    found = along(rows, basis, (7,))
    for row, own in zip(rows.tolist(), found.tolist(), strict=True):
        for j in range(5):
            total = sum(x * int(q) for x, q in zip(row, basis[:, j], strict=True))
            assert own[j] == (total + 2**13) // 2**14
        assert own[5] == row[7]
    half = np.array([[ONE // 2]])
    assert along(np.array([[1], [-1], [3]]), half, ()).tolist() == [[1], [0], [2]]


def test_words_and_noise_do_not_depend_on_the_number_of_columns() -> None:
    rng = np.random.default_rng(5)
    claim = Claim(epsilon="1", delta="0.000001", min_clients=1000)
    made = [
        calibrated_for(second(rng.integers(-900, 900, (size, 6)), intercept="1", targets=(0,)), size, claim, 2000)
        for size in (40, 300)
    ]
    assert [layout_of(one, size).num_noised for one, size in zip(made, (40, 300), strict=True)] == [7 + 28] * 2
    assert made[0].sigma == made[1].sigma
    plain = calibrated_for(SecondMoment(row_bound="5", fraction_bits=0, sigma=4, intercept="1"), 7, claim, 2000)
    assert (made[0].fraction_bits, made[0].sigma) == (plain.fraction_bits, plain.sigma)


def test_the_clip_counter_counts_rows_that_are_too_long_only_with_their_targets() -> None:
    mechanism = second(IDENTITY, targets=(0,), clip_count_weight="0.2")
    assert document_of(mechanism).is_clipped(np.array([[0.0, 4.0], [4.0, 2.0], [9.0, 9.0]])).tolist() == [
        False,
        True,
        True,
    ]


def test_a_task_without_a_basis_is_written_as_before() -> None:
    plain = SecondMoment(row_bound="5", fraction_bits=0, sigma=1000)
    assert set(plain.model_dump()) == {"kind", "row_bound", "fraction_bits", "sigma", "intercept", "trace"}
    assert plain.remark(measurement_of(plain, 2, Claim(epsilon="9", delta="0.1", min_clients=90)).privacy(90)) == ""
    other = second(IDENTITY)
    assert "second of two rounds" in other.remark(
        measurement_of(other, 2, Claim(epsilon="9", delta="0.1", min_clients=90)).privacy(90)
    )
    assert "along public directions" in measurement_of(other).clipping_rule()


@pytest.mark.parametrize("longest", [True, False])
def test_a_direction_may_be_a_little_longer_than_one_and_not_more(longest: bool) -> None:
    steps = np.array([[16384 + 6786], [0]]) + (0 if longest else 1)
    assert (int(np.square(steps).sum()) <= MAX_SQUARED_COLUMN) is longest
    if longest:
        assert directions(encode_basis(steps), 2).tolist() == steps.tolist()
        return
    with pytest.raises(InvalidTaskError, match=r"2\^29 the most"):
        directions(encode_basis(steps), 2)


def test_no_loss_of_bound_is_hidden_in_the_distance() -> None:
    assert row_distance(second(IDENTITY), "zero-out") == Fraction(25**2, 2)
