"""Second moments with Wishart noise."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from papers.gaussian_inverse import GaussianInverse

from lintra_curator.claims.claim import curator_claim
from lintra_curator.second_moment.bounded_table import BoundedTable, plain_columns
from lintra_curator.second_moment.inverse_wishart import InverseWishartDraw
from lintra_curator.second_moment.projection import GaussianProjection
from lintra_curator.second_moment.wishart_noise import WishartNoise, wishart_factor
from lintra_protocol.crypto.randomness import RandomBytes
from support import source

NAMES = ("c0", "c1", "c2", "c3")
COLUMNS = plain_columns(NAMES, 2.0)
CLAIM = curator_claim(1.0, 1e-6)
ROWS = np.random.default_rng(1).normal(size=(80, 4))


def table(row_bound: float = 2.0, rows: int = 80) -> BoundedTable:
    return BoundedTable.of(ROWS[:rows], COLUMNS, row_bound)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda t, s: GaussianProjection(sketch_rows=0).release(t, CLAIM, s), "sketch_rows"),
        (lambda t, s: GaussianProjection(sketch_rows=2.5).release(t, CLAIM, s), "sketch_rows"),
        (lambda t, s: InverseWishartDraw(degrees=7).release(t, CLAIM, s), "degrees"),
        (lambda t, s: WishartNoise(degrees=5).release(t, CLAIM, s), "more than 5 degrees"),
        (lambda t, s: WishartNoise(degrees=math.nan).release(t, CLAIM, s), "more than 5 degrees"),
        (lambda t, s: WishartNoise(scale=0).release(t, CLAIM, s), "scale"),
        (lambda t, s: WishartNoise(scale=1, degrees=30).release(t, CLAIM, s), "not both"),
        (lambda t, s: GaussianInverse(ridge=0).release(t, CLAIM, s), "ridge"),
        (lambda t, s: GaussianInverse(ridge=math.nan).release(t, CLAIM, s), "ridge"),
        (lambda t, s: wishart_factor(4, 2.5, s), "whole number"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(
    make: Callable[[BoundedTable, RandomBytes], object], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        make(table(), source("refused"))
