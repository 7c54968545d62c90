"""`logit`: near the fit without noise, intervals where two rounds agree, and one of three sentences otherwise."""

from dataclasses import replace

import numpy as np
import pytest

from lintra_analysis.estimators import logit as estimator
from lintra_analysis.estimators.logit import _Bent, logit
from lintra_analysis.estimators.score_sets import ScoreEquations
from lintra_analysis.spec.second_round import build_second_task
from lintra_protocol.errors import InvalidAnalysisError
from support.analyzer_world import NOW, seeded
from support.newton import chain, exact_fit, first_task, logistic_rows, released, specification

SLOPES, INTERCEPT = [1.0, -0.5], 0.3
ROWS = logistic_rows(20_000, SLOPES, INTERCEPT, seed=8)
EXACT = exact_fit(ROWS[:, :-1], ROWS[:, -1])


def test_three_rounds_tell_the_fit_in_own_units_with_intervals() -> None:
    columns = [
        {"name": "age", "lower": 0, "upper": 100},
        {"name": "bmi", "lower": 10, "upper": 50},
        {"name": "y", "kind": "boolean"},
    ]
    own = np.column_stack([50 + 50 * ROWS[:, 0], 30 + 20 * ROWS[:, 1], ROWS[:, 2]])
    found = logit(chain(specification(2, 20_000, columns=columns), own, 3, 3)[-1], of="cohort")
    exact = exact_fit(ROWS[:, :-1], ROWS[:, -1])
    in_units = [exact[0] - exact[1] - 1.5 * exact[2], exact[1] / 50, exact[2] / 20]
    assert (found.status, found.converged, len(found.rounds)) == ("interval", True, 3)
    assert list(found.params) == ["(intercept)", "age", "bmi"]
    for (low, high), value, error in zip(found.conf_int().values(), in_units, found.bse.values(), strict=True):
        assert low - (high - low) < value < high + (high - low)
        assert (high - low) / (2 * 1.96 * error) == pytest.approx(1, rel=0.2)
    assert found.pvalues["age"] < 1e-4
    assert found.conf_int(alpha=0.05) == found.conf_int()
    for wide, usual in zip(found.conf_int(alpha=0.01).values(), found.conf_int().values(), strict=True):
        assert wide[0] < usual[0] < usual[1] < wide[1]
    with pytest.raises(InvalidAnalysisError, match="confidence"):
        found.conf_int(alpha=1.5)
    ratio, ends = found.odds_ratios()["age"]
    assert ends[0] < ratio < ends[1]
    frame = {"bmi": [30.0], "age": [90.0]}
    chances = found.predict_proba(frame)
    assert chances.shape == (1, 2)
    assert chances.sum() == pytest.approx(1)
    assert chances[0, 1] == pytest.approx(
        1 / (1 + np.exp(-(in_units[0] + 90 * in_units[1] + 30 * in_units[2]))), abs=0.1
    )
    assert "odds ratio" in found.summary()
    assert found.classes_.tolist() == [0, 1]
    assert found.predict(frame).tolist() == [1.0]


def test_a_population_has_wider_intervals_and_persons_of_many_rows_none() -> None:
    release = chain(specification(2, 20_000), ROWS, 3, 3)[-1]
    cohort, population = logit(release, of="cohort"), logit(release)
    for own, wide in zip(cohort.conf_int().values(), population.conf_int().values(), strict=True):
        assert wide[1] - wide[0] > own[1] - own[0]
    assert cohort.params == population.params


def test_after_two_rounds_far_apart_another_is_needed_and_no_interval_is_told() -> None:
    steep = logistic_rows(20_000, [6.0, -5.0], 3.0, seed=2)
    first, second = chain(specification(2, 20_000, epsilon=8), steep, 1, 2)
    for release in (first, second):
        found = logit(release)
        assert found.status == "another round"
        assert "needs another round" in found.summary()
        with pytest.raises(InvalidAnalysisError, match="needs another round"):
            found.conf_int()
        assert set(found.bse.values()) == {None}


def test_separable_rows_and_few_people_are_not_told() -> None:
    features = np.random.default_rng(4).uniform(-1, 1, (1000, 2))
    rows = np.column_stack([features, features[:, 0] > 0.1])
    found = logit(chain(specification(2, 1000), rows, 1, 3)[-1])
    assert found.status != "interval"
    with pytest.raises(InvalidAnalysisError, match=r"cannot be told at this epsilon|needs another round"):
        found.conf_int()


def test_a_null_table_is_drawn_to_the_model_without_features() -> None:
    generator = np.random.default_rng(6)
    rows = np.column_stack([generator.uniform(-1, 1, (3000, 2)), generator.uniform(size=3000) < 0.4])
    sizes = [
        [
            np.linalg.norm([value for name, value in each.items() if name != "(intercept)"])
            for each in (one.params, one.raw)
        ]
        for one in (logit(chain(specification(2, 3000), rows, seed, 3)[-1]) for seed in range(4))
    ]
    points, raw = np.median(sizes, axis=0)
    assert points < 0.7 * raw


def test_windows_with_people_of_their_own_are_pooled_from_the_first_that_agrees() -> None:
    parts = np.array_split(logistic_rows(60_000, SLOPES, INTERCEPT, seed=9), 5)
    asked = specification(2, 12_000, rounds=1)
    task, release = first_task(asked), None
    for number, rows in enumerate(parts):
        release = released(task, rows, number, release)
        task = build_second_task(asked, task, release, NOW + 10_000, seeded(f"{number}"))
    found = logit(release, of="population")
    assert (found.status, len(found.rounds)) == ("interval", 5)
    assert found.num_clients >= 36_000
    for (low, high), truth in zip(found.conf_int().values(), [INTERCEPT, *SLOPES], strict=True):
        assert low - (high - low) / 2 < truth < high + (high - low) / 2


def test_a_last_round_without_those_before_says_so() -> None:
    release = chain(specification(2, 20_000), ROWS, 3, 3)[-1]
    alone = replace(release, newton=replace(release.need("newton"), before=None))
    found = logit(alone)
    assert found.status == "another round"
    assert any("not at hand" in warning for warning in found.warnings)


@pytest.mark.slow
def test_intervals_cover_the_cohorts_own_coefficients_and_too_narrow_ones_do_not() -> None:
    draws, inside, narrow, told = 200, np.zeros(3), np.zeros(3), 0
    for seed in range(draws):
        found = logit(chain(specification(2, 20_000), ROWS, 100 + seed, 3)[-1], of="cohort")
        if found.status != "interval":
            continue
        told += 1
        for place, (low, high) in enumerate(found.conf_int().values()):
            middle = (low + high) / 2
            inside[place] += low <= EXACT[place] <= high
            narrow[place] += abs(EXACT[place] - middle) <= 0.4 * (high - low) / 2
    assert told > 0.8 * draws
    # Four binomial deviations around .95, and a model of weights that is not exactly quadratic.
    assert np.all(inside / told > 0.95 - 4 * (0.0475 / told) ** 0.5 - 0.01)
    assert np.all(narrow / told < 0.8)


def test_an_end_is_where_a_hessian_that_falls_as_fast_as_it_can_meets_the_noise() -> None:
    # About the anchor 2 the gradient is h (1 - exp(-m t)) / m outward and h (exp(m t) - 1) / m on the way inward.
    hessian, moves, anchor = 50.0, 0.7, 2.0
    bent = _Bent(np.array([anchor]), np.array([0.4]), np.array([moves]))
    gradient = hessian * 0.4
    for noise in (5.0, 30.0):
        quadratic = anchor + (gradient + np.array([[-noise, noise]])) / hessian
        low, high = bent.ends(quadratic)[0]
        assert hessian * -np.expm1(-moves * (high - anchor)) / moves == pytest.approx(gradient + noise)
        if noise < gradient:
            assert hessian * np.expm1(moves * (low - anchor)) / moves == pytest.approx(gradient - noise)
        else:
            assert hessian * -np.expm1(-moves * (anchor - low)) / moves == pytest.approx(noise - gradient)
        # A value is rejected where it lies beyond the end.
        for value, outside in ((low - 0.01, True), (low + 0.01, False), (high - 0.01, False), (high + 0.01, True)):
            met = bent.quadratic(np.array([value]))[0]
            assert (not quadratic[0, 0] <= met <= quadratic[0, 1]) == outside
    assert np.isinf(bent.ends(np.array([[anchor - 2.0, anchor + 2.0]]))).all()


def test_a_value_beyond_an_infinite_end_is_not_rejected() -> None:
    bent = _Bent(np.array([0.0, 0.0]), np.array([1.0, 1.0]), np.array([2.0, 1e-9]))
    assert bent.quadratic(np.array([50.0, 50.0])) == pytest.approx([1.0, 50.0], rel=1e-4)


def test_features_that_depend_on_each_other_are_told_in_hardly_any_draw_and_by_an_entrys_deviation_in_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = np.random.default_rng(4)
    flat = np.diag([900.0, 400.0, 0.0])
    turn = np.linalg.qr(generator.normal(size=(3, 3)))[0]
    held = turn @ flat @ turn.T

    def told(draws: int = 4000) -> float:
        noise = generator.normal(size=(draws, 3, 3))
        noisy = held + (noise + np.swapaxes(noise, 1, 2)) / np.sqrt(2)
        equations = [
            ScoreEquations(np.zeros(3), hessian, np.zeros((1, 3)), 1.0, 1.0, np.zeros((3, 3))) for hessian in noisy
        ]
        return sum(estimator._status(each, passed=True)[0] == "interval" for each in equations) / draws

    # P(|N| > 3) is .0027, and P(|N| > 3/sqrt(2)) is .034: four deviations of 4,000 draws are .003 and .011.
    assert told() < 0.006
    monkeypatch.setattr(estimator, "LEAST_DEVIATIONS", 3 / np.sqrt(2))
    assert told() > 0.022
