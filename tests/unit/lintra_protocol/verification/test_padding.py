"""A row that noise made too long is noised anew."""

import numpy as np

from lintra_protocol.verification.padding import too_long
from support import make_task, source


def random_rows(count: int, seed: int, bound: float = 3.0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-bound, bound, (count, 3))


def test_a_row_that_noise_made_too_long_is_noised_anew() -> None:
    task = make_task(verification="norm", max_rejected="0.1", num_servers=2)
    rows = random_rows(64, 2)
    plain = make_task(task.mechanism, num_servers=2, check=False).encode(rows, source("noise"))
    assert task.verified is not None
    assert not too_long(plain, task.verified.squared_bound).any()
    # A bound that about half of all rows exceed, in the place of one that none does.
    tight = int(np.median(np.square(plain).sum(axis=1)))
    task.__dict__["verified"] = type(task.verified)(task.num_words, 2, tight)
    again = task.encode(rows, source("noise"))
    long = too_long(plain, tight)
    assert 20 < long.sum() < 44
    assert not too_long(again, tight).any()
    np.testing.assert_array_equal(again[~long], plain[~long])
    assert (again[long] != plain[long]).any(axis=1).all()


def test_a_sum_far_out_of_range_is_too_long_though_its_square_wraps() -> None:
    rows = np.array([[2**62, 2**62, 0], [2**32, 0, 0], [3, 4, 0]])
    assert too_long(rows, 25).tolist() == [True, True, False]
    assert too_long(rows, 24).tolist() == [True, True, True]
