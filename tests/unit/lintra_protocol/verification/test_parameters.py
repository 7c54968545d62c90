"""The bound on the length of a verified report."""

import math

import numpy as np
import pytest

from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.verification.parameters import noised_bound


def tail_bound(longest: int, variances: IntArray, t: float) -> float:
    """What a squared norm exceeds with probability e^-t at most."""
    largest = int(variances.max())
    under_root = float((variances.astype(float) ** 2).sum()) + 2 * largest * longest
    return longest + float(variances.sum()) + 2 * math.sqrt(t * under_root) + 2 * t * largest


def test_the_bound_is_the_tail_of_one_in_e_to_the_56() -> None:
    variances = np.array([10**10, 10**10, 225 * 10**8])
    found = noised_bound(10**12, variances.tolist())
    assert found == pytest.approx(tail_bound(10**12, variances, 56), rel=1e-12)
    assert found >= tail_bound(10**12, variances, 56)
    assert noised_bound(100, [0, 0]) == 100
