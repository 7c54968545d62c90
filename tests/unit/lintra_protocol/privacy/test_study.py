"""A study: what a pilot and its main task promise together, and how each is held to its part."""

import math
from fractions import Fraction

import pytest
from pydantic import ValidationError

from lintra_protocol.errors import FalseClaimError, InvalidTaskError, PolicyRefusedError, UnsupportedFeatureError
from lintra_protocol.fields.windows import Windows
from lintra_protocol.privacy.composition import Spending
from lintra_protocol.privacy.discrete import discrete_delta
from lintra_protocol.privacy.limits import Ceiling
from lintra_protocol.privacy.statement import MAX_SLACK, Claim
from lintra_protocol.privacy.study import Study
from lintra_protocol.task import Task
from support import make_task

STUDY = Study(epsilon="1", delta="0.000001", share="0.1")
AFTER = STUDY.model_copy(update={"pilot": "A" * 43})


def task_of(epsilon: str, study: Study, **changes: object) -> Task:
    claim = Claim.model_validate({"epsilon": epsilon, "delta": "0.000001", "min_clients": 100} | changes)
    return make_task(claim=claim, study=study)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": "0"}, "epsilon must be positive"),
        ({"delta": "1"}, "strictly between 0 and 1"),
        ({"delta_coalition": "0.000001"}, "delta_coalition"),
        ({"share": "0"}, "share"),
        ({"share": "1"}, "share"),
        ({"pilot": "short"}, "pilot"),
        ({"epsilon_alone": "0.9"}, "epsilon_alone 0.9 is below epsilon 1"),
    ],
)
def test_a_study_is_refused_where_its_numbers_make_no_sense(changes: dict[str, str], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Study.model_validate(STUDY.model_dump() | changes)


@pytest.mark.parametrize("share", ["0.1", "0.5", "0.9"])
def test_both_parts_together_are_the_whole_promise_and_no_more(share: str) -> None:
    pilot = STUDY.model_copy(update={"share": share})
    main = pilot.model_copy(update={"pilot": "A" * 43})
    mu = math.hypot(pilot.own_mu, main.own_mu)
    assert discrete_delta(1.0, mu, 2 * MAX_SLACK) <= 1e-6
    assert discrete_delta(1.0, mu * (1 + 1e-9), 2 * MAX_SLACK) > 1e-6


@pytest.mark.parametrize(("study", "fits", "too_much"), [(STUDY, "0.27", "0.3"), (AFTER, "0.94", "0.96")])
def test_a_task_that_spends_more_than_its_part_is_refused(study: Study, fits: str, too_much: str) -> None:
    task_of(fits, study)
    with pytest.raises(FalseClaimError, match="of its study this task may spend mu"):
        task_of(too_much, study)


def test_a_pilot_spends_none_of_the_coalitions_delta_and_the_main_task_no_more_than_is_said() -> None:
    halved = {"delta_coalition": "0.0000005", "delta": "0.000001"}
    crowded = {"max_corrupt_clients": 2, "delta_coalition": "0.0000002"}
    for study, allowed in ((STUDY, False), (AFTER, False), (AFTER.model_copy(update=halved), True)):
        if allowed:
            task_of("0.2", study, **crowded)
            continue
        with pytest.raises(FalseClaimError, match="spend delta_coalition"):
            task_of("0.2", study, **crowded)


def test_a_judge_compares_both_tasks_together() -> None:
    task = task_of("0.27", STUDY)
    own, together = task.promises()
    assert (own[0].epsilon, together[0].epsilon) == ("0.27", "1")
    assert together[1].epsilon <= 1
    assert Spending.of(together[1]).epsilon_at(1e-6) <= 1
    ceiling = Ceiling(max_epsilon=Fraction(1, 2))
    ceiling.require(*own)
    with pytest.raises(PolicyRefusedError, match=r"more than 0\.5"):
        ceiling.require(*together)


def test_the_identifier_of_the_pilot_is_one_and_a_task_without_a_study_keeps_its_bytes() -> None:
    with pytest.raises(InvalidTaskError, match=r"study\.pilot"):
        task_of("0.9", STUDY.model_copy(update={"pilot": "A" * 42 + "B"}))
    assert b"study" not in make_task().canonical()
    written = task_of("0.27", STUDY).canonical()
    assert b'"study":{"delta":"0.000001","delta_coalition":"0","epsilon":"1","share":"0.1"}' in written
    assert Task.from_canonical(written).study == STUDY


def test_a_study_has_no_windows() -> None:
    windows = Windows(window=24, grace=1, max_windows=2, reports_per_source=1)
    task = task_of("0.27", STUDY).model_copy(update={"batches": "windowed", "windows": windows})
    with pytest.raises(InvalidTaskError, match="each has a single batch"):
        task.check()


ALONE = STUDY.model_copy(update={"epsilon_alone": "3"})
ALONE_AFTER = ALONE.model_copy(update={"pilot": "A" * 43})


def both(study: Study, epsilon: str, alone: str) -> Task:
    claim = Claim(epsilon=epsilon, delta="0.000001", min_clients=100, epsilon_alone=alone)
    return make_task(claim=claim, study=study, noise="both")


@pytest.mark.parametrize(
    ("study", "fits", "too_much"),
    [(ALONE, ("0.27", "0.8"), ("0.27", "0.9")), (ALONE_AFTER, ("0.9", "2.7"), ("0.9", "2.9"))],
)
def test_a_task_that_shows_more_than_its_part_if_all_others_are_invented_is_refused(
    study: Study, fits: tuple[str, str], too_much: tuple[str, str]
) -> None:
    task = both(study, *fits)
    own, together = task.bound_alone(), task.judged_alone()
    assert own is not None
    assert together is not None
    assert own.epsilon < 3
    assert 0.9999 < together.epsilon / 3 <= 1
    with pytest.raises(FalseClaimError, match="with all other clients invented: of its study this task may spend mu"):
        both(study, *too_much)


def test_both_parts_together_are_all_that_is_promised_if_all_others_are_invented() -> None:
    mu = math.hypot(ALONE.own_mu_alone, ALONE_AFTER.own_mu_alone)
    assert discrete_delta(3.0, mu, 2 * MAX_SLACK) <= 1e-6
    assert discrete_delta(3.0, mu * (1 + 1e-9), 2 * MAX_SLACK) > 1e-6
    assert b"epsilon_alone" not in STUDY.canonical()


def test_a_study_says_what_is_left_alone_where_servers_add_a_floor_and_nowhere_else() -> None:
    with pytest.raises(UnsupportedFeatureError, match="a study without epsilon_alone has no bound alone"):
        both(STUDY, "0.27", "0.8")
    with pytest.raises(InvalidTaskError, match=r"study\.epsilon_alone"):
        task_of("0.27", ALONE)
