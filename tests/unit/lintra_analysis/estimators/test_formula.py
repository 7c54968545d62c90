"""Formulas: the same answer as by name, categories as indicators, and words for what second moments cannot answer."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from lintra_analysis.estimators.path import regression_path
from lintra_analysis.estimators.regression import regression
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_protocol.errors import InvalidAnalysisError
from support.made_releases import columns, regression_rows, second_moment, with_constant

LEVELS = ("male", "female", "other sex")
INDICATORS = tuple(
    ScaledColumn(f"sex[{level}]", 0.0, 1.0, 0.0, 1.0, kind="boolean", category="sex", levels=LEVELS)
    for level in LEVELS[1:]
)
BOOLEAN = ScaledColumn("smokes", 0.0, 1.0, 0.0, 1.0, kind="boolean")
ODD = replace(columns(5)[3], name="blood pressure")


def release(*, constant: bool = True, center: float = 0.0) -> SecondMomentSum:
    generator = np.random.default_rng(4)
    rows = regression_rows(400, generator)
    sex = generator.integers(0, 3, 400)
    told = np.column_stack([rows, sex == 1, sex == 2, generator.random(400) < 0.4]).astype(np.float64)
    moved = [replace(column, center=center, lower=center - 1, upper=center + 1) for column in columns(5)]
    named = (moved[0], moved[1], moved[2], replace(ODD, center=center), moved[4], *INDICATORS, BOOLEAN)
    if constant:
        told, named = with_constant(told, named)
    return second_moment(told, 0.0, generator, named)


RELEASE = release()


@pytest.mark.parametrize(
    ("formula", "features"),
    [
        ("c4 ~ c0 + c1", ["c0", "c1"]),
        ("c4~c0+c1+1", ["c0", "c1"]),
        ("c4 ~ (c0 + c1) + c0", ["c0", "c1"]),
        ("c4 ~ c0 + `blood pressure`", ["c0", "blood pressure"]),
        ("c4 ~ c0 + C(sex)", ["c0", "sex[female]", "sex[other sex]"]),
        ("c4 ~ c0 + sex", ["c0", "sex[female]", "sex[other sex]"]),
        ("c4 ~ c0 + sex[female]", ["c0", "sex[female]"]),
        ("c4 ~ c0 + C(smokes)", ["c0", "smokes"]),
        ("`sex[other sex]` ~ c0", ["c0"]),
        ("c4 ~ . - c1", ["c0", "c2", "blood pressure", "sex[female]", "sex[other sex]", "smokes"]),
    ],
)
def test_a_formula_gives_what_the_columns_give_by_name(formula: str, features: list[str]) -> None:
    asked = regression(RELEASE, formula)
    by_name = regression(RELEASE, asked.target, features, intercept=True)
    assert asked.features == tuple(features)
    assert asked.to_dict() == by_name.to_dict()


def test_a_path_takes_a_formula_too() -> None:
    assert regression_path(RELEASE, "c4 ~ c0 + c1").features == ("c0", "c1")


def test_a_line_without_intercept_goes_through_the_origin_or_is_refused() -> None:
    through = regression(RELEASE, "c4 ~ 0 + c0 + c1")
    assert not through.intercept_fitted
    assert through.intercept_ == 0
    assert regression(RELEASE, "c4 ~ c0 + c1 - 1").params == through.params
    with pytest.raises(InvalidAnalysisError, match=r"through the origin.*features=\['c0'\], intercept=False"):
        regression(release(center=3.0), "c4 ~ 0 + c0")
    with pytest.raises(InvalidAnalysisError, match=r"no constant column.*target='c4', features=\['c0'\]"):
        regression(release(constant=False), "c4 ~ c0")


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("c4 ~ c0:c1", "declare the product as a column of its own before rows are collected"),
        ("c4 ~ c0 * c1", "declare the product"),
        ("c4 ~ (c0 + c1)**2", "declare the product"),
        ("c4 ~ c0 ^ 2", "declare the product"),
        ("c4 ~ c0 / c1", "declare the product"),
        ("c4 ~ " + "*".join(f"x{i}" for i in range(60)), "declare the product"),
        ("c4 ~ log(c0)", r"log\(c0\) is computed from a column.*every client computes"),
        ("c4 ~ I(c0**2)", "is computed from a column"),
        ("c4 ~ {c0 + 1}", "is computed from a column"),
        ("c4 ~ poly(c0, 2)", "is computed from a column"),
        ("log(c4) ~ c0", "is computed from a column"),
        ("c4 ~ scale(c0)", "name the column itself"),
        ("c4 ~ C(c0)", "c0 is a number in this release, not a category"),
        ("c4 ~ C(sex, Treatment('female'))", r"reference were fixed before the release, write C\(sex\)"),
        ("c4 ~ C(age)", r"names 'age'; the release holds c0, c1, c2, blood pressure, c4, C\(sex\), smokes"),
        ("c4 ~ c9", r"names 'c9'; the release holds c0"),
        ("sex ~ c0", r"category of 3 levels; explain one of its indicators, in backticks: `sex\[female\]`"),
        ("c4 + c3 ~ c0", "one column on its left"),
        ("1 ~ c0", "one column on its left"),
        ("~ c0", "as in 'y ~ a [+] b'"),
        ("c4 ~ c0 | c1", "one sum of columns"),
        ("c4 ~ [c0 ~ c1]", "one sum of columns"),
        ("c4 ~ c0 ~ c1", "cannot be parsed"),
        ("c4 ~ c0 +", "cannot be parsed"),
        ("c4 ~ (c0", "cannot be parsed"),
        ("c4 ~ 3 + c0", "cannot be parsed"),
        ("c4 ~ c4", "cannot be one of its own features"),
        ("c4 ~ 1", "no column besides the target"),
        ("c4 ~ c0" + " " * 10_000, "at most 10000 characters"),
    ],
)
def test_what_second_moments_cannot_answer_is_refused_with_what_would_be_right(formula: str, words: str) -> None:
    with pytest.raises(InvalidAnalysisError, match=words):
        regression(RELEASE, formula)


def test_a_formula_says_features_and_intercept_itself() -> None:
    with pytest.raises(InvalidAnalysisError, match="leave out `features` and `intercept`"):
        regression(RELEASE, "c4 ~ c0", ["c1"])
    with pytest.raises(InvalidAnalysisError, match="leave out `features` and `intercept`"):
        regression(RELEASE, "c4 ~ c0", intercept=False)


def test_a_column_may_be_called_like_a_formula() -> None:
    strange = replace(RELEASE, columns=(*RELEASE.columns[:-1], replace(RELEASE.columns[-1], name="a ~ b")))
    assert regression(strange, "a ~ b", ["c0"]).target == "a ~ b"


def test_without_formulaic_the_words_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "formulaic"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(InvalidAnalysisError, match=r"pip install '\.\[formulas\]'"):
        regression(RELEASE, "c4 ~ c0")
