"""A specification that asks for verified reports becomes a task that offers them, or a refusal in words."""

import re
from dataclasses import replace

import pytest

from lintra_analysis.kinds.verified import verified_option
from lintra_analysis.spec.build_task import build_task, warnings_of
from lintra_analysis.spec.specification import Specification, specifications
from lintra_analysis.trial.collection import placeholder_keys, placeholder_servers
from lintra_protocol.errors import FalseClaimError, InvalidTaskError, RowUnderfilledError
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA
from lintra_protocol.task import Task
from lintra_protocol.trust import not_verified
from support import source, uncalibrated
from support.measured import measurement_of

MECHANISMS: list[dict[str, object]] = [
    {"kind": "sum"},
    {"kind": "osnap", "rows": 16},
    {"kind": "osnap", "rows": 16, "sparsity": 2},
    {"kind": "second_moment"},
]


def asked(mechanism: dict[str, object], **changes: object) -> Task:
    specification = {
        "purpose": "verified",
        "columns": [{"name": name, "lower": -1, "upper": 1} for name in "abc"],
        "row_bound": 1,
        # On the coarser grids of dithering shares show so little that nearly nothing is paid for them.
        "mechanism": {"rounding": "nearest"} | mechanism,
        "epsilon": 1,
        "delta": 1e-6,
        "min_clients": 1000,
        "max_corrupt_clients": 50,
        "verification": "norm",
    } | changes
    random_bytes = source("keys")
    servers, keys = placeholder_servers(random_bytes), placeholder_keys(random_bytes)
    return build_task(Specification.model_validate(specification), servers, keys, 1_800_000_000, random_bytes)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_promise_is_what_was_asked_for_and_the_noise_pays_for_the_shares(mechanism: dict[str, object]) -> None:
    task, plain = asked(mechanism), asked(mechanism, verification="none")
    assert task.verified is not None
    assert task.max_rejected == "0.1"
    assert task.claim == plain.claim
    assert (plain.verified, plain.max_rejected) == (None, None)
    assert b"verification" not in plain.canonical()
    assert task.mechanism.sigma >= plain.mechanism.sigma
    assert task.mechanism.sigma < 1.03 * plain.mechanism.sigma
    assert task.worst_privacy().epsilon <= 1 + 1e-9
    # A sigma that is just enough without proofs is not enough with them.
    with pytest.raises((FalseClaimError, RowUnderfilledError), match=r"promised epsilon|leverage"):
        task.model_copy(update={"mechanism": plain.mechanism}).check()


def test_the_author_is_told_what_one_hostile_client_can_do() -> None:
    (said,) = [words for words in warnings_of(asked({"kind": "second_moment"})) if "verified" in words]
    assert "one hostile client can move a sum by" in said
    assert not [words for words in warnings_of(asked({"kind": "sum"}, verification="none")) if "verified" in words]


@pytest.mark.parametrize(
    ("mechanism", "changes", "words"),
    [
        (
            {"kind": "second_moment_wishart"},
            {},
            r"inconsistent\. verification: reports of second_moment_wishart with these options have no proven bound",
        ),
        ({"kind": "sum"}, {"verification": "none", "max_rejected": 0.2}, "without verification no report is checked"),
        ({"kind": "sum"}, {"delta": 1e-21}, "more than a thousandth"),
    ],
)
def test_what_cannot_be_verified_is_refused_in_words(
    mechanism: dict[str, object], changes: dict[str, object], words: str
) -> None:
    with pytest.raises(InvalidTaskError, match=words):
        asked(mechanism, **changes)


def test_the_plan_of_verified_reports_is_that_of_the_task() -> None:
    task = asked({"kind": "second_moment"}, max_rejected=0.05, share_form="seeded")
    option = verified_option(replace(task.measurement, claim=task.claim), task.num_servers, task.max_clients)
    assert option is not None
    assert task.verified is not None
    assert option.check_bytes == task.verified.check_bytes
    assert option.report_bytes["seeded"] - option.report_bytes["uniform"] == 2 * (32 - task.verified.payload_bytes)
    assert 1 < option.influence < 5
    assert 0 < option.price < 1e-9
    assert task.max_rejected == "0.05"
    few = task.claim.model_copy(update={"delta": "0.0000000000001"})
    assert verified_option(replace(task.measurement, claim=few), 3, task.max_clients) is None


NOT_OFFERED: list[dict[str, object]] = [
    {"share_form": "spread"},
    {"contributors": {"rows_per_person": 1, "max_rows": 100}, "max_corrupt_clients": None},
    {"max_corrupt_clients": 999, "delta_coalition": 0},
    {"columns": [{"name": f"c{i}", "lower": -1, "upper": 1} for i in range(300)]},
]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_reports_are_verified_where_nothing_is_said_and_it_is_offered(mechanism: dict[str, object]) -> None:
    task = asked(mechanism, verification=None)
    assert (task.verification, task.max_rejected) == ("norm", "0.1")
    assert task.mechanism == asked(mechanism).mechanism


@pytest.mark.parametrize("changes", NOT_OFFERED, ids=lambda each: next(iter(each)))
def test_what_nobody_asked_for_refuses_no_task_and_makes_no_report_longer_than_a_megabyte(
    changes: dict[str, object],
) -> None:
    task = asked({"kind": "second_moment"}, **{"verification": None} | changes)
    assert (task.verification, task.max_rejected) == ("none", None)


COLUMNS = [{"name": f"c{i}", "lower": -1, "upper": 1} for i in range(1000)]
WIDE: dict[str, object] = {"columns": COLUMNS, "verification": None, "share_form": "seeded"}
SMALL_EPSILON = WIDE | {
    "columns": COLUMNS[:100],
    "epsilon": 0.01,
    "min_clients": 100_000,
    "max_corrupt_clients": 5000,
}


@pytest.mark.parametrize(
    ("mechanism", "changes", "why"),
    [
        ({"kind": "range_finder"}, WIDE, r"below 2\^62"),
        ({"kind": "second_moment"}, SMALL_EPSILON | {"noise": "clients"}, "more than a thousandth"),
    ],
)
def test_the_grid_of_a_wide_task_is_one_on_which_reports_are_proven(
    mechanism: dict[str, object], changes: dict[str, object], why: str
) -> None:
    """The finest such grid: one bit more is too much for the proof, and the noise in the release is the same."""
    task = asked(mechanism | {"rounding": None}, **changes)
    plain = asked(mechanism | {"rounding": None}, **changes | {"verification": "none"})
    assert task.verified is not None
    assert not_verified(task) == ""
    assert (task.mechanism.rounding, plain.mechanism.rounding) == ("nearest", "dithered")
    assert re.search(why, not_verified(plain))
    noise = [each.mechanism.sigma * 4.0**-each.mechanism.fraction_bits for each in (task, plain)]
    assert noise[0] == pytest.approx(noise[1], rel=0.02)
    with pytest.raises(InvalidTaskError, match=why):
        asked(mechanism | {"rounding": "dithered"}, **changes | {"verification": "norm"})
    finer = {"fraction_bits": task.mechanism.fraction_bits + 1, "sigma": 4 * task.mechanism.sigma}
    beyond = replace(task.measurement, mechanism=task.mechanism.model_copy(update=finer), claim=task.claim)
    assert verified_option(beyond, task.num_servers, task.max_clients) is None


def test_second_moments_of_a_small_epsilon_are_verified_with_a_floor_that_servers_can_draw() -> None:
    task = asked({"kind": "second_moment", "rounding": None}, **SMALL_EPSILON)
    assert (task.noise, task.mechanism.rounding) == ("both", "nearest")
    assert task.verified is not None
    assert MAX_SIGMA / 32 < task.mechanism.floor < MAX_SIGMA


def test_a_report_that_proofs_would_make_longer_than_a_megabyte_says_so() -> None:
    task = asked({"kind": "range_finder"}, **WIDE | {"share_form": "uniform"})
    assert task.verified is None
    assert "more than a megabyte" in not_verified(task)
    assert asked({"kind": "range_finder"}, **WIDE | {"share_form": "uniform", "verification": "norm"}).verified


def test_a_kind_takes_proofs_exactly_if_its_mechanism_states_a_bound() -> None:
    for kind, specification in specifications().items():
        bound = measurement_of(uncalibrated(kind)).squared_length
        assert specification.takes_proofs == (bound is not None), kind


def test_the_author_is_told_how_many_reports_a_verified_batch_waits_for() -> None:
    assert any("closes with 1,111 reports" in words for words in warnings_of(asked({"kind": "sum"}, verification=None)))
    assert not any("closes with" in words for words in warnings_of(asked({"kind": "sum"}, verification="none")))


@pytest.mark.parametrize("kind", ["sum", "osnap", "second_moment"])
def test_verified_reports_of_rows_that_are_dithered_cost_even_less(kind: str) -> None:
    mechanism = {"kind": kind} | ({"rows": 16} if kind == "osnap" else {})
    nearest, dithered = asked(mechanism), asked(mechanism | {"rounding": None})
    assert (nearest.mechanism.rounding, dithered.mechanism.rounding) == ("nearest", "dithered")
    assert dithered.verified is not None
    assert nearest.verified is not None
    assert dithered.verified.squared_bound < nearest.verified.squared_bound
