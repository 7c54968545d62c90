"""A released sketch: its noise is subtracted, and what is none is refused."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.releases.column_sums import Totals
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_analysis.releases.sketch import Sketch
from lintra_protocol.errors import InvalidReleaseError
from support.made_releases import columns, second_moment, sketch, total

Part = Sketch | SecondMomentSum | Totals
ROWS = np.random.default_rng(1).normal(size=(60, 4))


def releases() -> list[Part]:
    generator = np.random.default_rng(2)
    return [sketch(ROWS, 12, 0.5, generator), second_moment(ROWS, 0.5, generator), total(ROWS, 0.5, generator).totals]


def test_the_sketch_subtracts_exactly_the_total_noise_variance() -> None:
    # Design note vector: rows [[2,0],[0,1],[1,1]], counts (3,2,5), client noise variance 0.1.
    counts = np.array([3, 2, 5])
    values = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    release = Sketch(columns(2), values, counts, 0.1 * counts, 10, 1.0)
    assert_allclose(release.second_moment().matrix, [[4, 1], [1, 1]])


def test_a_release_that_is_not_one_is_refused() -> None:
    good_sketch, good_moment, good_sum = releases()
    assert isinstance(good_sketch, Sketch)
    assert isinstance(good_moment, SecondMomentSum)
    lopsided = good_moment.values.copy()
    lopsided[0, 1] += 1.0
    hole = good_sum.values.copy()
    hole[0] = np.nan
    with pytest.raises(InvalidReleaseError, match="symmetric"):
        replace(good_moment, values=lopsided)
    with pytest.raises(InvalidReleaseError, match="finite"):
        replace(good_sum, values=hole)
    with pytest.raises(InvalidReleaseError, match="shape"):
        replace(good_sketch, noise_variance=np.ones(3))
    with pytest.raises(InvalidReleaseError, match="negative"):
        replace(good_sketch, noise_variance=-np.ones(12))
    with pytest.raises(InvalidReleaseError, match="at least 2 rows"):
        replace(good_sketch, values=ROWS[:1], row_counts=np.array([60]), noise_variance=np.ones(1))
    with pytest.raises(InvalidReleaseError, match="client"):
        replace(good_sum, num_clients=0)
    with pytest.raises(InvalidReleaseError, match="noise sd"):
        replace(good_moment, noise_sd=float("inf"))
    with pytest.raises(InvalidReleaseError, match="row bound"):
        replace(good_moment, row_bound=0.0)
    with pytest.raises(InvalidReleaseError, match="twice: c0"):
        replace(good_sum, columns=(*columns(3), columns(1)[0]))


@pytest.mark.parametrize("factor", [1e-300, 1e-70, 1e70, 1e300])
@pytest.mark.parametrize("release", releases(), ids=lambda release: type(release).__name__)
def test_numbers_whose_products_would_leave_floating_point_are_refused(release: Part, factor: float) -> None:
    assert isinstance(release, Sketch | SecondMomentSum | Totals)
    with pytest.raises(InvalidReleaseError, match="the largest number of the release is"):
        replace(release, values=release.values * factor)
    with pytest.raises(InvalidReleaseError, match="the largest row bound of the release is"):
        replace(release, row_bound=factor)
    noise = "noise_variance" if isinstance(release, Sketch) else "noise_sd"
    with pytest.raises(InvalidReleaseError, match="the largest noise of the release is"):
        replace(release, **{noise: getattr(release, noise) * factor})
