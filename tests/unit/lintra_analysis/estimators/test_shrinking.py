"""What clipped rows do to answers: limits that hold for rows that really were shrunk, and no p values beyond 5 %."""

from dataclasses import replace

import numpy as np
import pytest

from lintra_analysis import correlation, means, regression
from lintra_analysis.estimators.design import design
from lintra_analysis.estimators.shrinking import coefficient_limits, correlation_limits, mean_limits
from lintra_analysis.estimators.solve import solve
from lintra_analysis.releases.clipped import ClippedRows
from lintra_analysis.releases.column_sums import Totals
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.release import Release
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_protocol.crypto.ring import FloatArray

COUNT, CONSTANT = 4000, 0.8
COLUMNS = tuple(ScaledColumn(name, 1.0, 2.0, -1.0, 3.0) for name in ("a", "b", "y"))
FARTHEST = float(np.sqrt(3))


def rows(seed: int) -> FloatArray:
    """Rows in the corner [-1, 1]^3, the first tenth of them near a corner."""
    generator = np.random.default_rng(seed)
    found = generator.uniform(-0.5, 0.5, size=(COUNT, 3))
    found[:, 2] = 0.6 * found[:, 0] - 0.3 * found[:, 1] + 0.1 * generator.normal(size=COUNT)
    found[: COUNT // 10] = generator.choice([-1.0, 1.0], size=3) * generator.uniform(0.9, 1, size=(COUNT // 10, 3))
    return np.clip(found, -1, 1)


def shrunk(found: FloatArray, bound: float) -> tuple[FloatArray, ClippedRows]:
    """Shrink rows to a norm, and count them exactly."""
    norms = np.linalg.norm(found, axis=1)
    clipped = ClippedRows(float((norms > bound).sum()), 0.0, COUNT, bound, FARTHEST)
    return found * np.minimum(1, bound / norms)[:, np.newaxis], clipped


def release(found: FloatArray, clipped: ClippedRows | None) -> SecondMomentSum:
    """Second moments with a constant and no noise to speak of."""
    whole = np.column_stack([np.full(COUNT, CONSTANT), found])
    columns = (ScaledColumn("(intercept)", 0.0, 1 / CONSTANT, 1.0, 1.0), *COLUMNS)
    return SecondMomentSum(columns, whole.T @ whole, 1e-9, COUNT, 3.0, exact="(intercept)", clipped=clipped)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("bound", [1.2, 1.5])
def test_means_products_correlations_and_coefficients_move_no_farther_than_their_limits(
    seed: int, bound: float
) -> None:
    true = rows(seed)
    held, clipped = shrunk(true, bound)
    moved = np.abs(true.mean(axis=0) - held.mean(axis=0)) * 2.0
    limits = np.array([limit for _, limit in mean_limits(clipped, COLUMNS)])
    assert (moved <= limits).all()
    # Almost all of the limit is reached: clipped rows lie in corners.
    assert (moved > 0.5 * limits).all()
    grown = np.linalg.norm(true.T @ true - held.T @ held)
    assert 0.5 * clipped.square_limit < grown <= clipped.square_limit

    centred = held - held.mean(axis=0)
    ends = correlation_limits(clipped, COLUMNS, np.square(centred).sum(axis=0), np.corrcoef(held, rowvar=False))
    assert ends is not None
    real = np.corrcoef(true, rowvar=False)
    assert (ends[..., 0] <= real + 1e-12).all()
    assert (real <= ends[..., 1] + 1e-12).all()

    few = replace(clipped, estimate=40.0)
    some = true.copy()
    some[40 : COUNT // 10] *= 0.3
    chosen = design(release(shrunk(some, bound)[0], few), "y")
    fit, linear = solve(chosen), np.eye(3)
    own = np.linalg.lstsq(np.column_stack([np.full(COUNT, CONSTANT), some[:, :2]]), some[:, 2], rcond=None)[0]
    for (_, limit), value, reported in zip(
        coefficient_limits(chosen.gram, fit, linear, "cab"), own, fit.solution, strict=True
    ):
        assert limit is not None
        assert abs(value - reported) <= limit


def counted(share: float) -> ClippedRows:
    return ClippedRows(share * COUNT, 0.0, COUNT, 1.2, FARTHEST)


@pytest.mark.parametrize(("share", "words", "tested"), [(0.004, 0, True), (0.04, 2, True), (0.06, 3, False)])
def test_few_clipped_rows_are_passed_over_some_are_named_and_with_many_there_are_no_p_values(
    share: float, words: int, tested: bool
) -> None:
    held = release(rows(1), counted(share))
    fitted, pairs, averages = regression(held, "y"), correlation(held), means(held)
    assert all((one.p_value is not None) == tested for one in fitted.coefficients)
    assert (fitted.f_p_value is not None) == tested
    assert all((pair.p_value is not None) == tested for pair in pairs.pairs)
    for warnings, what in (
        (fitted.warnings, "coefficients"), (pairs.warnings, "correlations"), (averages.warnings, "means")
    ):  # fmt: skip
        told = [one for one in warnings if "clipped" in one or f"{what} of the rows before shrinking" in one]
        assert len(told) == words
    if words:
        assert "p values" in fitted.warnings[1] or tested
        assert "a " in next(one for one in averages.warnings if "means of the rows" in one)
        assert f"{100 * share:.2f}%" in averages.summary()


def test_totals_say_how_far_their_means_may_be_off_and_uncounted_releases_say_nothing() -> None:
    totals = Totals(COLUMNS, np.zeros(3), 1.0, COUNT, 1.2, counted(0.1))
    assert any("differ by at most: a 0.06" in one for one in means(Release(totals=totals)).warnings)
    assert not means(Release(totals=replace(totals, clipped=None))).warnings
    unlimited = replace(totals, clipped=ClippedRows(400.0, 0.0, COUNT))
    assert not any("differ by at most" in one for one in means(Release(totals=unlimited)).warnings)


def test_the_limits_are_fields_of_the_answers_and_null_where_there_is_none() -> None:
    held, clipped = shrunk(rows(1), 1.2)
    few = replace(clipped, estimate=60.0, sd=2.0)
    own = release(held, few)
    fitted = regression(own, "y").to_dict()["clipping"]
    assert isinstance(fitted, dict)
    assert fitted["estimate"] == 60
    assert fitted["upper_rows"] == pytest.approx(60 + 1.645 * 2, abs=0.001)
    assert [one["name"] for one in fitted["limits"]] == ["a", "b", "(intercept)"]
    averages = means(own)
    assert averages.clipping is not None
    assert [(one.name, one.limit) for one in averages.clipping.limits] == mean_limits(few, COLUMNS)
    pairs = correlation(own).clipping
    assert pairs is not None
    assert [one.name for one in pairs.limits] == ["a and b", "a and y", "b and y"]
    # Where all rows may have been clipped there is no limit of a coefficient.
    lost = regression(release(held, replace(clipped, estimate=float(COUNT))), "y").clipping
    assert lost is not None
    assert {one.limit for one in lost.limits} == {None}
    assert regression(release(held, None), "y").clipping is None


def test_where_the_norm_bound_shrinks_nothing_within_the_bounds_no_limit_is_talked_about() -> None:
    # Then whoever was clipped left a column's bounds, and nothing limits how far.
    wide = ClippedRows(400.0, 0.0, COUNT, 2.0, FARTHEST)
    found = means(release(rows(1), wide))
    warnings = found.warnings
    assert found.clipping is not None
    assert found.clipping.limits == ()
    assert any("were clipped" in warning for warning in warnings)
    assert not any("at most" in warning.partition("at 95 %")[2] for warning in warnings)
