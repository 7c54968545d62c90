"""The rules of a release: every refusal, in the words that the analyst will read."""

import math

import numpy as np
import pytest

from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.tokens import key_commitment
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.encoding.documents import real
from lintra_protocol.errors import (
    CohortConflictError,
    CohortTooSmallError,
    FalseClaimError,
    InvalidMessageError,
    InvalidTaskError,
    InventoryMismatchError,
    LintraError,
    NonceMismatchError,
    RowUnderfilledError,
    TooManyMissingError,
    UnauthorizedError,
)
from lintra_protocol.mechanisms import Osnap
from lintra_protocol.messages.documents import Cohort, Signed, census_of, inventory_of, sign
from lintra_protocol.privacy.leverage import LeverageBounds
from lintra_protocol.rules.release import (
    aggregate_context,
    check_cohort,
    draw_matrix,
    late_seed,
    verify_census,
    verify_cohorts,
    verify_inventories,
    verify_list,
)
from lintra_protocol.task import Task
from lintra_protocol.transforms.osnap import BalancedOsnap
from support import identity, make_task, nonce, signed_cohorts, signed_inventories

TASK = make_task(min_clients=8, max_clients=20)
SKETCH = make_task("osnap", rows=2, max_clients=20)
OVERLAPPING = make_task("osnap", rows=4, sparsity=2, min_clients=30, max_clients=100)
NONCES = [nonce(server) for server in range(3)]
IDS = [bytes([index]) * 32 for index in range(10)]
LISTS = [IDS, IDS[:9], IDS[1:]]
INVENTORIES = signed_inventories(TASK, LISTS)
COHORTS = signed_cohorts(TASK, LISTS, INVENTORIES)


def test_right_inventories_are_returned_in_server_order() -> None:
    assert [message.count for message in verify_inventories(TASK, 0, INVENTORIES)] == [10, 9, 9]


@pytest.mark.parametrize("change", [{"batch": 1}, {"server": 2}, {"task_id": base64url(bytes(32))}])
def test_an_inventory_of_something_else_is_refused(change: dict[str, object]) -> None:
    wrong = sign(identity("server 0"), INVENTORIES[0].message.model_copy(update=change))
    with pytest.raises(InventoryMismatchError, match="inventory 0 is of another"):
        verify_inventories(TASK, 0, [wrong, *INVENTORIES[1:]])


def test_inventories_in_another_order_are_not_signed_by_the_right_servers() -> None:
    with pytest.raises(UnauthorizedError):
        verify_inventories(TASK, 0, INVENTORIES[::-1])


@pytest.mark.parametrize("count", [0, 2, 4])
def test_there_is_one_inventory_and_one_cohort_of_each_server(count: int) -> None:
    with pytest.raises(InvalidMessageError, match=f"expected 3 inventories, got {count}"):
        verify_inventories(TASK, 0, [INVENTORIES[0]] * count)
    with pytest.raises(InvalidMessageError, match=f"expected 3 cohorts, got {count}"):
        verify_cohorts(TASK, 0, [COHORTS[0]] * count, INVENTORIES)


def test_a_list_is_the_one_that_its_server_signed() -> None:
    verify_list(INVENTORIES[1].message, ReportIds.of(LISTS[1]))
    for wrong in (IDS, IDS[1:], []):
        with pytest.raises(InventoryMismatchError, match="server 1"):
            verify_list(INVENTORIES[1].message, ReportIds.of(wrong))


@pytest.mark.parametrize("more", [-1, 1])
def test_an_inventory_with_another_count_than_its_roots_is_refused(more: int) -> None:
    signed = INVENTORIES[0].message
    with pytest.raises(InventoryMismatchError, match="server 0 is not the one it signed"):
        verify_list(signed.model_copy(update={"count": signed.count + more}), ReportIds.of(IDS))


def test_a_cohort_of_the_minimum_may_be_released() -> None:
    statement = check_cohort(TASK, 8, 8)
    assert statement.num_clients == 8
    assert statement.epsilon <= 1


@pytest.mark.parametrize(("clients", "missing"), [(7, "1 more are needed"), (0, "8 more are needed")])
def test_a_small_cohort_is_told_how_many_reports_are_missing(clients: int, missing: str) -> None:
    with pytest.raises(CohortTooSmallError, match=f"{clients} of at least 8 reports .* {missing}"):
        check_cohort(TASK, clients, clients)


def test_a_cohort_beyond_the_rings_headroom_is_refused() -> None:
    check_cohort(TASK, 20, 20)
    with pytest.raises(InvalidTaskError, match="21 reports exceed the task's maximum of 20"):
        check_cohort(TASK, 21, 21)


def with_tokens(**fields: object) -> Task:
    keys = tuple(key_commitment(bytes([index]) * 32) for index in range(3))
    return make_task(client_auth="token", token_keys=keys, **fields)


@pytest.mark.parametrize(("own", "allowed"), [(8, True), (10, True), (11, False), (19, False)])
def test_with_tokens_a_quarter_may_be_missing_and_without_any_number(own: int, allowed: bool) -> None:
    check_cohort(TASK, 8, own)
    task = with_tokens()
    if allowed:
        check_cohort(task, 8, own)
        return
    with pytest.raises(TooManyMissingError, match=f"{own - 8} of {own} reports held here are missing elsewhere"):
        check_cohort(task, 8, own)


def test_the_allowance_for_missing_reports_is_exact() -> None:
    # In floating point 0.07 x 100 is above 7; an inexact rule might allow 6 or 8.
    task = with_tokens(max_missing="0.07")
    check_cohort(task, 93, 100)
    with pytest.raises(TooManyMissingError, match=r"8 of 100 .* at most 7"):
        check_cohort(task, 92, 100)


def test_holding_less_than_the_cohort_is_no_reason_to_refuse() -> None:
    check_cohort(TASK, 8, 0)


def test_a_promise_that_the_cohort_does_not_keep_names_both_numbers() -> None:
    weak = TASK.mechanism.model_copy(update={"sigma": TASK.mechanism.sigma // 2})
    with pytest.raises(FalseClaimError, match=r"promised epsilon 1 at delta 0\.000001, but .* epsilon 2\.12"):
        check_cohort(make_task(weak, min_clients=8, check=False), 8, 8)


def test_a_cohort_that_fills_no_row_with_honest_clients_is_refused() -> None:
    claim = SKETCH.claim.model_copy(update={"max_corrupt_clients": 4})
    task = make_task(SKETCH.mechanism, claim=claim, check=False)
    with pytest.raises(RowUnderfilledError, match="0 honest clients"):
        check_cohort(task, 8, 8)


def test_where_rows_do_not_overlap_the_first_matrix_is_used_and_its_privacy_is_the_expected_one() -> None:
    drawn = draw_matrix(SKETCH, 0, bytes(32), NONCES, 9)
    assert drawn.seed == late_seed(SKETCH, 0, bytes(32), NONCES, 0)
    assert drawn.privacy == check_cohort(SKETCH, 9, 9)


def test_the_first_matrix_that_keeps_the_promise_is_used() -> None:
    # The plan is lowered until the first matrices exceed it: between the best and the second best of three.
    mechanism = OVERLAPPING.mechanism
    assert isinstance(mechanism, Osnap)
    mus = []
    for attempt in range(3):
        matrix = mechanism.public_matrix(30, late_seed(OVERLAPPING, 0, bytes(32), NONCES, attempt))
        row_numbers, signs = matrix.entries(np.arange(30))
        mus.append(LeverageBounds.of(4, row_numbers, signs).against(0, 0))
    assert len(set(mus)) > 1
    for limit in sorted(mus):
        # The shortest decimal of a float may lie below it, so the limit is the one of the next float.
        planned = mechanism.model_copy(update={"leverage": real(math.nextafter(limit, 1))})
        lowered = OVERLAPPING.model_copy(update={"mechanism": planned})
        # A changed task has other seeds; these are the ones of the task above.
        lowered.__dict__["id_bytes"] = OVERLAPPING.id_bytes
        drawn = draw_matrix(lowered, 0, bytes(32), NONCES, 30)
        first = next(attempt for attempt in range(3) if mus[attempt] <= limit)
        assert drawn.seed == late_seed(OVERLAPPING, 0, bytes(32), NONCES, first)


def test_if_no_matrix_keeps_the_promise_the_cohort_is_given_up_with_numbers() -> None:
    mechanism = OVERLAPPING.mechanism.model_copy(update={"leverage": "0.13"})
    task = OVERLAPPING.model_copy(update={"mechanism": mechanism})
    with pytest.raises(RowUnderfilledError, match=r"none of 3 matrices .* leverage 0\.\d+, the claim needs 0\.13 or"):
        draw_matrix(task, 0, bytes(32), NONCES, 30)


def test_noise_that_does_not_cover_the_matrix_is_refused_with_numbers() -> None:
    mechanism = OVERLAPPING.mechanism.model_copy(update={"sigma": OVERLAPPING.mechanism.sigma // 2})
    task = OVERLAPPING.model_copy(update={"mechanism": mechanism})
    with pytest.raises(RowUnderfilledError, match=r"none of 3 matrices .* promised epsilon 1 .* give epsilon"):
        draw_matrix(task, 0, bytes(32), NONCES, 30)


def test_every_attempt_has_a_seed_of_its_own() -> None:
    assert len({late_seed(TASK, 0, bytes(32), NONCES, attempt) for attempt in range(3)}) == 3


def test_the_rows_that_were_drawn_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Skewed(Osnap):
        def public_matrix(self, num_clients: int, seed: bytes) -> BalancedOsnap:
            # What an implementation that deals badly would draw: one report of eight in the second row.
            matrix = super().public_matrix(num_clients, seed)
            monkeypatch.setattr(matrix, "row_counts", lambda: np.array([num_clients - 1, 1]))
            return matrix

    skewed = SKETCH.model_copy(update={"mechanism": Skewed.model_validate(SKETCH.mechanism.model_dump())})
    assert check_cohort(skewed, 8, 8).honest_clients == 4
    with pytest.raises(RowUnderfilledError, match=r"none of 3 matrices .* \(1 honest clients behind"):
        draw_matrix(skewed, 0, bytes(32), NONCES, 8)


def test_tolerated_clients_are_needed_on_top_of_honest_ones() -> None:
    task = make_task("osnap", rows=2, min_clients=12, max_corrupt_clients=2)
    assert check_cohort(task, 12, 12).honest_clients == 4
    assert draw_matrix(task, 0, bytes(32), NONCES, 12).privacy.honest_clients == 4
    with pytest.raises(RowUnderfilledError, match=r"none of 3 matrices"):
        draw_matrix(task, 0, bytes(32), NONCES, 11)


def test_a_sum_over_fewer_reports_than_promised_is_refused() -> None:
    with pytest.raises(RowUnderfilledError, match=r"none of 3 matrices .* \(7 honest clients"):
        draw_matrix(TASK, 0, bytes(32), NONCES, 7)


def test_agreeing_cohorts_give_the_one_cohort() -> None:
    agreed = verify_cohorts(TASK, 0, COHORTS, INVENTORIES)
    assert (agreed.count, agreed.root) == (8, base64url(ReportIds.of(IDS[1:9]).root))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"root": base64url(bytes(32))}, CohortConflictError),
        ({"count": 9}, CohortConflictError),
        ({"batch": 1}, CohortConflictError),
        ({"server": 0}, CohortConflictError),
        ({"task_id": base64url(bytes(32))}, CohortConflictError),
        ({"inventories": base64url(bytes(32))}, CohortConflictError),
        ({"nonce": base64url(nonce(0))}, NonceMismatchError),
        ({"nonce": "AAAA"}, NonceMismatchError),
    ],
)
def test_a_cohort_that_differs_in_anything_is_refused(change: dict[str, object], error: type[LintraError]) -> None:
    wrong = sign(identity("server 1"), COHORTS[1].message.model_copy(update=change))
    with pytest.raises(error, match="server 1"):
        verify_cohorts(TASK, 0, [COHORTS[0], wrong, COHORTS[2]], INVENTORIES)


def test_the_first_server_is_held_to_the_same_as_all_others() -> None:
    for change in ({"server": 1}, {"batch": 1}, {"inventories": base64url(bytes(32))}):
        wrong: Signed[Cohort] = sign(identity("server 0"), COHORTS[0].message.model_copy(update=change))
        with pytest.raises(CohortConflictError):
            verify_cohorts(TASK, 0, [wrong, *COHORTS[1:]], INVENTORIES)


def test_cohorts_from_other_inventories_than_one_holds_are_refused() -> None:
    others = signed_inventories(TASK, LISTS, closed_at=3)
    with pytest.raises(CohortConflictError):
        verify_cohorts(TASK, 0, COHORTS, others)


def test_the_seed_depends_on_the_task_the_cohort_and_every_nonce() -> None:
    root, nonces = bytes(32), [nonce(server) for server in range(3)]
    seeds = {
        late_seed(TASK, 0, root, nonces),
        late_seed(SKETCH, 0, root, nonces),
        late_seed(TASK, 0, b"\x01" * 32, nonces),
    }
    seeds |= {late_seed(TASK, 0, root, [*nonces[:at], bytes(32), *nonces[at + 1 :]]) for at in range(3)}
    assert len(seeds | {late_seed(TASK, 0, root, nonces[::-1])}) == 7


def test_a_sketch_share_is_bound_to_task_server_cohort_and_seed() -> None:
    base = aggregate_context(TASK, 0, 0, bytes(32), bytes(32))
    others = [
        aggregate_context(SKETCH, 0, 0, bytes(32), bytes(32)), aggregate_context(TASK, 0, 1, bytes(32), bytes(32)),
        aggregate_context(TASK, 0, 0, b"\x01" * 32, bytes(32)), aggregate_context(TASK, 0, 0, bytes(32), b"\x01" * 32),
    ]  # fmt: skip
    assert len({base, *others}) == 5


@pytest.mark.parametrize(("started", "lost", "is_a_lie"), [
    (7, 0, True), (7, 1, True), (7, 2, False), (8, 0, False), (6, 0, False),
])  # fmt: skip
def test_a_census_report_that_is_gone_proves_a_lie_only_if_the_server_was_not_restarted_since(
    started: int, lost: int, is_a_lie: bool
) -> None:
    key = identity("server 0")
    counted, held = ReportIds.of(IDS), ReportIds.of(IDS[:8])
    census = sign(key, census_of(TASK, 0, 0, counted, 0, 7))
    inventory = sign(key, inventory_of(TASK, 0, 0, held, bytes(32), 0, started, lost=lost))
    if is_a_lie:
        with pytest.raises(InventoryMismatchError, match="signed for 2 reports in its census that are not in its inv"):
            verify_census(TASK, census, counted, inventory, held)
    else:
        assert verify_census(TASK, census, counted, inventory, held) == 2
