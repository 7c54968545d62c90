"""Dithered rounding: what it gives on average, which words it reads in which order, and what would be wrong."""

import json
from io import BytesIO
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.mechanisms import MECHANISMS, SecondMoment, Sum
from lintra_protocol.noise.clipping import column_norms, dither, dithered_norm, quantise_dithered
from support import source
from support.measured import measurement_of

VECTORS = json.loads((Path(__file__).resolve().parents[3] / "vectors/dithered.json").read_text("ascii"))
LARGEST = b"\xff\xff\xff\xff"


def test_the_mean_is_the_number_and_the_variance_that_of_a_coin() -> None:
    # Six deviations: a right rounding fails once in 10^8 runs; one that is off by a hundredth of a step always does.
    rounds, values = 200_000, np.array([0.25, -0.25, 7.9, -3.001, 1e-3, 2.0**28 - 0.75])
    drawn = dither(np.broadcast_to(values, (rounds, values.size)).copy(), source("mean")) - np.floor(values)
    part = values - np.floor(values)
    off = np.abs(drawn.mean(axis=0) - part) * sqrt(rounds) / np.sqrt(part * (1 - part))
    assert off.max() < 6
    assert set(np.unique(drawn)) == {0, 1}
    assert (np.abs(drawn.mean(axis=0) + 0.01 - part) * sqrt(rounds) / np.sqrt(part * (1 - part)) > 6).all()


def test_whole_numbers_stay_whatever_the_words_are_also_where_a_double_could_not_hold_the_sum() -> None:
    whole = np.array([[0.0, -0.0, 5.0, -(2.0**28), 2.0**30]])
    for word in (bytes(4), LARGEST):
        assert_array_equal(dither(whole, lambda count, word=word: word * (count // 4)), whole)  # type: ignore[misc]
    # floor(x + u / 2^32) would move 2^28 up for the largest u.
    assert np.floor(2.0**28 + (2**32 - 1) / 2**32) == 2**28 + 1


def test_norms_are_added_up_in_the_order_of_the_columns() -> None:
    # In another order, or with fewer roundings, the many small squares would not be lost beside the large one.
    row = np.array([2.0**30, *[2.0] * 1000])
    total = 0.0
    for value in row.tolist():
        total += value * value
    assert column_norms(row[np.newaxis])[0] == sqrt(total) == 2.0**30
    assert column_norms(row[np.newaxis, ::-1])[0] > 2.0**30
    assert_array_equal(column_norms(np.zeros((2, 0))), [0.0, 0.0])


def test_rows_are_shrunk_so_that_no_outcome_leaves_the_ball() -> None:
    rows = np.random.default_rng(8).normal(size=(500, 5)) * 1000
    for squared in (25, 1000, 10**6):
        up = quantise_dithered(rows, squared, bytes)
        assert np.square(up).sum(axis=1).max() <= squared
    assert dithered_norm(25, 5) == 5 - sqrt(5)
    assert dithered_norm(4, 9) == 0


def test_reports_made_with_the_words_of_another_row_are_not_those_of_the_vectors() -> None:
    given = [(each["input"], each["output"]) for each in VECTORS if each["operation"] == "dithered_report"]
    right = [report(one, one["u"]) == output for one, output in given]
    swapped = [report(one, other["u"]) == output for (one, output), (other, _) in pairwise(given) if fits(one, other)]
    turned = [report(one, one["u"][1:] + one["u"][:1]) == output for one, output in given if None not in one["row"]]
    assert all(right)
    # Each number is rounded alike by other words in half of all cases or more, and a row has three or four.
    assert sum(swapped) < 3 * len(swapped) / 4
    assert sum(turned) < len(turned) / 2


def fits(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return None not in one["row"] and len(one["u"]) == len(other["u"])


def report(given: dict[str, Any], words: list[str]) -> list[str]:
    """Return what a vector's row becomes with these words."""
    read = source_of(words)
    mechanism = MECHANISMS[given["mechanism"]["kind"]].from_value(given["mechanism"])
    row = np.array([[np.nan if value is None else float(value) for value in given["row"]]])
    reports = measurement_of(mechanism, 3).exact_reports(row, np.array([given["outside"]]), read)
    return [str(word) for word in reports[0].tolist()]


def source_of(words: list[str]) -> RandomBytes:
    return BytesIO(b"".join(int(word).to_bytes(4, "little") for word in words)).read


def test_a_report_reads_the_words_of_its_rounding_before_those_of_its_noise() -> None:
    mechanism = SecondMoment(
        row_bound="2", fraction_bits=6, sigma=900, intercept="1", rounding="dithered", row_weights="all"
    )
    measurement, row = measurement_of(mechanism, 3), np.array([[0.3, -0.4, 0.1]])
    stream = source("order")
    first = stream(4 * 4)
    exact = measurement.exact_reports(row, None, lambda count: first[:count])
    assert_array_equal(measurement.encode(row, source("order")), exact + measurement.noise(1, stream))


def test_without_a_generator_dithering_says_what_it_lacks() -> None:
    measurement = measurement_of(Sum(row_bound="2", fraction_bits=6, sigma=900, rounding="dithered"), 2)
    with pytest.raises(ValueError, match="dithered rounding takes a source of them"):
        measurement.exact_reports(np.zeros((1, 2)))
