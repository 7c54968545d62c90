"""Organisations that contribute to a range finder: the distance of persons, exact sums, and what is refused."""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.mechanisms.range_finder import RangeFinder, Target
from lintra_protocol.privacy.statement import Claim, Neighbours
from support.measured import (
    calibrated_for,
    document_of,
    exact_sum,
    layout_of,
    measurement_of,
    measurement_of_sketch,
    reports_without_noise,
    row_distance,
    with_contributors,
)


def held(count: str = "noisy", rows: int = 2, places: int = 1) -> Contributors:
    return Contributors.model_validate(
        {"rows_per_person": rows, "organisations_per_person": places, "max_rows": 10**6, "count": count}
    )


def finder(who: Contributors, **changes: object) -> RangeFinder:
    fields = {"row_bound": "2", "fraction_bits": 0, "sigma": 100, "rank": 1, "projected_bound": "2", "intercept": "1"}
    seed = {"omega_seed": base64url(bytes(32))}
    return with_contributors(RangeFinder.model_validate(fields | seed | changes), who)


def people(columns: int, most: int) -> list[IntArray]:
    """Return all persons of at most so many integer rows of squared norm up to 4."""
    rows = [row for row in product(range(-2, 3), repeat=columns) if sum(x * x for x in row) <= 4]
    found = [combinations_with_replacement(rows, count) for count in range(most + 1)]
    return [np.array(each, np.float64).reshape(-1, columns) for some in found for each in some]


OPTIONS: list[dict[str, object]] = [
    {},
    {"trace": True},
    {"targets": (Target(column=1, bound="1", bits=1),)},
    {"intercept": "3"},
    {"projected_bound": "1", "intercept": "2"},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out", "add-remove"])
def test_no_two_persons_are_farther_apart_than_the_promise(neighbours: Neighbours, options: dict[str, object]) -> None:
    if neighbours != "replace-one" and "trace" in options:
        return
    mechanism = finder(held(), **options)
    sums = np.array([exact_sum(mechanism, rows, np.zeros(len(rows), np.int64)) for rows in people(2, 2)])
    if neighbours == "replace-one":
        squares = np.square(sums).sum(axis=1)
        largest = int((squares[:, np.newaxis] + squares - 2 * sums @ sums.T).max())
    else:
        largest = int(np.square(sums).sum(axis=1).max())
    allowed = row_distance(mechanism, neighbours)
    assert largest <= allowed
    # The bound is one for any signs; one row repeated comes close where nothing is replaced.
    assert largest >= 0.3 * allowed


def test_forgetting_the_count_or_a_persons_other_rows_would_break_the_promise() -> None:
    mechanism = finder(held(), intercept="3")
    two = exact_sum(mechanism, np.array([[2.0, 0.0], [2.0, 0.0]]), np.zeros(2, np.int64))
    moved = int(np.square(two).sum())
    assert moved <= row_distance(mechanism, "add-remove")
    alone = row_distance(document_of(mechanism), "zero-out")
    assert moved > alone + 9**2
    assert moved > 4 * alone


def test_a_person_in_several_organisations_moves_all_of_them() -> None:
    claim = Claim(epsilon="1", delta="0.000001", min_clients=5, neighbours="add-remove")
    one, three = finder(held()), finder(held(places=3))
    assert measurement_of(three, 2, claim).squared_distance == 9 * measurement_of(one, 2, claim).squared_distance


@pytest.mark.parametrize("bits", [0, 12, 26])
@pytest.mark.parametrize("options", OPTIONS[:3])
def test_blocks_of_rows_are_added_up_as_single_rows_are(bits: int, options: dict[str, object]) -> None:
    rng = np.random.default_rng(bits)
    mechanism = finder(held(rows=3), fraction_bits=bits, **options)
    rows = rng.normal(size=(40, 6))
    expected = reports_without_noise(mechanism, rows).sum(axis=0)
    assert exact_sum(mechanism, rows, np.arange(40)).tolist() == expected.tolist()


def test_rows_are_counted_exactly_or_with_noise_and_those_that_lack_a_number_only_where_counting_is_exact() -> None:
    rows = np.array([[1.0, 1.0], [np.nan, 1.0], [0.5, -1.0]])
    exact, noisy = finder(held("exact", 1)), finder(held("noisy", 1), intercept="2")
    assert (
        measurement_of_sketch(
            exact, measurement_of(exact, rows.shape[1]).exact_contribution(rows, np.arange(3))[np.newaxis]
        ).counted_rows(measurement_of(exact, rows.shape[1]).exact_contribution(rows, np.arange(3))[np.newaxis])
        == 3
    )
    assert (
        measurement_of_sketch(
            noisy, measurement_of(noisy, rows.shape[1]).exact_contribution(rows, np.arange(3))[np.newaxis]
        ).counted_rows(measurement_of(noisy, rows.shape[1]).exact_contribution(rows, np.arange(3))[np.newaxis])
        == 2
    )
    assert layout_of(noisy).count_deviation(1) == 25


def test_what_has_no_proof_is_refused_with_its_reason() -> None:
    claim = Claim(epsilon="1", delta="0.000001", min_clients=5, neighbours="add-remove")
    with pytest.raises(InvalidTaskError, match="trace needs neighbours 'replace-one': otherwise it costs noise"):
        measurement_of(finder(held(), trace=True), 4, claim).check(10)
    with pytest.raises(InvalidTaskError, match="rows are counted by an intercept; give one, a quarter"):
        measurement_of(finder(held(), intercept="0"), 4, claim).check(10)
    with pytest.raises(InvalidTaskError, match="clips the rows of a person one by one"):
        measurement_of(finder(held().model_copy(update={"person_bound": "2"})), 4, claim).check(10)
    with pytest.raises(InvalidTaskError, match="contributions do not count clipped rows"):
        measurement_of(finder(held(), clip_count_weight="0.2"), 4, claim).check(10)
    measurement_of(calibrated_for(finder(held()), 4, claim, 10), 4, claim).check(10)
