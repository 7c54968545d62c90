"""A promise is judged at the judge's own delta, and what is no noise must fit into that."""

from dataclasses import replace
from fractions import Fraction

import pytest

from lintra_protocol.errors import PolicyRefusedError
from lintra_protocol.privacy.limits import Ceiling, usual_delta
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import Task
from support import make_task

HALF, SMALL = Fraction(1, 2), Fraction(1, 10**6)


def judge(task: Task, ceiling: Ceiling) -> None:
    ceiling.require(task.claim, task.worst_privacy())


def test_the_usual_delta_is_a_millionth_or_less_than_one_client() -> None:
    assert usual_delta(2) == SMALL
    assert usual_delta(10**6) == SMALL
    assert usual_delta(10**7) == Fraction(1, 10**7)


@pytest.mark.parametrize("mechanism", ["sum", "osnap", "second_moment_wishart"])
@pytest.mark.slow
def test_an_epsilon_is_compared_at_the_judges_delta_in_both_directions(mechanism: str) -> None:
    task = make_task(mechanism, epsilon="1", delta="0.00001", min_clients=100)
    ours, theirs = (Ceiling(Fraction(1), delta=delta) for delta in (SMALL, Fraction(1, 10**5)))
    judge(task, theirs)
    with pytest.raises(PolicyRefusedError, match=r"epsilon is 1\.\d+ at delta 1e-06, more than 1"):
        judge(task, ours)
    # A promise at a smaller delta than the judge's is worth more to the judge than its author says.
    strict = make_task(mechanism, epsilon="1.1", delta="0.0000000001", min_clients=100)
    judge(strict, ours)


def test_a_task_exactly_at_the_ceiling_is_accepted() -> None:
    for sparsity in (1, 2):
        judge(make_task("osnap", rows=2, sparsity=sparsity, min_clients=100), Ceiling(Fraction(1)))


def test_a_coalitions_part_of_delta_must_fit_whatever_epsilon_is_accepted() -> None:
    claim = Claim(epsilon="1", delta="0.00001", min_clients=200, max_corrupt_clients=10, delta_coalition="0.000005")
    task = make_task("osnap", claim=claim)
    with pytest.raises(PolicyRefusedError, match=r"delta_coalition 5e-06 does not fit into delta 1e-06"):
        judge(task, Ceiling())
    judge(task, Ceiling(delta=Fraction(1, 10**5)))


def test_what_shares_show_must_fit_whatever_epsilon_is_accepted() -> None:
    task = make_task("sum", verification="norm", max_rejected="0.1")
    worst = task.worst_privacy()
    Ceiling().require(task.claim, worst)
    with pytest.raises(PolicyRefusedError, match="reports show, 4e-07, does not fit into delta 1e-06"):
        Ceiling().require(task.claim, replace(worst, delta_shares=4e-7))
    Ceiling(delta=Fraction(1, 10**5)).require(task.claim, replace(worst, delta_shares=4e-7))


def test_what_is_not_proved_for_the_promises_neighbours_and_coalition_is_refused_whatever_its_numbers() -> None:
    task = make_task(claim=Claim(epsilon="1", delta="0.000001", min_clients=100, max_corrupt_clients=3))
    worst = task.worst_privacy()
    Ceiling().require(task.claim, worst)
    for changes in ({"neighbours": "zero-out"}, {"max_corrupt_clients": 2}, {"status": "numerical supremum"}):
        with pytest.raises(PolicyRefusedError, match="computed"):
            Ceiling().require(task.claim, replace(worst, **changes))  # type: ignore[arg-type]


def test_a_large_delta_is_refused_unless_it_is_asked_for() -> None:
    task = make_task(delta="0.001")
    with pytest.raises(PolicyRefusedError, match=r"delta 0\.001 is more than 0\.0001"):
        judge(task, Ceiling())
    judge(task, Ceiling(max_delta=HALF))
