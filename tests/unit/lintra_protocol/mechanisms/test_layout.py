"""The layout of random tasks of all kinds: blocks cover all words, sums are those of reports, bounds hold."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from lintra_protocol.crypto.randomness import expand
from lintra_protocol.errors import LintraError
from lintra_protocol.mechanisms import MECHANISMS, SecondMoment, Sum
from lintra_protocol.mechanisms.layout import CLIPPED, ROWS, Block, Layout, Products, Triangle, triangle_matrix
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.task import Task
from support import SEED, few, source
from support.measured import ANY_CLAIM, measurement_of
from support.random_tasks import random_persons, random_rows, random_wish

every_kind = pytest.mark.parametrize("kind", [kind for kind in MECHANISMS if kind != "first_column"])

KURTOSIS = {"second_moment_wishart": 15}
"""The largest kurtosis of a word's noise where it is not Gaussian: that of the square of a normal number."""


def random_tasks(kind: str, count: int = 4) -> list[Task]:
    """Return some tasks of a kind; what fits nothing is passed over. Wishart noise takes seconds to calibrate."""
    count = 1 if kind == "second_moment_wishart" else count
    tasks: list[Task] = []
    for seed in range(40):
        try:
            tasks.append(random_wish(seed, kind).task())
        except (LintraError, ValueError):
            continue
        if len(tasks) == count:
            return tasks
    return tasks


@every_kind
@pytest.mark.grid(3)
def test_blocks_cover_all_words_of_a_report_and_of_a_release_and_none_twice(kind: str) -> None:
    for task in random_tasks(kind):
        layout = task.measurement.layout
        for where, size in ((layout.sent, task.num_words), (layout.released, task.sketch_words)):
            counted = np.zeros(size, np.int64)
            for block in layout.blocks:
                counted[where(block.name)] += 1
            assert_array_equal(counted, 1)
        assert layout.sigmas.shape == (task.num_words,)
        for block in layout.blocks:
            assert_array_equal(layout.sigmas[layout.sent(block.name)], np.tile(block.sigmas, block.copies))
        assert (layout.sigmas == 0).any() == (ROWS in layout)


@every_kind
def test_a_block_that_is_not_there_has_no_place(kind: str) -> None:
    for task in random_tasks(kind, 2):
        layout = task.measurement.layout
        assert layout.sent("nothing") == layout.released("nothing") == slice(0, 0)
        with pytest.raises(KeyError, match="nothing"):
            layout["nothing"]


@every_kind
def test_the_sum_of_reports_is_what_an_organisation_contributes(kind: str) -> None:
    """Products are added up as matrix products, other words one by one: both give the same integers."""
    for number, task in enumerate(random_tasks(kind)):
        measurement, setting = task.measurement, task.setting
        rows = task.schema_arrays.normalise(random_rows(task, number))
        filled = measurement._filled(measurement.mechanism.clip(np.nan_to_num(rows), setting, source("layout")))
        filled[CLIPPED] = np.zeros((len(rows), 1), np.int64)
        layout = measurement.layout
        assert_array_equal(layout.summed(filled), layout.reports(filled).sum(axis=0))


@every_kind
def test_no_word_of_a_report_is_above_its_bound(kind: str) -> None:
    for number, task in enumerate(random_tasks(kind)):
        measurement = task.measurement
        rows = np.concatenate([random_rows(task, number) * factor for factor in (1.0, 30.0)])
        rows = np.clip(rows, task.schema_arrays.lower, task.schema_arrays.upper)
        normalised = task.schema_arrays.normalise(rows)
        if task.contributors is None:
            reports, most = measurement.exact_reports(normalised, None, source("layout")), 1
        else:
            places, persons = random_persons(task, number)
            reports = measurement.exact_contribution(normalised[places], persons, source("layout"))[np.newaxis]
            most = task.setting.rows_per_report
        for block in measurement.layout.blocks:
            words = np.abs(reports[:, measurement.layout.sent(block.name)])
            assert words.max(initial=0) <= most * block.bound, block.name


@pytest.mark.parametrize("options", [{}, {"intercept": "1"}, {"trace": True}, {"intercept": "0.5", "trace": True}])
def test_bounds_of_products_hold_for_every_small_row_and_are_reached(options: dict[str, object]) -> None:
    mechanism = SecondMoment.model_validate({"row_bound": "1", "fraction_bits": 2, "sigma": 4} | options)
    measurement = measurement_of(mechanism, 2)
    grid = np.array(list(product(np.arange(-5, 6) / 4, repeat=2)))
    reports = measurement.exact_reports(grid)
    for block in measurement.layout.blocks:
        reached = int(np.abs(reports[:, measurement.layout.sent(block.name)]).max())
        assert reached == block.bound, block.name


@every_kind
def test_released_integers_become_numbers_block_by_block(kind: str) -> None:
    for number, task in enumerate(random_tasks(kind)):
        layout = task.measurement.layout
        sketch = np.random.default_rng(number).integers(-(2**40), 2**40, (task.mechanism.num_rows, task.sketch_words))
        for block in layout.blocks:
            rows = sketch[:1] if block.is_total else sketch
            unit = block.steps / block.per
            np.testing.assert_allclose(
                layout.values(sketch, block.name), rows[:, layout.released(block.name)] * unit, rtol=1e-15
            )
            spread = np.broadcast_to(layout.deviation(block.name, 9), block.size)
            np.testing.assert_allclose(
                spread, np.broadcast_to(3 * block.spread * block.sigmas * unit, block.size), rtol=1e-14
            )


@every_kind
def test_noise_has_the_deviation_of_its_word(kind: str) -> None:
    """The deviation of 4,000 draws is within six of its own deviations, also where tails are heavier."""
    (task, *_) = random_tasks(kind, 1)
    measurement = task.measurement
    noise = measurement.noise(4000, expand(SEED, kind))
    sigmas = measurement.layout.sigmas
    assert not noise[:, sigmas == 0].any()
    ratios = noise[:, sigmas > 0].std(axis=0) / sigmas[sigmas > 0] / measurement.layout.blocks[0].spread
    # A share of Laplace noise has the kurtosis of all of it as often as it has shares.
    kurtosis = KURTOSIS.get(kind, 3 + 3.1 * task.mechanism.model_dump().get("shares", 0))
    assert np.abs(ratios - 1).max() < 6 * np.sqrt((kurtosis - 1) / (4 * 4000))


@given(st.integers(1, 6), st.integers(1, 9), st.integers(1, 9), st.integers(1, 3))
@few
def test_a_triangle_is_spelled_in_the_order_of_its_products(order: int, plain: int, square: int, times: int) -> None:
    triangle = Triangle(order, plain, square, times)
    first, second = np.triu_indices(order)
    expected = [square if i == j else plain for i, j in zip(first, second, strict=True)] * times
    assert triangle.spelled().tolist() == expected
    assert triangle.size == len(expected)
    assert triangle.smallest == min(expected)
    assert triangle.largest == max(plain, square) >= max(expected)
    words = np.arange(len(first))
    matrix = triangle_matrix(words)
    assert_array_equal(matrix[first, second], words)
    assert_array_equal(matrix, matrix.T)


@pytest.mark.parametrize("form", ["outer", "upper", "dot"])
@pytest.mark.parametrize("size", [1, 1 << 18, 1 << 24])
def test_products_are_added_up_exactly_however_large_their_factors_are(form: str, size: int) -> None:
    left = np.random.default_rng(size).integers(-size, size + 1, (50, 3))
    products = Products(left, left, form)  # type: ignore[arg-type]
    expected = products.of_each_row().astype(object).sum(axis=0)
    assert products.summed(3 * size**2).tolist() == expected.tolist()


def test_products_of_many_rows_are_exact_beyond_the_integers_of_floating_point() -> None:
    """Products of odd factors below 2^20, in 2^15 rows, add up to nearly 2^55; floating point is exact to 2^53."""
    left = np.full((2**15 + 1, 1), 2**20 - 1)
    left[::2] -= 2
    assert Products(left, left).summed(2**40).tolist() == [sum(int(factor) ** 2 for factor in left[:, 0])]


def test_a_block_in_which_a_row_counts_two_is_divided_by_two() -> None:
    layout = Layout((Block("cells", 2, 3, bound=2, per=2),))
    assert layout.values(np.array([[6, 3]]), "cells").tolist() == [[3.0, 1.5]]


def test_products_deviate_by_the_root_of_the_draws_in_their_step() -> None:
    layout = Layout((Block("products", 3, Triangle(2, 5, 8), 9, step=0.25),))
    assert layout.product_deviations("products", 16) == (5.0, 8.0)
    assert layout.deviation("products", 16).tolist() == [8.0, 5.0, 8.0]


def test_a_document_of_a_million_columns_is_measured_without_spelling_it_out() -> None:
    """A report of 2^39 words has a size, bounds and a place for each block; its numbers are not made."""
    wide = Measurement(SecondMoment(row_bound="1", fraction_bits=2, sigma=9), 2**20, Setting(), ANY_CLAIM)
    assert wide.layout.num_words == 2**19 * (2**20 + 1)
    assert (wide.layout.bound, wide.layout.least_sigma, wide.layout.largest_sigma) == (16, 9, 13)
    assert wide.layout.sent("products") == slice(0, wide.layout.num_words)
    assert wide.log_wrap_probability(1000) < 0


def test_a_count_is_read_from_the_words_that_make_it() -> None:
    cells = Block("cells", 4, 3, bound=5, per=5)
    layout = Layout((cells,), counter="cells", rows_per_count=10)
    assert layout.counted(np.array([[5, 10, 15, 20]])) == 5.0
    assert layout.count_deviation(1) == pytest.approx(3 * 2 / 10)
    plain = measurement_of(Sum(row_bound="1", fraction_bits=4, sigma=9), 2)
    with pytest.raises(ValueError, match="counts no rows here"):
        plain.counted_rows(np.zeros((1, 2), np.int64))
