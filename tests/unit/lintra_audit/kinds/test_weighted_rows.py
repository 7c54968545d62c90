"""The audits of weighted rows take the farthest neighbours, and find what is planted."""

from functools import cache

import pytest

from lintra_audit.kinds.weighted_rows import FAULTS, cases, farthest, twin
from lintra_audit.release.checks import check_encoder
from lintra_audit.trials.audit_case import Case
from lintra_audit.trials.simulated_release import HONEST
from lintra_protocol.mechanisms import SecondMoment
from support.audit_cases import reached


@cache
def by_name() -> dict[str, Case]:
    return {case.name: case for case in cases()}


@pytest.mark.parametrize("name", [case.name for case in cases()])
def test_the_two_rows_are_as_far_apart_as_the_promise_allows_but_for_the_margin_of_dithering(name: str) -> None:
    case = by_name()[name]
    mechanism = case.task.mechanism
    margin = 1 - (mechanism.dithered_entries(2) / mechanism.squared_bound) ** 0.5
    assert margin**4 * 0.995 < reached(case) <= 1


@pytest.mark.parametrize("name", [case.name for case in cases()])
def test_hostile_rows_stay_inside_the_claim_of_an_honest_encoder(name: str) -> None:
    assert check_encoder(by_name()[name].task, HONEST).passed


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_mistake_is_found_by_the_encoder_check(fault: str) -> None:
    planted = FAULTS[fault]
    assert not check_encoder(by_name()[planted.case].task, planted.seams).passed


def test_a_twin_keeps_the_weights_and_has_its_target_among_its_two_columns() -> None:
    task = next(iter(by_name().values())).task
    small = twin(task)
    assert isinstance(small.mechanism, SecondMoment)
    assert (small.mechanism.row_weights, small.mechanism.target, small.num_columns) == ("features", 1, 2)
    assert small.privacy(small.claim.min_clients).mu == pytest.approx(task.privacy(task.claim.min_clients).mu, rel=1e-5)
    first, second = farthest(small)
    assert (first[0], first[1]) != (second[0], second[1])
