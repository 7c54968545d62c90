"""`newton_step` as it is asked for: its settings follow from rules, and rounds follow each other."""

from fractions import Fraction

import numpy as np
import pytest

from lintra_analysis.kinds.newton_step import residual_bits, spelled
from lintra_analysis.kinds.two_rounds import mu_of_rounds
from lintra_analysis.spec.build_task import build_task, claim_of
from lintra_analysis.spec.second_round import build_second_task
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms.newton_step import MAX_PARAMETER, NewtonStep
from lintra_protocol.task import Task
from support.analyzer_world import KEYS, NOW, seeded
from support.newton import SERVERS, chain, first_task, logistic_rows, released, specification

ROWS = logistic_rows(2000, [1.0, -0.5], 0.3, seed=1)


def step(task: Task) -> NewtonStep:
    """Return the task's mechanism."""
    assert isinstance(task.mechanism, NewtonStep)
    return task.mechanism


def test_settings_follow_from_rules() -> None:
    asked = specification(2, 2000)
    task = first_task(asked)
    mechanism = step(task)
    assert (mechanism.target, mechanism.parameter, mechanism.round_number) == (2, ("0", "0", "0"), 1)
    total = mu_of_rounds(claim_of(asked))
    share = (task.privacy(2000).mu / total) ** 2
    assert share == pytest.approx(1.5625 / (1.5625 + 8), rel=1e-3)
    assert mechanism.residual_bits == residual_bits(task.max_clients, total) == 8
    for rows, bits in ((1, 8), (187_000, 8), (188_000, 9), (10**7, 11), (10**9, 12)):
        assert residual_bits(rows, total) == bits
    assert all(rows * total**2 <= 0.16 * 4**bits for rows, bits in ((187_000, 8), (748_000, 9)))


def test_all_rounds_have_one_noise_and_keep_the_promise_together() -> None:
    asked = specification(2, 2000)
    first = first_task(asked)
    second = build_second_task(asked, first, released(first, ROWS, 1), NOW + 10_000, seeded("2"))
    third = build_second_task(asked, second, released(second, ROWS, 2), NOW + 20_000, seeded("3"))
    deviations = []
    for task in (first, second, third):
        layout = task.measurement.layout
        deviations.append(float(layout.deviation("hessian", 1)[0]))
    gradients = [float(task.measurement.layout.deviation("gradient", 1)) for task in (first, second, third)]
    assert gradients == pytest.approx([gradients[0]] * 3, rel=1e-3)
    # The Hessian's is less in later rounds, where Gamma is: its weight is larger beside the gradient's.
    gammas = [step(task).gradient_factor for task in (first, second, third)]
    assert deviations == pytest.approx([deviations[0] * gamma / gammas[0] for gamma in gammas], rel=1e-3)
    mus = [task.privacy(2000).mu for task in (first, second, third)]
    assert 0.99 < sum(mu**2 for mu in mus) / mu_of_rounds(claim_of(asked)) ** 2 <= 1
    assert [step(task).after for task in (second, third)] == [first.task_id, second.task_id]
    assert [step(task).round_number for task in (first, second, third)] == [1, 2, 3]
    with pytest.raises(InvalidTaskError, match="this was round 3 of 3"):
        build_second_task(asked, third, released(third, ROWS, 3), NOW + 30_000, seeded("4"))
    with pytest.raises(InvalidTaskError, match="release it first"):
        build_second_task(asked, first, None, NOW + 10_000, seeded("2"))


def test_with_one_round_each_task_has_the_whole_promise_and_people_of_its_own() -> None:
    asked = specification(2, 2000, rounds=1)
    first = first_task(asked)
    second = build_second_task(asked, first, released(first, ROWS, 1), NOW + 10_000, seeded("2"))
    third = build_second_task(asked, second, released(second, ROWS, 2), NOW + 10_000, seeded("3"))
    assert {step(task).round_number for task in (first, second, third)} == {1}
    for task in (first, second, third):
        assert 0.99 < task.privacy(2000).epsilon <= 1


def test_a_round_that_is_out_of_its_place_is_refused() -> None:
    task = first_task(specification(2, 2000))
    for changes in ({"round_number": 4}, {"round_number": 2}, {"after": task.task_id}):
        with pytest.raises(InvalidTaskError, match=r"round_number . of 3 rounds"):
            task.model_copy(update={"mechanism": task.mechanism.model_copy(update=changes)}).check()


def test_a_parameter_is_spelled_within_its_limits() -> None:
    assert spelled(np.array([1e9, -1e9, 0.5, -0.0, 1e-20])) == (
        str(MAX_PARAMETER),
        f"-{MAX_PARAMETER}",
        "0.5",
        "0",
        "0",
    )


def test_a_target_that_is_no_column_is_refused() -> None:
    asked = specification(2, 2000, mechanism={"kind": "newton_step", "target": "z"})
    with pytest.raises(InvalidTaskError, match=r"mechanism.target: 'z' is none of x1, x2, y"):
        build_task(asked, SERVERS, KEYS.public_keys, NOW, seeded("newton"))


def test_what_is_released_is_the_gradient_and_the_hessian_of_the_rows() -> None:
    asked = specification(2, 100_000, epsilon=1000)
    rows = logistic_rows(100_000, [1.0, -0.5], 0.3, seed=1)
    (release, later) = (each.need("newton") for each in chain(asked, rows, 1, 2))
    assert release.is_start
    assert not later.is_start
    for sums in (release, later):
        design = np.column_stack([np.full(len(rows), sums.constant), rows[:, :2]])
        chances = 1 / (1 + np.exp(-(design @ sums.parameter)))
        residual = rows[:, 2] - chances
        weights = np.abs(residual) * (1 - np.abs(residual))
        # Rounding at random adds at most a quarter of a level of 2^-8 for each row; five deviations.
        slack = 5 * (sums.gradient_sd + 2 * len(rows) ** 0.5 / 2**8)
        np.testing.assert_allclose(sums.gradient, design.T @ residual, atol=slack)
        np.testing.assert_allclose(sums.hessian, design.T @ (design * weights[:, np.newaxis]), atol=slack)
    assert Fraction(step(first_task(asked)).intercept or 0) == 1
