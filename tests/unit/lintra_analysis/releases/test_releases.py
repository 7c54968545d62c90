"""Releases: what they refuse, what their repr hides, and that restricting commutes with everything."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lintra_analysis.releases.column_sums import Totals
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.release import Release
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_analysis.releases.sketch import Sketch
from lintra_protocol.errors import InvalidAnalysisError, InvalidReleaseError
from support.made_releases import columns, second_moment, sketch, total

Part = Sketch | SecondMomentSum | Totals
ROWS = np.random.default_rng(1).normal(size=(60, 4))


def releases() -> list[Part]:
    generator = np.random.default_rng(2)
    return [
        sketch(ROWS, 12, 0.5, generator),
        second_moment(ROWS, 0.5, generator),
        total(ROWS, 0.5, generator).totals,
    ]


@pytest.mark.parametrize("release", releases(), ids=lambda release: type(release).__name__)
def test_repr_shows_shape_mechanism_and_cohort_but_no_number_of_the_release(
    release: Sketch | SecondMomentSum | Totals,
) -> None:
    text = repr(release)
    assert type(release).__name__ in text
    assert "columns=4" in text
    assert "num_clients=60" in text
    for number in np.ravel(release.values):
        assert str(number)[:6] not in text
    assert "[" not in text


def test_repr_of_a_gram_estimate_holds_no_matrix() -> None:
    assert "[" not in repr(second_moment(ROWS, 0.5, np.random.default_rng(0)).second_moment())


@pytest.mark.parametrize("release", releases(), ids=lambda release: type(release).__name__)
def test_restricting_keeps_the_named_columns_in_the_given_order(release: Part) -> None:
    part = release.restrict(["c2", "c0"])
    assert [column.name for column in part.columns] == ["c2", "c0"]
    expected = release.values[[2, 0]] if release.values.ndim == 1 else release.values[..., [2, 0]]
    if isinstance(release, SecondMomentSum):
        expected = expected[[2, 0]]
    assert_array_equal(part.values, expected)


def test_restricting_and_taking_the_second_moment_commute() -> None:
    for release in releases()[:2]:
        first = release.restrict(["c3", "c1"]).second_moment()
        then = release.second_moment().restrict(["c3", "c1"])
        assert_allclose(first.matrix, then.matrix)
        assert_allclose(first.errors.entry_variance(np.eye(2)), then.errors.entry_variance(np.eye(2)))


def test_an_unknown_column_is_refused_and_the_known_ones_are_listed() -> None:
    with pytest.raises(InvalidAnalysisError, match=r"unknown columns: age; known are: c0, c1, c2, c3"):
        releases()[0].restrict(["c1", "age"])


@pytest.mark.parametrize(("names", "reason"), [([], "at least one"), (["c1", "c1"], "once"), ("c1", "list of names")])
def test_a_restriction_that_makes_no_sense_is_refused(names: list[str], reason: str) -> None:
    with pytest.raises(InvalidAnalysisError, match=reason):
        releases()[0].restrict(names)


def test_the_sketch_subtracts_exactly_the_total_noise_variance() -> None:
    # Design note vector: rows [[2,0],[0,1],[1,1]], counts (3,2,5), client noise variance 0.1.
    counts = np.array([3, 2, 5])
    values = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    release = Sketch(columns(2), values, counts, 0.1 * counts, 10, 1.0)
    assert_allclose(release.second_moment().matrix, [[4, 1], [1, 1]])


def test_a_sum_refuses_to_give_second_moments_and_says_what_would() -> None:
    with pytest.raises(InvalidAnalysisError, match="release a second moment or a sketch"):
        Release(totals=releases()[2]).second_moment()


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


def test_a_column_without_a_name_a_scale_or_finite_bounds_is_refused() -> None:
    for name, scale, upper in (("", 1.0, 1.0), ("x", 0.0, 1.0), ("x", 1.0, -1.0), ("x", 1.0, float("nan"))):
        with pytest.raises(InvalidReleaseError):
            ScaledColumn(name, 0.0, scale, 0.0, upper)


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


@pytest.mark.parametrize("extreme", [{"scale": 1e70}, {"scale": 1e-70}, {"center": 1e70}, {"upper": 1e70}])
def test_a_column_in_an_absurd_unit_is_refused(extreme: dict[str, float]) -> None:
    numbers = {"center": 0.0, "scale": 1.0, "lower": -1.0, "upper": 1.0, **extreme}
    with pytest.raises(InvalidReleaseError, match="choose another unit"):
        ScaledColumn("age", **numbers)


def test_only_a_column_that_is_the_same_for_everybody_may_be_called_intercept() -> None:
    release = second_moment(ROWS, 0.5, np.random.default_rng(2))
    varying = (ScaledColumn("(intercept)", 0.0, 1.0, -1.0, 1.0), *release.columns[1:])
    with pytest.raises(InvalidReleaseError, match="same for everybody"):
        replace(release, columns=varying)
    same = replace(release, columns=(ScaledColumn("(intercept)", 0.0, 1.0, 1.0, 1.0), *release.columns[1:]))
    assert same.columns[0].constant == 1.0


def test_a_column_is_constant_only_if_its_bounds_meet_off_the_center() -> None:
    assert ScaledColumn("one", 0.0, 2.0, 1.0, 1.0).constant == 0.5
    assert ScaledColumn("zero", 1.0, 2.0, 1.0, 1.0).constant is None
    assert ScaledColumn("free", 0.0, 2.0, 0.0, 1.0).constant is None
