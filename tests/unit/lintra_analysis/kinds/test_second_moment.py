"""A range finder in two rounds: a promise shared by two tasks, the second along the first's directions."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from lintra_analysis.estimators.pca import pca
from lintra_analysis.estimators.regression import regression
from lintra_analysis.estimators.wide import wide_ridge
from lintra_analysis.kinds.decode import read
from lintra_analysis.kinds.second_moment import direction_steps
from lintra_analysis.releases.release import Release
from lintra_analysis.spec.build_task import build_task, claim_of
from lintra_analysis.spec.second_round import build_second_task
from lintra_analysis.spec.specification import Specification
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import InvalidAnalysisError, InvalidTaskError
from lintra_protocol.mechanisms import SecondMoment
from lintra_protocol.privacy.composition import Spending
from lintra_protocol.task import Task
from support import make_task
from support.analyzer_world import KEYS, NOW, seeded
from support.measured import noise_sigmas, reports_without_noise

SERVERS = make_task("sum").servers
SIZE, CLIENTS = 60, 20_000
COLUMNS = [{"name": f"c{i}", "lower": -1, "upper": 1} for i in range(SIZE - 1)] + [
    {"name": "delay", "lower": -10, "upper": 30}
]


RANGE = {"kind": "range_finder", "rank": 12, "rounds": 2, "targets": [{"column": "delay"}], "intercept": 1}
Rounds = tuple[Task, Release, Task, Release]


def asked(**changes: Any) -> Specification:
    wanted = {
        "purpose": "a test",
        "columns": COLUMNS,
        "mechanism": {
            "kind": "range_finder",
            "rank": 12,
            "rounds": 2,
            "targets": [{"column": "delay"}],
            "intercept": 1,
        },
        "row_bound": 4,
        "epsilon": 2,
        "delta": "0.000001",
        "min_clients": CLIENTS,
        "suite": "x25519",
    }
    return Specification.model_validate(wanted | changes)


def built(specification: Specification) -> Task:
    return build_task(specification, SERVERS, KEYS.public_keys, NOW, seeded("first"))


def people() -> FloatArray:
    """Return normalised rows that follow four hidden numbers, half as many as clients; the target follows two."""
    rng = np.random.default_rng(9)
    hidden = rng.normal(size=(500, 4)) * [0.9, 0.6, 0.4, 0.3]
    rows = np.tanh(hidden @ rng.normal(size=(4, SIZE - 1)) * 0.3 + 0.2 + rng.normal(size=(500, SIZE - 1)) * 0.05)
    return np.column_stack(
        [rows, np.clip(0.5 * hidden[:, 0] - 0.6 * hidden[:, 2] + rng.normal(size=500) * 0.05, -1, 1)]
    )


def released(task: Task, rows: FloatArray, seed: int) -> Release:
    """Return the release of rows that each stand for forty clients, the clients' noise drawn as one."""
    mechanism = task.mechanism
    exact = reports_without_noise(mechanism, rows).sum(axis=0, keepdims=True) * (CLIENTS // len(rows))
    noise = (
        np.random.default_rng(seed).normal(size=exact.shape) * noise_sigmas(mechanism, task.num_columns) * CLIENTS**0.5
    )
    sketch: IntArray = exact + np.rint(noise).astype(np.int64)
    return read(task, sketch, np.array([CLIENTS], np.int64))


@pytest.fixture(scope="module")
def rounds() -> Rounds:
    specification, rows = asked(), people()
    first = built(specification)
    found = released(first, rows, 1)
    second = build_second_task(specification, first, found, NOW + 10_000, seeded("second"))
    return first, found, second, released(second, rows, 2)


def test_both_rounds_together_keep_the_promise_and_nearly_use_it_up(rounds: Rounds) -> None:
    first, _, second, _ = rounds
    total = claim_of(asked())
    spent = [Spending.of(task.privacy(CLIENTS)) for task in (first, second)]
    together = (spent[0] + spent[1]).delta_at(2.0)
    assert 0.97e-6 < together <= 1e-6
    # Both say so in a study, which a device charges at once, and neither may spend more than its half.
    assert first.study is not None
    assert second.study == first.study.model_copy(update={"pilot": first.task_id})
    assert (first.study.epsilon, first.study.delta, first.study.share) == (total.epsilon, total.delta, "0.5")
    for task in rounds[0], rounds[2]:
        greedy = task.model_copy(
            update={"mechanism": task.mechanism.model_copy(update={"sigma": task.mechanism.sigma - 2})}
        )
        with pytest.raises(Exception, match=r"of its study|is not|promise"):
            greedy.check()


def test_the_second_task_names_the_first_its_directions_and_its_targets(rounds: Rounds) -> None:
    first, found, second, _ = rounds
    mechanism = second.mechanism
    assert isinstance(mechanism, SecondMoment)
    assert (mechanism.after, mechanism.targets, mechanism.row_bound) == (first.task_id, (SIZE - 1,), "4")
    steps = direction_steps(found.need("range_sums"))
    assert steps.shape == (SIZE, 12)
    assert not steps[SIZE - 1].any(), "a target would explain itself"
    assert np.abs(steps.T @ steps / 2.0**28 - np.eye(12)).max() < 1e-3
    assert second.num_words == 14 + 13 * 14 // 2 + 1
    assert "second of two rounds" in mechanism.remark(second.privacy(CLIENTS))


def test_a_regression_along_directions_is_that_of_columns(rounds: Rounds) -> None:
    _, found, _, second = rounds
    rows = people()
    own = np.column_stack([rows[:, :-1], rows[:, -1] * 20 + 10])
    ridge = wide_ridge(second, "delay")
    assert ridge.features == tuple(f"c{i}" for i in range(SIZE - 1))
    error = own[:, -1] - ridge.predict(own[:, :-1])
    reached = 1 - float(np.square(error).mean() / own[:, -1].var())
    told = ridge.explained_share
    assert told is not None
    assert told.standard_error is not None
    assert abs(told.value - reached) < 4 * told.standard_error < 0.2
    one = wide_ridge(found, "delay")
    alone = 1 - float(np.square(own[:, -1] - one.predict(own[:, :-1])).mean() / own[:, -1].var())
    assert reached > alone
    assert reached > 0.9
    assert "two rounds" in ridge.summary()


def test_every_estimator_of_second_moments_reads_a_second_round(rounds: Rounds) -> None:
    second = rounds[3]
    names = [f"(direction {i})" for i in range(1, 5)]
    found = regression(second, "delay", names, of="cohort")
    assert found.bounded
    assert all(each.interval is not None for each in found.coefficients)
    assert found.r2_interval is not None
    assert len(regression(second, "delay").features) == 12
    assert second.totals is None
    assert pca(second, 3).components.shape == (3, 13)


def test_what_a_second_round_cannot_say_is_refused_in_words(rounds: Rounds) -> None:
    second = rounds[3]
    with pytest.raises(InvalidAnalysisError, match="holds products with delay, not with 'c3'"):
        wide_ridge(second, "c3")
    with pytest.raises(InvalidAnalysisError, match="no range finder"):
        second.need("range_sums")


def test_a_first_round_that_does_not_fit_is_refused(rounds: Rounds) -> None:
    first, found, second, other = rounds
    with pytest.raises(InvalidTaskError, match="not a released range_finder task; release it first"):
        build_second_task(asked(), first, None, NOW, seeded("x"))
    one = asked(mechanism={"kind": "range_finder"})
    with pytest.raises(InvalidTaskError, match="one round; ask for range_finder with 2 rounds"):
        build_second_task(one, first, found, NOW, seeded("x"))
    with pytest.raises(InvalidTaskError, match="has no second round"):
        build_second_task(asked(), second, other, NOW, seeded("x"))
    with pytest.raises(InvalidTaskError, match="must be positive"):
        build_second_task(asked(), first, found, NOW, seeded("x"), Fraction(0))
    with pytest.raises(InvalidTaskError, match="two rounds are a study of their own"):
        built(asked(study={"epsilon": 2, "delta": "0.000001", "share": "0.1"}))
