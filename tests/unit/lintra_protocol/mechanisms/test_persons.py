"""What one person can move in the contributions of organisations, searched for over all persons of small integer rows.

Theorems O0, O1 and O2 of docs/proofs/persons.md#organisations: no two neighbours are farther apart than stated,
and some are as far, so that no smaller bound would do.
"""

import pickle
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import sqrt

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import FalseClaimError, InvalidRowError, InvalidTaskError
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.mechanisms import Histogram, Mechanism, Osnap, RonGauss, SecondMoment, Sum
from lintra_protocol.noise.clipping import quantise
from lintra_protocol.privacy.discrete import row_slack
from lintra_protocol.privacy.gaussian import gaussian_epsilon
from lintra_protocol.privacy.statement import SMOOTHING, Claim
from support import make_task, source
from support.measured import (
    calibrated_for,
    document_of,
    exact_sum,
    layout_of,
    measurement_of,
    measurement_of_sketch,
    noise_sigmas,
    reports_without_noise,
    row_distance,
    setting_of,
    sum_of_steps,
    with_contributors,
    words_of_steps,
)

CLAIM = Claim(epsilon="1", delta="0.000001", min_clients=5, max_corrupt_clients=4)
NEIGHBOURS = ("replace-one", "zero-out", "add-remove")


def contributors(rows: int, count: str = "exact", **fields: object) -> Contributors:
    """Return organisations of persons with so many rows."""
    given = {"rows_per_person": rows, "organisations_per_person": 1, "max_rows": 1000, "count": count}
    return Contributors.model_validate(given | fields)


def persons_of(mechanism: Mechanism, *, at_least: int) -> IntArray:
    """Return the noiseless sums of all persons whose integer rows of two columns keep the bound, shape `(k, w)`.

    Args:
        mechanism: of contributors, with a grid of whole numbers.
        at_least: fewest rows of a person: all of them where null rows count as rows.
    """
    held = setting_of(mechanism).contributors
    assert held is not None
    bound, most = document_of(mechanism).person_bound(setting_of(mechanism)), held.rows_per_person
    reach = range(-int(sqrt(bound)), int(sqrt(bound)) + 1)
    rows = [row for row in product(reach, repeat=2) if sum(x * x for x in row) <= bound]
    steps = np.array(rows, np.int64)
    # What a row adds on its own is what it adds to others: sums of rows' reports are sums of integers.
    own = np.array([sum_of_steps(mechanism, row[np.newaxis]) for row in steps])
    long = np.square(steps).sum(axis=1)
    found = [np.zeros((int(at_least == 0), own.shape[1]), np.int64)]
    for number in range(max(at_least, 1), most + 1):
        some = np.array([*combinations_with_replacement(range(len(rows)), number)], np.int64)
        kept = some[long[some].sum(axis=1) <= bound]
        found.append(own[kept].sum(axis=1))
    return np.unique(np.concatenate(found), axis=0)


def farthest(mechanism: Mechanism, neighbours: str) -> Fraction:
    """Return the largest squared distance of two neighbours, in multiples of each word's noise over sigma."""
    held = setting_of(mechanism).contributors
    assert held is not None
    noisy = held.count == "noisy"
    sums = persons_of(mechanism, at_least=0 if noisy else held.rows_per_person)
    nobody = np.zeros((1, sums.shape[1]), np.int64)
    others = sums if neighbours == "replace-one" else nobody
    halves = np.where(noise_sigmas(mechanism, 2) == mechanism.sigma, 2, 1)
    return Fraction(max(int((np.square(others - one) * halves).sum(axis=1).max()) for one in sums), 2)


# The intercept's C = r c^2 lies below T, on it and above it; T less than all rows together in the last.
PRODUCTS = [
    ("0", 1, {"row_bound": "3"}, True),
    ("3", 1, {"row_bound": "3"}, True),
    ("4", 1, {"row_bound": "3"}, True),
    ("2", 2, {"row_bound": "2"}, True),
    ("1", 2, {"row_bound": "2"}, False),
    ("1", 3, {"row_bound": "2", "person_bound": "1.7320508075688774"}, True),
    ("2", 2, {"row_bound": "2", "person_bound": "2"}, False),
]


@pytest.mark.parametrize("trace", [False, True])
@pytest.mark.parametrize(("intercept", "rows", "bounds", "attained"), PRODUCTS)
def test_no_person_moves_products_further_than_theorem_o1_says_and_some_as_far(
    intercept: str, rows: int, bounds: dict[str, str], attained: bool, trace: bool
) -> None:
    own = {name: value for name, value in bounds.items() if name == "person_bound"}
    for count, neighbours in product(("exact", "noisy"), NEIGHBOURS):
        if count == "exact" and (neighbours == "add-remove" or (neighbours == "replace-one" and rows > 1)):
            continue
        if count == "noisy" and intercept == "0":
            continue
        mechanism = with_contributors(
            SecondMoment(row_bound=bounds["row_bound"], fraction_bits=0, sigma=1000, intercept=intercept, trace=trace),
            contributors(rows, count, **own),
        )
        stated = row_distance(mechanism, neighbours)
        largest = farthest(mechanism, neighbours)
        assert largest <= stated
        # Above T the bound is not reached under a noisy count; below it two persons need an angle of their own.
        above = rows * int(intercept) ** 2 > document_of(mechanism).person_bound(setting_of(mechanism))
        if attained and not (above and count == "noisy" and neighbours == "replace-one"):
            assert largest == stated
        elif not above:
            assert largest > Fraction(9, 10) * stated


@pytest.mark.parametrize(("rows", "bound", "own"), [(1, "4", None), (2, "2", None), (3, "1", None), (2, "2", "2")])
def test_no_person_moves_a_sum_further_than_theorem_o2_says_and_some_as_far(
    rows: int, bound: str, own: str | None
) -> None:
    for count, neighbours in product(("exact", "noisy"), NEIGHBOURS):
        if count == "exact" and (neighbours == "add-remove" or (neighbours == "replace-one" and rows > 1)):
            continue
        held = contributors(rows, count, **({} if own is None else {"person_bound": own}))
        mechanism = with_contributors(Sum(row_bound=bound, fraction_bits=0, sigma=100), held)
        stated, largest = row_distance(mechanism, neighbours), farthest(mechanism, neighbours)
        assert largest <= stated
        assert largest == stated


def test_the_count_of_a_sum_is_free_up_to_the_constant_of_theorem_o2_and_not_beyond() -> None:
    kappa, shorter = (11 + 5 * sqrt(5)) / 8, np.linspace(0, 1, 100_001)
    moved = (1 + shorter) ** 2 + kappa * (1 - shorter**2) ** 2
    assert moved.max() <= 4 + 1e-12
    assert ((1 + shorter) ** 2 + 1.001 * kappa * (1 - shorter**2) ** 2).max() > 4
    for rows in (1, 2, 7, 65536):
        mechanism = with_contributors(Sum(row_bound="1", fraction_bits=24, sigma=100), contributors(rows, "noisy"))
        assert (
            layout_of(mechanism).rows_per_count ** 2 * rows
            <= document_of(mechanism).person_bound(setting_of(mechanism)) / 4
            < kappa * 2**48 * rows
        )


CELLS = Histogram(edges=(("0", "1", "2"), ()), levels=(0, 2), indicator=3, sigma=100)
CLASSES = RonGauss(
    row_bound="1", fraction_bits=3, sigma=64, dimension=2, levels=(0, 0, 2), bins=(2, 2, 0), label=2, indicator=10,
    mean_weight="1",
)  # fmt: skip


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_a_person_whose_rows_are_clipped_one_by_one_moves_as_much_as_lemma_o0_says(neighbours: str, rows: int) -> None:
    held = with_contributors(CELLS, contributors(rows, "noisy"))
    every = np.array([*product((0.5, 1.5, np.nan), (0.0, 1.0, np.nan))])
    each = reports_without_noise(held, every)
    sums = [each[list(some)].sum(axis=0) for n in range(rows + 1) for some in product(range(len(each)), repeat=n)]
    others = np.unique(np.array(sums), axis=0)
    second = others if neighbours == "replace-one" else np.zeros((1, others.shape[1]), np.int64)
    largest = max(int(np.square(second - one).sum(axis=1).max()) for one in others)
    assert largest == row_distance(held, neighbours) == (2 if neighbours == "replace-one" else 1) * 18 * rows**2


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_in_a_joint_vector_several_rows_cost_as_many_times_the_distance_of_one(neighbours: str) -> None:
    # On the sphere, some at a right angle in other cells and classes.
    rows = np.array([[-1.0, 0.0, 0.0], [0.0, -1.0, 1.0], [1.0, 0.0, 0.0], [0.1, 0.2, 1.0]])
    single = {kind: row_distance(CLASSES, kind) for kind in ("replace-one", "zero-out")}
    held = with_contributors(CLASSES, contributors(3, "noisy"))
    expected = 9 * single["replace-one" if neighbours == "replace-one" else "zero-out"]
    assert row_distance(held, neighbours) == expected
    claim = CLAIM.model_copy(update={"neighbours": neighbours})
    scale = held.sigma / noise_sigmas(held, 3)
    most = float(measurement_of(held, 3, claim).squared_distance)
    thrice = [
        measurement_of(held, np.tile(row, (3, 1)).shape[1]).exact_contribution(
            np.tile(row, (3, 1)), np.zeros(3, np.int64)
        )
        * scale
        for row in rows
    ]
    thrice.append(np.zeros_like(thrice[0]))
    found = max(float(np.square(one - thrice[-1]).sum()) for one in thrice)
    if neighbours == "replace-one":
        found = max(float(np.square(one - other).sum()) for one in thrice for other in thrice)
    assert 0.9 * most < found <= most


def test_a_person_in_several_organisations_moves_the_release_as_many_times_and_not_only_by_the_root() -> None:
    mechanism = SecondMoment(row_bound="3", fraction_bits=0, sigma=1000)
    one, three = (with_contributors(mechanism, contributors(1, organisations_per_person=s)) for s in (1, 3))
    assert measurement_of(three, 2, CLAIM).squared_distance == 9 * measurement_of(one, 2, CLAIM).squared_distance
    first, second = (exact_sum(one, np.array([row]), np.array([0])) for row in ([3.0, 0.0], [0.0, 3.0]))
    moved = 3 * (first - second)  # the same row everywhere
    assert Fraction(int((np.square(moved) * [1, 2, 1]).sum()), 2) == measurement_of(three, 2, CLAIM).squared_distance


def test_what_is_promised_has_the_numbers_of_the_note() -> None:
    mechanism = with_contributors(SecondMoment(row_bound="1", fraction_bits=12, sigma=35439176), contributors(1))
    claim = CLAIM.model_copy(update={"max_corrupt_clients": 1})
    statement = measurement_of(mechanism, 2, claim).privacy(5)
    assert statement.mu == pytest.approx(0.23670437484, abs=1e-10)
    assert 0.9999999 < statement.epsilon <= 1
    assert statement.persons == "persons, each with at most 1 row in at most 1 organisation"
    assert row_slack(1, 100, float(mechanism.sigma) ** 2, SMOOTHING) == pytest.approx(2.0490009e-32, rel=1e-6, abs=0)
    twice = measurement_of(with_contributors(mechanism, contributors(1, organisations_per_person=2)), 2, claim).privacy(
        5
    )
    assert twice.epsilon == pytest.approx(2.123, abs=5e-4)
    with pytest.raises(FalseClaimError):
        twice.require(claim)
    # Were the root of s enough, two organisations would cost this.
    assert gaussian_epsilon(statement.mu * sqrt(2), 1e-6) < 1.5 < twice.epsilon


def random_file(seed: int) -> tuple[FloatArray, IntArray]:
    """Return rows of three columns, some huge and some with numbers missing, and whose each is, in no order."""
    random = np.random.default_rng(seed)
    persons = random.integers(0, 40, 130)
    rows = random.normal(size=(130, 3)) * random.choice([0.1, 1, 30, 1e200], (130, 1))
    rows[random.random(rows.shape) < 0.05] = np.nan
    return rows, persons.astype(np.int64)


@pytest.mark.parametrize("count", ["exact", "noisy"])
@pytest.mark.parametrize("kind", [Sum, SecondMoment])
def test_a_contribution_is_the_sum_over_persons_of_their_rows_clipped_as_one_vector(
    kind: type[Mechanism], count: str
) -> None:
    rows, persons = random_file(5)
    options = {"intercept": "0.5", "trace": True} if kind is SecondMoment else {}
    bare = kind(row_bound="1", fraction_bits=10, sigma=1000, **options)
    held = with_contributors(bare, contributors(12, count, person_bound="2.5"))
    whole = np.isfinite(rows).all(axis=1) if count == "noisy" else np.ones(len(rows), np.bool_)
    filled = np.where(np.isfinite(rows), rows, 0)
    expected = np.zeros(layout_of(held, 3).num_noised, np.int64)
    for person in np.unique(persons[whole]):
        own = filled[whole & (persons == person)]
        steps = quantise(own.reshape(1, -1) * 2.0**10, document_of(held).person_bound(setting_of(held))).reshape(-1, 3)
        assert int(np.square(steps).sum()) <= document_of(held).person_bound(setting_of(held)) == int(2.5**2 * 4**10)
        expected += sum_of_steps(held, steps)
    found = measurement_of(held, rows.shape[1]).exact_contribution(rows, persons)
    assert_array_equal(found[: layout_of(held, 3).num_noised], expected)
    assert_array_equal(found[layout_of(held, 3).num_noised :], [130] * (count == "exact"))
    assert measurement_of_sketch(held, found[np.newaxis]).counted_rows(found[np.newaxis]) == (
        130 if count == "exact" else whole.sum()
    )


def test_products_of_large_steps_are_as_exact_as_those_of_small_ones() -> None:
    random = np.random.default_rng(3)
    steps = random.integers(-(2**28), 2**28, (50, 3))
    wide = with_contributors(SecondMoment(row_bound="1", fraction_bits=30, sigma=1000), contributors(1))
    expected = sum(words_of_steps(wide, steps).astype(object))
    assert sum_of_steps(wide, steps).tolist() == expected.tolist()


@pytest.mark.parametrize("mechanism", [CELLS, CLASSES], ids=lambda mechanism: str(mechanism.kind))
def test_rows_clipped_one_by_one_are_counted_by_what_they_add_up_to(mechanism: Mechanism) -> None:
    rows = np.array([[0.3, 1.0, 1.0], [np.nan, 0.0, 0.0], [1.0, 1.0, np.nan]])[:, : len(mechanism.levels)]  # type: ignore[attr-defined]
    held = with_contributors(mechanism, contributors(2, "noisy"))
    found = measurement_of(held, rows.shape[1]).exact_contribution(rows, np.array([0, 1, 1]))
    assert_array_equal(found, reports_without_noise(mechanism, rows).sum(axis=0))
    assert measurement_of_sketch(held, found[np.newaxis]).counted_rows(found[np.newaxis]) == 3
    assert (
        measurement_of(with_contributors(mechanism, contributors(2)), rows.shape[1]).exact_contribution(
            rows, np.array([0, 1, 1])
        )[-1]
        == 3
    )


def test_noise_is_drawn_once_and_an_exact_count_has_none() -> None:
    rows, persons = random_file(6)
    held = with_contributors(SecondMoment(row_bound="1", fraction_bits=8, sigma=5000), contributors(12))
    exact = measurement_of(held, rows.shape[1]).exact_contribution(rows, persons)
    noised = measurement_of(held, rows.shape[1]).contribution(rows, persons, source("organisation"))
    assert_array_equal(noised - exact, measurement_of(held, 3).noise(1, source("organisation"))[0])
    assert noised[-1] == exact[-1] == 130
    assert_array_equal(layout_of(held, 3).sigmas, [*noise_sigmas(held, 3), 0])


def test_a_file_with_too_many_rows_is_refused_and_so_is_a_single_row() -> None:
    held = with_contributors(Sum(row_bound="1", fraction_bits=8, sigma=5000), contributors(2, max_rows=5))
    with pytest.raises(InvalidRowError, match="a person has 3 rows"):
        measurement_of(held, np.zeros((3, 1)).shape[1]).exact_contribution(np.zeros((3, 1)), np.zeros(3, np.int64))
    with pytest.raises(InvalidRowError, match="contributes 5 at most"):
        measurement_of(held, np.zeros((6, 1)).shape[1]).exact_contribution(np.zeros((6, 1)), np.arange(6))
    with pytest.raises(ValueError, match="single rows"):
        measurement_of(with_contributors(held, None), np.zeros((1, 1)).shape[1]).exact_contribution(
            np.zeros((1, 1)), np.arange(1)
        )
    task = make_task("sum", client_auth="none").model_copy(update={"contributors": contributors(1)})
    with pytest.raises(InvalidRowError, match="one report of each organisation"):
        task.encode(np.zeros((1, task.num_columns)), source("row"))


def test_a_mechanism_of_contributors_stays_one_when_it_is_copied_and_its_document_says_nothing() -> None:
    bare = Sum(row_bound="1", fraction_bits=8, sigma=5000)
    held = with_contributors(bare, contributors(2, "noisy"))
    measurement = measurement_of(held, 3)
    assert measurement != measurement_of(bare, 3)
    assert measurement.mechanism.canonical() == bare.canonical()
    for copy, sigma in ((measurement.changed(sigma=9), 9), (pickle.loads(pickle.dumps(measurement)), 5000)):
        assert copy.setting.contributors == setting_of(held).contributors
        assert copy.mechanism.canonical() == bare.model_copy(update={"sigma": sigma}).canonical()
    assert b"contributors" not in bare.canonical()
    task = make_task("sum")
    assert b"contributors" not in task.canonical()
    changed = task.model_copy(update={"contributors": setting_of(held).contributors})
    assert changed.measurement.setting.contributors == setting_of(held).contributors
    assert (
        changed.model_copy(update={"mechanism": bare}).measurement.setting.contributors == setting_of(held).contributors
    )
    assert changed.mechanism.canonical() == task.mechanism.canonical()
    assert type(task).from_canonical(changed.canonical()) == changed
    assert changed.task_id != task.task_id


def test_calibration_gives_fraction_bits_up_where_a_person_has_many_rows() -> None:
    few, many = (
        calibrated_for(
            with_contributors(SecondMoment(row_bound="1", fraction_bits=0, sigma=4), contributors(rows)),
            3,
            CLAIM.model_copy(update={"neighbours": "zero-out"}),
            20,
        )
        for rows in (1, 200)
    )
    assert few.fraction_bits == 12 > many.fraction_bits > 2
    for held in (few, many):
        measurement_of(held, 3, CLAIM.model_copy(update={"neighbours": "zero-out"})).check(20)


def test_who_cannot_have_contributors_says_so_before_anything_is_calibrated() -> None:
    with pytest.raises(InvalidTaskError, match="organisations cannot contribute to osnap"):
        calibrated_for(
            with_contributors(Osnap(row_bound="1", fraction_bits=0, sigma=8, rows=1), contributors(1)), 2, CLAIM, 20
        )
    unlabelled = CLASSES.model_copy(update={"label": -1, "levels": (0, 0, 0), "dimension": 3})
    with pytest.raises(InvalidTaskError, match="ron_gauss counts rows by the classes of a label"):
        calibrated_for(with_contributors(unlabelled, contributors(1, "noisy")), 3, CLAIM, 20)
    with pytest.raises(InvalidTaskError, match="are for contributors"):
        measurement_of(
            Sum(row_bound="1", fraction_bits=8, sigma=5000), 2, CLAIM.model_copy(update={"neighbours": "add-remove"})
        ).check(20)
