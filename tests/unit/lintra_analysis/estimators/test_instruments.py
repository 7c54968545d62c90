"""Regressions by instruments: the answer of statsmodels without noise, and the least distance with it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.estimators.instruments import iv
from lintra_analysis.releases.columns import ScaledColumn
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import confounded, in_units, second_moment, with_intercept

NAMED = tuple(
    ScaledColumn(name, center, scale, center - 9 * scale, center + 9 * scale)
    for name, center, scale in (("ex", 0, 1), ("w1", 3, 2), ("w2", -1, 0.5), ("x", 5, 3), ("y", 10, 4))
)


ROWS = confounded(4000, np.random.default_rng(1))


def test_with_as_many_instruments_as_needed_it_is_two_stage_least_squares() -> None:
    release = with_intercept(ROWS, 1e-3, np.random.default_rng(2), NAMED)
    held, ones = in_units(ROWS, NAMED), np.ones(len(ROWS))
    explaining, instruments = np.column_stack([held[:, [0, 3]], ones]), np.column_stack([held[:, :2], ones])
    inverse = np.linalg.inv(instruments.T @ explaining)
    expected = inverse @ instruments.T @ held[:, 4]
    variance = np.sum((held[:, 4] - explaining @ expected) ** 2) / (len(held) - 3)
    errors = np.sqrt(variance * np.diagonal(inverse @ instruments.T @ instruments @ inverse.T))
    found = iv(release, "y", "x", "w1", "ex")
    assert list(found.params) == ["ex", "x", "(intercept)"]
    assert_allclose(list(found.params.values()), expected, rtol=1e-4)
    assert_allclose([*found.bse.values()], errors, rtol=2e-3)
    ends = np.array([found.conf_int()[name] for name in found.params])
    assert_allclose(ends[1], expected[1] + errors[1] * np.array([-1.96, 1.96]), rtol=0.02)
    assert (found.surplus, found.agreement) == (0, None)
    # Least squares are far off, so the instruments did something.
    least_squares = np.linalg.lstsq(explaining, held[:, 4], rcond=None)[0]
    assert abs(least_squares[1] - expected[1]) > 4 * errors[1]


def test_weak_instruments_bound_nothing_and_contradictory_ones_are_named() -> None:
    rows = ROWS.copy()
    rows[:, 1] = np.random.default_rng(5).normal(size=len(rows))
    weak = iv(with_intercept(rows, 60.0, np.random.default_rng(6), NAMED), "y", "x", "w1", "ex")
    assert not weak.bounded
    assert set(weak.conf_int().values()) == set(weak.bse.values()) == {None}
    assert "instruments say too little" in weak.warnings[-1]
    rows = ROWS.copy()
    rows[:, 4] += 2 * rows[:, 2]
    torn = iv(with_intercept(rows, 5.0, np.random.default_rng(6), NAMED), "y", "x", ["w1", "w2"], "ex")
    assert torn.agreement is not None
    assert torn.agreement < 1e-6
    assert "no value of the coefficients agrees" in torn.warnings[-1]
    assert "no value" not in " ".join(weak.warnings)


def test_what_has_no_answer_is_refused_in_words() -> None:
    release = with_intercept(ROWS, 60.0, np.random.default_rng(4), NAMED)
    for arguments, said in (
        ({"endogenous": [], "instruments": ["w1"]}, "at least one endogenous"),
        ({"endogenous": ["x", "ex"], "instruments": ["w1"]}, "at least as many instruments"),
        ({"endogenous": ["x"], "instruments": ["x"]}, "named once"),
        ({"endogenous": ["x"], "instruments": ["z"]}, "unknown columns: z"),
        ({"endogenous": ["x"], "instruments": ["(intercept)"]}, "instrument of itself"),
        ({"endogenous": ["x"], "instruments": ["w1", "w2"], "of": "cohort"}, "solve no more equations"),
    ):
        with pytest.raises(InvalidAnalysisError, match=said):
            iv(release, "y", **arguments)  # type: ignore[arg-type]
    with pytest.raises(InvalidAnalysisError, match="no constant column"):
        iv(second_moment(ROWS, 60.0, np.random.default_rng(1), NAMED), "y", "x", "w1")
    with pytest.raises(InvalidAnalysisError, match="exact Gaussian law"):
        iv(with_intercept(ROWS, 0.0, np.random.default_rng(1), NAMED), "y", "x", "w1")


def test_the_cohort_has_intervals_of_privacy_alone() -> None:
    release = with_intercept(ROWS, 60.0, np.random.default_rng(4), NAMED)
    own, wide = (iv(release, "y", "x", "w1", "ex", of=of) for of in ("cohort", "population"))  # type: ignore[arg-type]
    error = own.coefficients[1].standard_error
    assert error is not None
    assert error.sampling == 0
    assert own.params == pytest.approx(wide.params, rel=1e-4)
    assert own.bse["x"] < wide.bse["x"]  # type: ignore[operator]
