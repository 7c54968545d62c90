"""Rows that a feature separates have no finite slope: none is told, and the quadratic model alone would tell some."""

import numpy as np
import pytest

from lintra_analysis.estimators import logit as estimator
from lintra_analysis.estimators.logit import logit
from lintra_analysis.estimators.logit_estimate import LogisticEstimate
from lintra_analysis.releases.release import Release
from lintra_analysis.trial.chains import LogisticRows, simulated_chains
from lintra_protocol.crypto.ring import FloatArray
from support.newton import chain, specification, sums

CLIENTS, DRAWS, CONSTANT, BOUND = 20_000, 40, 0.577, 1.2


def table(kind: str) -> FloatArray:
    """Return two features in [-1, 1] and a target, shape `(n, 3)`; the second feature separates ones from zeros."""
    generator = np.random.default_rng(7)
    features = generator.uniform(-1, 1, (CLIENTS, 2))
    chances = 1 / (1 + np.exp(-features[:, 0]))
    target = generator.uniform(size=CLIENTS) < chances
    if kind == "all of a group":
        features[:, 1] = np.where(generator.uniform(size=CLIENTS) < 0.1, 1.0, -1.0)
        target |= features[:, 1] > 0
    else:
        target = features.sum(axis=1) > 0.2
    return np.column_stack([features, target])


def answers(rows: FloatArray) -> tuple[list[LogisticEstimate], LogisticRows]:
    mechanism = {"kind": "newton_step", "rounds": 5, "intercept": CONSTANT}
    asked = specification(2, CLIENTS, row_bound=BOUND, mechanism=mechanism)
    ran = sums(chain(asked, rows, 1, 2))
    vectors = np.column_stack([np.full(CLIENTS, CONSTANT), rows[:, :-1]])
    weights = BOUND**2 / np.maximum(np.square(vectors).sum(axis=1), BOUND**2)
    held = LogisticRows(vectors, rows[:, -1], weights)
    return [logit(Release(newton=last), of="cohort") for last in simulated_chains(held, ran, DRAWS)], held


def told(found: list[LogisticEstimate]) -> int:
    """Return in how many answers the separating slope has an interval."""
    return sum(each.coefficients[2].interval is not None for each in found)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["all of a group", "a line"])
def test_a_separating_slope_is_told_in_at_most_one_draw_of_twenty(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = table(kind)
    found, held = answers(rows)
    assert held.fit() is None
    assert told(found) <= 0.05 * DRAWS
    assert any("no interval of" in warning for each in found for warning in each.warnings)
    # With the ends of the quadratic model a finite slope would be told.
    monkeypatch.setattr(estimator._Bent, "ends", lambda bent, ends: ends)
    assert told(answers(rows)[0]) > 0.1 * DRAWS


@pytest.mark.slow
def test_a_slope_that_nearly_separates_is_covered_where_the_quadratic_model_misses_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = np.random.default_rng(8)
    features = generator.uniform(-1, 1, (CLIENTS, 2))
    target = generator.uniform(size=CLIENTS) < 1 / (1 + np.exp(-40 * (features[:, 1] - 0.1)))
    rows = np.column_stack([features, target])

    def covered() -> tuple[int, int]:
        found, held = answers(rows)
        exact = held.fit()
        assert exact is not None
        ends = [each.conf_int()["x2"] for each in found if each.status == "interval"]
        return sum(low <= exact[2] <= high for low, high in ends), len(ends)

    inside, several = covered()
    assert inside == several > 0
    monkeypatch.setattr(estimator._Bent, "ends", lambda bent, ends: ends)
    inside, several = covered()
    assert inside < 0.8 * several
