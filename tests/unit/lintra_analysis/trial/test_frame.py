"""A trial of a data frame: columns are chosen by name, and the answer shows itself."""

import numpy as np
import pandas as pd
import pytest

import lintra_analysis
from lintra_analysis.trial.coefficients import RegressionComparison
from lintra_analysis.trial.frame import trial
from lintra_protocol.errors import InvalidTableError


def frame() -> pd.DataFrame:
    draw = np.random.default_rng(7)
    rows = pd.DataFrame({"age": draw.uniform(20, 80, 600).round(), "site": draw.choice(["A", "B"], 600)})
    rows["systolic"] = 90 + 0.5 * rows["age"] + draw.normal(0, 8, 600)
    return rows


def test_a_frame_is_tried_with_the_columns_that_are_named_and_shows_itself() -> None:
    found = trial(frame(), "systolic", columns=["age"], epsilon=50, draws=20)
    assert found.verdict == "good"
    assert list(found.to_frame().index) == ["age"]
    assert "<td>age</td>" in found._repr_html_()
    assert found.summary().startswith("systolic by 1 numbers")
    assert callable(lintra_analysis.trial)


def test_what_is_open_or_unknown_is_said_before_anything_is_tried() -> None:
    with pytest.raises(InvalidTableError, match="no column 'weight'"):
        trial(frame(), "systolic", columns=["weight"])
    with pytest.raises(InvalidTableError, match="no other column that could explain 'site'"):
        trial(frame()[["site"]], "site")


def test_the_rarer_of_two_levels_is_explained_as_a_column_of_ones_and_zeros_is() -> None:
    rows, how = frame(), {"columns": ["age"], "epsilon": 50.0, "draws": 20}
    rows["high"] = np.where(rows["systolic"] > 125, "high", "usual")
    found = trial(rows.drop(columns="systolic"), "high", **how)
    coded = trial(rows.assign(high=(rows["high"] == "high").astype(int)).drop(columns="systolic"), "high", **how)
    assert isinstance(found.answer, RegressionComparison)
    assert isinstance(coded.answer, RegressionComparison)
    assert found.target == "high[high]"
    for named, own in zip(found.answer.coefficients, coded.answer.coefficients, strict=True):
        assert (named.name, named.own) == (own.name, pytest.approx(own.own, rel=1e-9))
    assert found.specification["mechanism"]["target"] == "high[high]"  # type: ignore[index]
    assert trial(rows[["age", "high"]], "high", family="logistic", epsilon=50, draws=20).target == "high[high]"


def test_a_target_that_is_missing_in_some_rows_is_explained_by_the_others() -> None:
    rows = frame()
    rows["site"] = rows["site"].where(rows.index > 2)
    assert trial(rows, "site", draws=20).incomplete_rows == 3


def test_a_target_of_several_levels_or_with_rows_of_none_is_refused_in_words() -> None:
    rows = frame()
    rows["site"] = rows["site"].where(rows.index > 2, "A\x07")
    with pytest.raises(InvalidTableError, match=r"and 3 rows are of none of its levels; .* a column of 0 and 1"):
        trial(rows, "site")
    rows["site"] = np.resize(["A", "B", "C"], len(rows))
    with pytest.raises(InvalidTableError, match=r"is a category \(A, B, C, \(other\)\), a regression explains"):
        trial(rows, "site")
