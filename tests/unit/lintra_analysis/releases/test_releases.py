"""Releases: what they refuse, what their repr hides, and that restricting commutes with everything."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lintra_analysis.estimators.means import means
from lintra_analysis.estimators.regression import regression
from lintra_analysis.releases.column_sums import Totals
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.release import Release
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_analysis.releases.sketch import Sketch
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import second_moment, sketch, total

Part = Sketch | SecondMomentSum | Totals
ROWS = np.random.default_rng(1).normal(size=(60, 4))


def releases() -> list[Part]:
    generator = np.random.default_rng(2)
    return [sketch(ROWS, 12, 0.5, generator), second_moment(ROWS, 0.5, generator), total(ROWS, 0.5, generator).totals]


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


@pytest.mark.parametrize(
    ("names", "reason"), [([], "at least one"), (["c1", "c1"], "once"), ("c9", "unknown columns: c9")]
)
def test_a_restriction_that_makes_no_sense_is_refused(names: list[str], reason: str) -> None:
    with pytest.raises(InvalidAnalysisError, match=reason):
        releases()[0].restrict(names)


def test_a_sum_refuses_to_give_second_moments_and_says_what_would() -> None:
    with pytest.raises(InvalidAnalysisError, match="release a second moment or a sketch"):
        Release(totals=releases()[2]).second_moment()


def made(squares: list[float], row_bound: float, kinds: tuple[str, ...] = ("real", "real")) -> SecondMomentSum:
    """A release of 1,000 rows with these mean squares, in squared scales."""
    named = tuple(ScaledColumn(f"c{i}", 0, 1, -1, 1, "", kind) for i, kind in enumerate(kinds))
    matrix = 1000 * np.diag(squares) + np.array([[0.0, 0.8], [0.8, 0.0]])
    return SecondMomentSum(named, matrix, 0.1, 1000, row_bound)


def test_bounds_that_are_ten_times_too_wide_are_named_and_others_are_not() -> None:
    wide = made([0.3, 0.0064], 1.5)
    (note,) = wide.second_moment().bound_notes
    assert note == "c1 fills a tenth of its scale: its bounds are about ten times too wide"
    for answer in (means(wide), regression(wide, "c0")):
        assert note in " ".join(answer.summary().split())
    assert made([0.3, 0.02], 1.5).second_moment().bound_notes == ()
    # An indicator of a rare level is small for another reason.
    assert made([0.3, 0.0064], 1.5, ("real", "boolean")).second_moment().bound_notes == ()


def test_a_row_bound_four_times_too_long_is_said_before_anything_about_noise() -> None:
    long = made([0.3, 0.3], 4.0)
    (note,) = long.second_moment().bound_notes
    assert note == "the row bound is 4 times too long, and so the noise 16 times too large"
    assert made([0.3, 0.3], 3.0).second_moment().bound_notes == ()
    assert "4 times too long" in regression(long, "c0").warnings[0]
