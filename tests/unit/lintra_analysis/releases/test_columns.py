"""Columns of a release, and what a row is in their units."""

from dataclasses import replace

import numpy as np
import pytest

from lintra_analysis.releases.columns import ScaledColumn
from lintra_protocol.errors import InvalidReleaseError
from support.made_releases import second_moment

ROWS = np.random.default_rng(1).normal(size=(60, 4))


def test_a_column_without_a_name_a_scale_or_finite_bounds_is_refused() -> None:
    for name, scale, upper in (("", 1.0, 1.0), ("x", 0.0, 1.0), ("x", 1.0, -1.0), ("x", 1.0, float("nan"))):
        with pytest.raises(InvalidReleaseError):
            ScaledColumn(name, 0.0, scale, 0.0, upper)


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
