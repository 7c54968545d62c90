"""`histogram`: which cell a value lies in, how far two rows lie apart, and what a task may not say."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms import Histogram
from lintra_protocol.privacy.statement import Claim
from support import make_task, source
from support.measured import calibrated_for, document_of, encode_rows, measurement_of, reports_without_noise, setting_of

EDGES = (("0", "1", "2.5", "4"), ("-3", "3"), ())
MIXED = Histogram(sigma=4, edges=EDGES, levels=(0, 0, 3), indicator=5)
COLUMNS = (
    Column(name="a", lower="0", upper="4"),
    Column(name="b", lower="-3", upper="3"),
    Column(name="c", lower="0", upper="2", kind="category", levels=("x", "y", "z")),
)


def claim(neighbours: str) -> Claim:
    return Claim(epsilon="1", delta="0.000001", min_clients=20, max_corrupt_clients=1, neighbours=neighbours)


def every_row() -> np.ndarray:
    """Return one row for each choice of cells, and values on and beside every edge."""
    ends = [0.0, 1.0, 2.5, 4.0]
    first = sorted({*ends, *(float(np.nextafter(end, end + side)) for end in ends for side in (-1, 1)), -9.0, 1e300})
    return np.array(list(product(first, [-3.0, 0.0, 99.0], [0.0, 1.0, 2.0])))


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
def test_no_two_rows_are_farther_apart_than_the_stated_distance_and_some_are_as_far(neighbours: str) -> None:
    reports = reports_without_noise(MIXED, every_row())
    assert set(map(tuple, reports.tolist())) == {
        (*(5 * (k == i) for k in range(3)), 0, 5, 0, *(5 * (k == j) for k in range(3)), 0)
        for i in range(3)
        for j in range(3)
    }
    found = {tuple(report) for report in reports.tolist()}
    others = found if neighbours == "replace-one" else {(0,) * 10}
    farthest = max(sum((a - b) ** 2 for a, b in zip(one, two, strict=True)) for one in found for two in others)
    stated = measurement_of(MIXED, 3, claim(neighbours)).squared_distance
    # Values that are not missing never differ in the column of one cell.
    assert stated == Fraction(2 if neighbours == "replace-one" else 1) * 3 * 25
    assert farthest == (2 * 2 * 25 if neighbours == "replace-one" else stated)
    whole = MIXED.model_copy(update={"edges": (EDGES[0], ("-3", "0", "3"), ())})
    reports = reports_without_noise(whole, every_row())
    distances = ((reports[:, np.newaxis] - reports) ** 2).sum(axis=2)
    assert distances.max() == measurement_of(whole, 3, claim("replace-one")).squared_distance


def test_a_cell_holds_its_lower_end_and_the_last_one_both() -> None:
    values = np.array([[0.0], [1.0], [np.nextafter(1.0, 0)], [2.5], [4.0], [-7.0], [70.0]])
    rows = np.hstack([values, np.zeros((7, 2))])
    assert document_of(MIXED).clip(rows, setting_of(MIXED))[:, 0].tolist() == [0, 1, 0, 2, 2, 0, 2]


def test_counts_are_those_that_numpy_finds() -> None:
    generator = np.random.default_rng(1)
    rows = np.column_stack(
        [generator.uniform(0, 4, 5000), generator.uniform(-3, 3, 5000), generator.integers(0, 3, 5000)]
    )
    total = reports_without_noise(MIXED, rows).sum(axis=0)
    first, second, third = MIXED.by_column(measurement_of(MIXED, 3).decode(total[np.newaxis]))
    assert first.tolist() == [*np.histogram(rows[:, 0], [0, 1, 2.5, 4])[0].tolist(), 0]
    assert second.tolist() == [5000, 0]
    assert third.tolist() == [*np.bincount(rows[:, 2].astype(int)).tolist(), 0]


@pytest.mark.parametrize(
    ("columns", "clients", "neighbours", "sigma"),
    # organisations.md, V9; against the null row the noise is that of 1 / sqrt(2) of the distance.
    [(1, 5, "replace-one", 12236), (1, 5, "zero-out", 8653), (2, 20, "replace-one", 7940)],
)
def test_the_noise_of_one_row_at_epsilon_1_is_known(columns: int, clients: int, neighbours: str, sigma: int) -> None:
    given = claim(neighbours).model_copy(update={"min_clients": clients})
    plain = Histogram(sigma=4, edges=(("0", "1", "2"),) * columns, levels=(0,) * columns)
    assert calibrated_for(plain, columns, given, 100).sigma == sigma


def test_the_noise_does_not_depend_on_the_number_of_cells() -> None:
    given = claim("replace-one")
    few, many = (
        Histogram(sigma=4, edges=(tuple(str(edge) for edge in range(count + 1)),), levels=(0,)) for count in (2, 4096)
    )
    assert calibrated_for(few, 1, given, 100).sigma == calibrated_for(many, 1, given, 100).sigma


def test_a_missing_value_has_a_cell_of_its_own_and_is_as_far_from_others_as_they_are() -> None:
    missing = reports_without_noise(MIXED, np.array([[np.nan, 0.0, np.nan], [0.0, np.nan, 1.0]]))
    assert missing.tolist() == [[0, 0, 0, 5, 5, 0, 0, 0, 0, 5], [5, 0, 0, 0, 0, 5, 0, 5, 0, 0]]
    assert ((missing[0] - missing[1]) ** 2).sum() == measurement_of(MIXED, 3, claim("replace-one")).squared_distance


def test_rows_of_another_length_are_not_counted() -> None:
    with pytest.raises(ValueError, match="expected rows of 3 columns"):
        encode_rows(MIXED, np.zeros((1, 2)), source("noise"))


def test_its_columns_are_those_of_the_task() -> None:
    mechanism = calibrated_for(MIXED.model_copy(update={"indicator": 4096}), 3, claim("replace-one"), 100)
    make_task(mechanism, columns=COLUMNS, claim=claim("replace-one"), max_clients=100)
    wrong = [
        (COLUMNS[0].model_copy(update={"center": "1"}), "give center 0 and scale 1"),
        (COLUMNS[0].model_copy(update={"scale": "2"}), "give center 0 and scale 1"),
        (COLUMNS[0].model_copy(update={"upper": "5"}), "are not its bounds 0 and 5"),
        (Column(name="a", lower="0", upper="1", kind="boolean"), "has 2 levels, not 0"),
    ]
    for column, said in wrong:
        with pytest.raises(InvalidTaskError, match=said):
            make_task(mechanism, columns=(column, *COLUMNS[1:]), claim=claim("replace-one"), max_clients=100)


def test_nothing_shrinks_a_row_and_nothing_is_said_to() -> None:
    assert not document_of(MIXED).is_clipped(every_row()).any()
    assert "outer cells" in measurement_of(MIXED).clipping_rule()


CROSSED = MIXED.model_copy(update={"edges": (("0", "1", "2.5", "4"), ("-3", "0", "3"), ()), "crossed": True})


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
def test_crossed_columns_have_a_cell_for_every_combination_and_rows_lie_two_words_apart_at_most(
    neighbours: str,
) -> None:
    rows = np.concatenate([every_row(), [[np.nan, 0, 0], [1, 0, np.nan]]])
    reports = reports_without_noise(CROSSED, rows)
    assert reports.shape[1] == 3 * 2 * 3 + 1
    assert (reports.sum(axis=1) == 5).all()
    found = {int(place) for place in np.argmax(reports, axis=1)}
    assert found == set(range(19))
    assert np.argmax(reports[-2:], axis=1).tolist() == [18, 18]
    inside = reports_without_noise(CROSSED, np.array([[1.5, -1, 2]]))[0]
    assert np.flatnonzero(inside).tolist() == [1 * 6 + 0 * 3 + 2]
    stated = measurement_of(CROSSED, 3, claim(neighbours)).squared_distance
    others = reports if neighbours == "replace-one" else np.zeros((1, 19))
    farthest = ((reports[:, np.newaxis] - others) ** 2).sum(axis=2).max()
    assert farthest == stated == (2 if neighbours == "replace-one" else 1) * 25


def test_a_crossed_histogram_says_so_in_its_document_and_another_keeps_its_own() -> None:
    assert CROSSED.model_dump(mode="json")["crossed"] is True
    assert "crossed" not in MIXED.model_dump(mode="json")
    fields = CROSSED.model_dump()
    assert Histogram.model_validate(fields | {"indicator": 7}).counted_cells == (18,)
    for wrong in (
        {"edges": (("0", "1"),), "levels": (0,)},
        {"edges": ((), ()), "levels": (1000, 5)},
    ):
        with pytest.raises(ValueError, match="crossed columns are 2 or more, with at most 4096 cells"):
            Histogram.model_validate(fields | wrong)
