"""The words and tables of a logistic regression, whatever it found."""

import math

import numpy as np
import pytest

from lintra_analysis.estimators.logit_estimate import INTERCEPT, LogisticEstimate, Round, Slope
from lintra_analysis.releases.columns import ScaledColumn
from lintra_protocol.errors import InvalidAnalysisError


def estimate(status: str = "interval") -> LogisticEstimate:
    told = status == "interval"
    ends = (0.2, 0.8) if told else None
    slopes = [
        Slope(name, 0.5, 0.6, 0.15 if told else None, ends, 0.001 if told else None) for name in (INTERCEPT, "age")
    ]
    return LogisticEstimate(
        target="smoker",
        features=("age",),
        num_clients=1000,
        of="cohort",
        confidence=0.95,
        status=status,
        converged=status != "another round",
        coefficients=tuple(slopes),
        rounds=(Round(1, 1000, None, False), Round(2, 1000, 1.25, True)),
        prevalence=0.3,
        average_weight=0.99,
        approximate=False,
        undetermined=("age",) if status == "not told" else (),
        warnings=(),
        scaled_columns=(ScaledColumn("age", 50.0, 40.0, 10.0, 90.0),),
    )


def test_the_table_has_coefficients_odds_ratios_and_every_round() -> None:
    text = estimate().summary()
    for word in ("Logistic regression of smoker", "1.649", "agrees", "1.25", "drawn towards"):
        assert word in text
    lines = estimate().to_csv().splitlines()
    assert lines[0] == "name,coefficient,raw,standard_error,lower,upper,p_value"
    assert lines[2] == "age,0.5,0.6,0.15,0.2,0.8,0.001"
    assert "told apart from 0 at the 5 % level: age" in estimate().in_words()


@pytest.mark.parametrize(
    ("status", "words"),
    [("another round", "needs another round"), ("not told", "cannot be told at this epsilon: along age")],
)
def test_what_is_not_told_says_why_in_the_text_and_where_an_interval_is_asked_for(status: str, words: str) -> None:
    found = estimate(status)
    assert words in found.summary()
    assert found.to_csv().splitlines()[2] == "age,0.5,0.6,,,,"
    with pytest.raises(InvalidAnalysisError, match=words):
        found.conf_int()
    assert found.odds_ratios()["age"] == (pytest.approx(math.exp(0.5)), None)


def test_chances_are_those_of_the_point_by_name_or_by_place() -> None:
    found = estimate()
    chance = 1 / (1 + math.exp(-(0.5 + 0.5 * 2)))
    np.testing.assert_allclose(found.predict_proba({"age": [2.0]}), [[1 - chance, chance]])
    np.testing.assert_allclose(found.predict_proba(np.array([[2.0], [-1e6]]))[:, 1], [chance, 0], atol=1e-12)
    assert found.predict({"age": [2.0, -3.0]}).tolist() == [1.0, 0.0]
    with pytest.raises(ValueError, match="lack"):
        found.predict_proba({"weight": [2.0]})
