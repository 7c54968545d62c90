"""The plain sum."""

import numpy as np
from numpy.testing import assert_array_equal

from lintra_protocol.transforms.base import Ones, PublicMatrix
from support import source


def test_the_fast_form_equals_the_plain_one_bit_for_bit() -> None:
    shares = np.frombuffer(source("shares")(8 * 9 * 4), np.uint64).reshape(9, 4)
    fast, plain = np.zeros((1, 4), np.uint64), np.zeros((1, 4), np.uint64)
    Ones(9).add_reports(fast, np.arange(9), shares)
    PublicMatrix.add_reports(Ones(9), plain, np.arange(9), shares)
    assert_array_equal(fast, plain)


def test_every_report_enters_the_only_row_with_sign_one() -> None:
    row_numbers, signs = Ones(5).entries(np.arange(3))
    assert_array_equal(row_numbers, [[0]] * 3)
    assert_array_equal(signs, [[1]] * 3)
    assert_array_equal(Ones(5).row_counts(), [5])


def test_an_empty_cohort_sums_to_nothing() -> None:
    sketch = np.zeros((1, 2), np.uint64)
    Ones(0).add_reports(sketch, np.arange(0), np.empty((0, 2), np.uint64))
    assert_array_equal(sketch, [[0, 0]])
