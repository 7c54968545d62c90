"""Planning backwards: the smallest epsilon or cohort that is good enough, and none smaller."""

import math
from dataclasses import replace

import pytest

from lintra_analysis.kinds.planned import PlannedMechanism
from lintra_analysis.plan.flags import PlanFlags
from lintra_analysis.plan.solve import smallest_cohort, smallest_epsilon
from lintra_protocol.encoding.documents import Real, fraction, real
from lintra_protocol.errors import InvalidTaskError


def question(rows: int | None = 1024) -> PlanFlags:
    return PlanFlags(clients=1_000_000, delta="0.000001", corrupt=0, rows=rows, clip_count_weight="0")


def plan_sketch(asked: PlanFlags) -> PlannedMechanism:
    return asked.planned("osnap")


def plan_second_moment(asked: PlanFlags) -> PlannedMechanism:
    return asked.planned("second_moment")


@pytest.mark.parametrize("weight", ["0", None])
def test_the_smallest_epsilon_of_a_given_noise_is_the_smallest(weight: Real | None) -> None:
    answer = smallest_epsilon(replace(question(), clip_count_weight=weight), 0.2)
    assert plan_sketch(answer).sigma <= 0.2
    epsilon = float(fraction(answer.epsilon))
    # Sigma is a whole number of at least 1,000 steps, so that it answers to a thousandth of epsilon.
    slightly_less = replace(answer, epsilon=real(epsilon * (1 - 2e-3)))
    assert plan_sketch(slightly_less).sigma > 0.2


@pytest.mark.slow
def test_the_smallest_cohort_of_a_given_noise_or_error_is_the_smallest() -> None:
    answer = smallest_cohort(question(), lambda asked: plan_sketch(asked).sigma <= 0.2)
    assert answer.clients == 1024 * 1786
    assert plan_sketch(answer).sigma <= 0.2
    fewer = answer.of_cohort(answer.clients - 1)
    assert plan_sketch(fewer).sigma > 0.2
    counted = replace(question(rows=None), clip_count_weight=None)
    precise = smallest_cohort(counted, lambda asked: plan_second_moment(asked).predicted.relative_error <= 0.001)
    # sqrt(d (d+1)) B^2 / (mu n r^2) is the error, in exact arithmetic, and sqrt(1 + w^2) times that with a count.
    expected = math.sqrt(110 * 1.04) / 0.236704380663 / 0.001
    assert precise.clients == pytest.approx(expected, rel=1e-4)


def test_what_no_cohort_can_give_is_refused() -> None:
    # 25 rows alone make an error of about 1 / sqrt(25), however many clients there are.
    with pytest.raises(InvalidTaskError, match="no cohort"):
        smallest_cohort(question(rows=25), lambda asked: plan_sketch(asked).predicted.relative_error <= 0.1)
    for sigma in (0.0, math.nan, 1e-9):
        with pytest.raises(InvalidTaskError, match="sigma"):
            smallest_epsilon(question(), sigma)
