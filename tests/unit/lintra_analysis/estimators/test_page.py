"""The page on estimators: its session runs, prints what the page shows, and finds what was put in."""

import re
from pathlib import Path

import numpy as np
import pytest

from lintra_analysis.estimators.correlation import CorrelationEstimate
from lintra_analysis.estimators.means import MeansEstimate
from lintra_analysis.estimators.path import RegressionPath
from lintra_analysis.estimators.pca import PcaEstimate
from lintra_analysis.estimators.regression import RegressionEstimate

PAGE = Path(__file__).resolve().parents[4] / "docs/estimators.md"


def test_the_session_of_the_page_prints_what_the_page_shows_and_finds_what_was_put_in(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = PAGE.read_text("utf-8")
    (source,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (shown,) = re.findall(r"It prints\n\n```\n(.*?)```", page, re.DOTALL)
    made: dict[str, object] = {}
    exec(source, made)
    assert capsys.readouterr().out == shown
    kinds = (RegressionEstimate, RegressionPath, PcaEstimate, CorrelationEstimate, MeansEstimate)
    names = ("estimate", "path", "directions", "pairs", "averages")
    for name, kind in zip(names, kinds, strict=True):
        assert isinstance(made[name], kind)
    estimate, expected = made["estimate"], made["expected"]
    assert isinstance(estimate, RegressionEstimate)
    for one, truth in zip((*estimate.coefficients, estimate.intercept), (3.0, -0.004, -30.0), strict=True):
        assert one.standard_error is not None
        assert abs(one.value - truth) < 4 * one.standard_error.total
    assert isinstance(expected, np.ndarray)
    assert expected[1] - expected[0] == pytest.approx(12 * estimate.coef_[0])
