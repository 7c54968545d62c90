"""What clients, analyzers, other servers and the network may try, and which rule of an honest server stops it.

Where it is cheap, a second test shows that the attack works with the rule off: so the rule is what stops it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_protocol.cohort.report_ids import ReportIds, encode_positions
from lintra_protocol.crypto.ring import from_ring
from lintra_protocol.crypto.sharing import combine
from lintra_protocol.encoding.canonical import base64url, domain_hash, parse_base64url
from lintra_protocol.errors import LintraError
from lintra_protocol.messages.documents import (
    AggregateRequest,
    Cohort,
    CohortRequest,
    Difference,
    Inventory,
    Signed,
    UploadAnswer,
    inventory_of,
    nonce_commitment,
    receipt_hash,
    sign,
)
from lintra_protocol.report.report import Report, open_block
from lintra_protocol.report.upload import SealedBlock, block_bytes, decode_upload, encode_upload
from lintra_protocol.rules import release as rules
from lintra_protocol.task import Task
from lintra_server.batches import gate, report_decryption
from support.server_world import STRANGER, World, a_world, text, token

HONEST = 0
"""The server under attack; the attacker may hold the keys of the others."""


def failures(content: bytes) -> list[str]:
    return [failure.type for failure in UploadAnswer.from_canonical(content).failures]


# --- clients and the network ----------------------------------------------------------------------------------


def flip(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


def with_header(block: SealedBlock, header: bytes) -> SealedBlock:
    return replace(block, headers=(header, *block.headers[1:]))


CHANGES: dict[str, tuple[Callable[[SealedBlock], SealedBlock], str]] = {
    "its encapsulation": (lambda b: replace(b, sealed=flip(b.sealed, 0)), "decrypt_failed"),
    "its seal": (lambda b: replace(b, sealed=flip(b.sealed, len(b.sealed) - 1)), "decrypt_failed"),
    "a commitment": (lambda b: with_header(b, flip(b.headers[0], 50)), "decrypt_failed"),
    "a time": (lambda b: with_header(b, flip(b.headers[0], 40)), "decrypt_failed"),
    "two headers exchanged": (lambda b: replace(b, headers=b.headers[::-1]), "decrypt_failed"),
    "its task": (lambda b: with_header(b, flip(b.headers[0], 10)), "invalid_message"),
    "its format": (lambda b: with_header(b, flip(b.headers[0], 0)), "invalid_message"),
    "its key": (lambda b: replace(b, key_id=flip(b.key_id, 0)), "outdated_key"),
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.grid(6)
async def test_a_block_changed_anywhere_is_refused_whole_and_the_others_are_stored(tmp_path: Path, what: str) -> None:
    change, kind = CHANGES[what]
    async with a_world(tmp_path) as world:
        reports = world.reports(6)
        blocks = [await block_of(world, reports[start : start + 2]) for start in (0, 2, 4)]
        blocks[1] = change(blocks[1])
        answer = await world.post(HONEST, encode_upload(blocks))
        assert answer.status_code == 200
        # One problem, counted for each of its reports.
        assert failures(answer.content) == [kind] * 2
        assert world.apps[HONEST].node.metrics.registry.get_sample_value("lintra_reports_total", {"outcome": kind}) == 2
        others = sorted(report.report_id for report in reports[:2] + reports[4:])
        assert world.apps[HONEST].node.store.report_ids(1) == others
        # The genuine reports are not locked out by the forgery.
        assert (await world.upload(HONEST, reports)).failures == ()


async def block_of(world: World, reports: Sequence[Report]) -> SealedBlock:
    """Return some reports as they are sealed to the honest server in one block."""
    return decode_upload(await world.body(HONEST, reports), world.task, HONEST)[0]


async def test_no_report_can_be_taken_out_of_a_block_or_added_to_one(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        reports = world.reports(4)
        block, other = await block_of(world, reports[:3]), await block_of(world, reports[3:])
        size = block_bytes(world.task, HONEST, 2) - block_bytes(world.task, HONEST, 1) - 8 - 3 * 32
        fewer = replace(block, headers=block.headers[:2], sealed=block.sealed[:-size])
        more = replace(block, headers=block.headers + other.headers, sealed=block.sealed + other.sealed[-size:])
        for forged, count in ((fewer, 2), (more, 4)):
            answer = await world.post(HONEST, encode_upload([forged]))
            assert failures(answer.content) == ["decrypt_failed"] * count
        assert failures((await world.post(HONEST, encode_upload([block, other]))).content) == []


async def test_a_report_refused_in_a_block_does_not_touch_the_others_in_it(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        good = world.reports(3)
        early, late = world.reports(1, time=world.task.not_before - 1), world.reports(1, time=world.task.not_after)
        share = Report(good[2].report_id, good[2].header, good[1].shares)
        answer = await world.upload(HONEST, [good[0], *early, share, *late, good[1]])
        assert [(failure.report_id, failure.type) for failure in answer.failures] == [
            (text(early[0]), "report_too_early"),
            (text(good[2]), "commitment_mismatch"),
            (text(late[0]), "report_too_late"),
        ]
        assert answer.receipt.message.reports == receipt_hash([good[0].report_id, good[1].report_id])
        assert (await world.upload(HONEST, good)).failures == ()


async def test_a_report_that_is_stored_is_known_by_its_identifier_though_its_key_is_gone(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        reports = world.reports(3)
        assert (await world.upload(HONEST, reports[:2])).failures == ()
        block = await block_of(world, reports)
        gone = encode_upload([replace(block, key_id=flip(block.key_id, 0))])
        answer = UploadAnswer.from_canonical((await world.post(HONEST, gone)).content)
        # Only the one that is not here has to be sealed anew; for the others the answer is a receipt.
        assert [each.report_id for each in answer.failures] == [text(reports[2])]
        assert answer.receipt.message.count == 2
        # With the rule off a client that lost the first answer would give up a report that is stored.
        world.apps[HONEST].node.intake._find_stored = lambda task, report_ids: set()
        assert failures((await world.post(HONEST, gone)).content) == ["outdated_key"] * 3


async def test_a_block_of_nothing_new_is_not_opened_and_one_with_something_new_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_world(tmp_path) as world:
        reports = world.reports(4)
        assert (await world.upload(HONEST, reports[:3])).failures == ()
        opened: list[int] = []

        def watched(
            task: Task, server: int, block: SealedBlock, find_key: report_decryption.FindKey
        ) -> list[bytes | LintraError]:
            opened.append(len(block.headers))
            return open_block(task, server, block, find_key)

        monkeypatch.setattr(report_decryption, "open_block", watched)
        parts = [reports[:2], reports[2:3], reports[1:]]
        body = encode_upload([await block_of(world, part) for part in parts])
        answer = UploadAnswer.from_canonical((await world.post(HONEST, body)).content)
        assert answer.failures == ()
        assert opened == [3]
        assert answer.receipt.message.count == 6
        assert world.apps[HONEST].node.store.num_reports(1) == 4


@pytest.mark.parametrize("cut", [0, 1, 2, 100, -1])
@pytest.mark.grid(2)
async def test_a_truncated_upload_is_refused_whole_and_loses_nothing(tmp_path: Path, cut: int) -> None:
    async with a_world(tmp_path) as world:
        reports = world.reports(3)
        body = await world.body(HONEST, reports)
        for wrong in (body[:cut], body + b"x"):
            answer = await world.post(HONEST, wrong)
            assert (answer.status_code, token(answer)) == (400, "invalid_message")
        assert world.apps[HONEST].node.store.report_ids(1) == []
        assert (await world.post(HONEST, body)).status_code == 200


async def test_a_share_meant_for_another_server_does_not_open_here(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        foreign = await world.body(1, world.reports(2))
        assert failures((await world.post(0, foreign)).content) == ["outdated_key"] * 2


async def test_a_share_sealed_here_for_another_servers_index_does_not_open(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        (report,) = world.reports(1)
        swapped = Report(report.report_id, report.header, (report.shares[1], report.shares[0], report.shares[2]))
        assert failures((await world.post(0, await world.body(0, [swapped]))).content) == ["commitment_mismatch"]


async def test_a_share_of_another_length_or_form_is_refused_though_it_is_committed_to(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        seeded = world.task.model_copy(update={"share_form": "seeded"})
        other = World(**{**world.__dict__, "task": seeded})
        # The seeded share is shorter, so not even the frame fits.
        assert (await world.post(0, await other.body(0, other.reports(1)))).status_code == 400


async def test_a_report_of_another_task_is_refused(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        original = world.task
        other_salt = {"salt": base64url(b"another salt of thirty-two bytes")}
        world.task = Task.from_canonical(original.model_copy(update=other_salt).canonical())
        await world.register(0)
        (report,) = world.reports(1)
        body = await world.body(0, [report])
        answer = await world.post(0, body, original.task_id)
        assert failures(answer.content) == ["invalid_message"]
        assert failures((await world.post(0, body)).content) == []


async def test_a_repeated_report_is_stored_once(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        (report,) = world.reports(1)
        for _ in range(2):
            assert (await world.upload(0, [report] * 4)).failures == ()
        assert world.apps[0].node.store.num_reports(1) == 1
        assert world.apps[0].node.store.report_ids(1) == [report.report_id]


async def test_a_reports_time_must_lie_in_the_window(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        for time, expected in [
            (world.task.not_before - 1, ["report_too_early"]),
            (world.task.not_before, []),
            (world.task.not_after - 1, []),
            (world.task.not_after, ["report_too_late"]),
        ]:
            answer = await world.upload(0, world.reports(1, f"at {time}", time=time))
            assert [failure.type for failure in answer.failures] == expected


async def test_the_servers_clock_must_lie_in_the_window_too_give_or_take_a_unit(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        reports = world.reports(5)
        unit = world.task.time_precision
        for index, (seconds, expected) in enumerate(
            [
                ((world.task.not_before - 1) * unit - 1, ["task_not_started"]),
                ((world.task.not_before - 1) * unit, []),
                ((world.task.not_after + 1) * unit - 1, []),
                ((world.task.not_after + 1) * unit, ["task_ended"]),
            ]
        ):
            world.clock.seconds = seconds
            answer = await world.upload(0, [reports[index]])
            assert [failure.type for failure in answer.failures] == expected
        # What is stored stays acknowledged, whatever the clock says.
        assert (await world.upload(0, [reports[1]])).failures == ()


async def test_a_closed_batch_takes_nothing_new_and_still_acknowledges_the_old(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        reports = world.reports(13)
        await world.upload_everywhere(reports[:12])
        await world.close_batch(0)
        answer = await world.upload(0, reports)
        assert [(failure.report_id, failure.type) for failure in answer.failures] == [
            (text(reports[12]), "batch_closed")
        ]
        assert answer.receipt.message.count == 12
        assert len(await world.ids(0)) == 12


async def test_a_flood_cannot_push_the_batch_beyond_what_may_be_released(tmp_path: Path) -> None:
    async with a_world(tmp_path, max_clients=14) as world:
        answer = await world.upload(0, world.reports(20))
        assert [failure.type for failure in answer.failures] == ["batch_closed"] * 6
        assert world.apps[0].node.store.num_reports(1) == 14


# --- analyzers ------------------------------------------------------------------------------------------------


async def test_a_batch_too_small_to_release_is_not_closed_and_loses_nothing(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        await world.upload_everywhere(world.reports(11))
        answer = await world.close_batch(0)
        assert (answer.status_code, token(answer)) == (409, "cohort_too_small")
        assert "fewer than 12 reports" in answer.json()["detail"]
        await world.upload_everywhere(world.reports(12))
        assert (await world.close_batch(0)).status_code == 200


async def test_a_cohort_too_small_is_not_frozen_and_the_answer_says_how_many_are_missing(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        reports = world.reports(14)
        await world.upload(0, reports[:13])
        await world.upload(1, reports)
        await world.upload(2, reports[2:])
        request = await world.cohort_request(0)
        answer = await world.freeze(0, request)
        assert (answer.status_code, token(answer)) == (409, "cohort_too_small")
        assert "11 of at least 12 reports are at every server; 1 more are needed" in answer.json()["detail"]
        assert world.apps[0].node.store.batch(1).state == "closed"


async def test_a_server_that_loses_too_many_reports_stops_the_release(tmp_path: Path) -> None:
    async with a_world(tmp_path, tokens=True) as world:
        reports = world.reports(17)
        await world.upload(0, reports)
        await world.upload(1, reports[:12])
        await world.upload(2, reports)
        answer = await world.freeze(0)
        assert (answer.status_code, token(answer)) == (409, "too_many_missing")
        assert "5 of 17" in answer.json()["detail"]


def forged_inventory(world: World, server: int, report_ids: Sequence[bytes]) -> Signed[Inventory]:
    """Return what a corrupt server would sign for a list of its choice."""
    inventory = inventory_of(world.task, 0, server, ReportIds.of(report_ids), bytes(32), 0, 1)
    return sign(world.apps[server].node.identity, inventory)


def corrupt_request(
    world: World, own: Signed[Inventory], ids: Sequence[bytes], claimed: Sequence[bytes]
) -> CohortRequest:
    """Return a cohort request in which servers 1 and 2 pretend to hold the reports `claimed`."""
    inventories = (own, *(forged_inventory(world, server, claimed) for server in (1, 2)))
    differences = tuple(Difference.between(server, ReportIds.of(ids), ReportIds.of(claimed)) for server in (1, 2))
    return CohortRequest(inventories=inventories, differences=differences)


async def honest_side(world: World, count: int) -> tuple[Signed[Inventory], ReportIds]:
    await world.upload_everywhere(world.reports(count))
    own = Signed[Inventory].from_canonical((await world.close_batch(HONEST)).content)
    return own, await world.ids(HONEST)


async def test_a_second_cohort_that_differs_by_one_report_is_not_frozen(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        own, ids = await honest_side(world, 14)
        assert (await world.freeze(HONEST, corrupt_request(world, own, ids, ids))).status_code == 200
        second = await world.freeze(HONEST, corrupt_request(world, own, ids, ids[1:]))
        assert (second.status_code, token(second)) == (409, "cohort_conflict")


def corrupt_cohorts(world: World, frozen: Signed[Cohort]) -> AggregateRequest:
    """Return the honest server's cohort with matching ones of corrupt servers 1 and 2."""
    others = (
        sign(
            world.apps[server].node.identity,
            frozen.message.model_copy(update={"server": server, "nonce": base64url(bytes(32))}),
        )
        for server in (1, 2)
    )
    return AggregateRequest(cohorts=(frozen, *others))


def forget_the_release(world: World) -> None:
    """Switch off "once": put the honest server's batch back to where it was when it had closed, journal and all."""
    node = world.apps[HONEST].node
    node._parts.journal._of.clear()
    history = node.store.history.batches[1]
    history.line = next(line for line in node._parts.journal.lines if line.state == "closed")
    for name in ("cohort", "inventories", "missing", "request_hash", "aggregate", "released_at"):
        history.expected.pop(name, None)
    with world.apps[HONEST].node.database.writing() as connection:
        emptied = "cohort=NULL, inventories=NULL, missing=NULL, request_hash=NULL, aggregate=NULL, released_at=NULL"
        connection.exec_driver_sql(f"UPDATE batches SET state='closed', {emptied}")


async def test_without_the_rule_two_cohorts_that_differ_by_one_report_show_that_report(tmp_path: Path) -> None:
    # With `sum` the difference of two releases is exactly the report left out: its row with one client's noise.
    # Shares that are kept a while can be added up again; without retention their key is gone by then.
    kept = {"retention": 604_800}
    async with a_world(tmp_path, "sum", change=lambda task: task.model_copy(update=kept)) as world:
        own, ids = await honest_side(world, 14)
        sums = []
        for claimed in (ids, ids[1:]):
            frozen = await world.freeze(HONEST, corrupt_request(world, own, ids, claimed))
            assert frozen.status_code == 200, frozen.text
            request = corrupt_cohorts(world, Signed[Cohort].from_canonical(frozen.content))
            answer = await world.release(HONEST, request)
            assert answer.status_code == 200, answer.text
            sums.append(world.opened(HONEST, answer.content)[1])
            forget_the_release(world)
        victim = next(report for report in world.reports(14) if report.report_id == ids[0])
        # The corrupt servers know their shares of the victim; the honest server just gave away the last one.
        last = sums[0] - sums[1]
        others = [np.frombuffer(victim.shares[server][33:], "<u8") for server in (1, 2)]
        shown = from_ring(combine(np.stack([last[0], *others])))
        shares = [np.frombuffer(share[33:], "<u8") for share in victim.shares]
        assert_array_equal(shown, from_ring(combine(np.stack(shares))))


async def test_there_is_no_second_release_under_another_seed(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        own, ids = await honest_side(world, 14)
        frozen = await world.freeze(HONEST, corrupt_request(world, own, ids, ids))
        cohort = Signed[Cohort].from_canonical(frozen.content)
        request = corrupt_cohorts(world, cohort)
        first = await world.release(HONEST, request)
        assert first.status_code == 200
        other = request.cohorts[1].message.model_copy(update={"nonce": base64url(b"1" * 32)})
        signed = sign(world.apps[1].node.identity, other)
        second = await world.release(HONEST, AggregateRequest(cohorts=(cohort, signed, request.cohorts[2])))
        assert (second.status_code, token(second)) == (409, "already_released")
        assert (await world.release(HONEST, request)).content == first.content


async def test_a_nonce_that_was_not_committed_to_is_refused(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        own, ids = await honest_side(world, 14)
        frozen = await world.freeze(HONEST, corrupt_request(world, own, ids, ids))
        request = corrupt_cohorts(world, Signed[Cohort].from_canonical(frozen.content))
        other = request.cohorts[1].message.model_copy(update={"nonce": base64url(b"1" * 32)})
        signed = sign(world.apps[1].node.identity, other)
        answer = await world.release(HONEST, AggregateRequest(cohorts=(request.cohorts[0], signed, request.cohorts[2])))
        assert (answer.status_code, token(answer)) == (409, "nonce_mismatch")
        assert world.apps[HONEST].node.store.batch(1).state == "frozen"


async def test_without_that_rule_the_last_server_chooses_the_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def believe(task: object, batch: int, cohorts: tuple[Signed[Cohort], ...], inventories: object) -> Cohort:
        return cohorts[0].message

    monkeypatch.setattr(gate, "verify_cohorts", believe)
    async with a_world(tmp_path) as world:
        own, ids = await honest_side(world, 14)
        frozen = await world.freeze(HONEST, corrupt_request(world, own, ids, ids))
        request = corrupt_cohorts(world, Signed[Cohort].from_canonical(frozen.content))

        def seed(nonce: bytes) -> bytes:
            nonces = [parse_base64url(request.cohorts[0].message.nonce), nonce, bytes(32)]
            return rules.late_seed(world.task, 0, ids.root, nonces)

        wished = next(nonce for nonce in (n.to_bytes(32, "big") for n in range(9999)) if seed(nonce)[0] == 0)
        other = request.cohorts[1].message.model_copy(update={"nonce": base64url(wished)})
        signed = sign(world.apps[1].node.identity, other)
        answer = await world.release(HONEST, AggregateRequest(cohorts=(request.cohorts[0], signed, request.cohorts[2])))
        record, _ = world.opened(HONEST, answer.content)
        assert parse_base64url(record.seed) == seed(wished)


async def test_servers_that_were_shown_different_cohorts_release_nothing(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        await world.upload_everywhere(world.reports(14))
        real = await world.inventories()
        ids = await world.ids(0)
        # Server 2 is corrupt: it signs one list for server 0 and another one for server 1.
        views = []
        for server, claimed in ((0, ids), (1, ids[1:])):
            forged = forged_inventory(world, 2, claimed)
            lists = [ids, ids, claimed]
            request = await world.cohort_request(server, (real[0], real[1], forged), lists)
            answer = await world.freeze(server, request)
            assert answer.status_code == 200, answer.text
            views.append(Signed[Cohort].from_canonical(answer.content))
        third = views[0].message.model_copy(update={"server": 2, "nonce": base64url(bytes(32))})
        cohorts = (*views, sign(world.apps[2].node.identity, third))
        for server in (0, 1):
            answer = await world.release(server, AggregateRequest(cohorts=cohorts))
            assert (answer.status_code, token(answer)) == (409, "cohort_conflict")
            assert world.apps[server].node.store.batch(1).aggregate is None


def with_difference(request: CohortRequest, field: str) -> CohortRequest:
    """Claim that server 2's list differs by a report that nobody has."""
    unknown = base64url({"extra": bytes(32), "missing": encode_positions(np.array([10**6]))}[field])
    other = request.differences[1].model_copy(update={field: unknown})
    return request.model_copy(update={"differences": (request.differences[0], other)})


def with_another_own_inventory(world: World, request: CohortRequest) -> CohortRequest:
    """Show the honest server an inventory with its own signature that it did not give out."""
    nonce = base64url(nonce_commitment(world.task, 0, bytes(32)))
    other = request.inventories[0].message.model_copy(update={"nonce_commitment": nonce})
    inventories = (sign(world.apps[0].node.identity, other), *request.inventories[1:])
    return request.model_copy(update={"inventories": inventories})


@pytest.mark.parametrize(
    ("change", "status", "kind"),
    [
        (lambda w, r: r.model_copy(update={"inventories": r.inventories[:2]}), 400, "invalid_message"),
        (lambda w, r: r.model_copy(update={"differences": r.differences[:1]}), 400, "invalid_message"),
        (lambda w, r: r.model_copy(update={"differences": r.differences[::-1]}), 400, "invalid_message"),
        (
            lambda w, r: r.model_copy(update={"inventories": (r.inventories[0], r.inventories[2], r.inventories[1])}),
            401,
            "unauthorized",
        ),
        (
            lambda w, r: r.model_copy(
                update={"inventories": (*r.inventories[:2], sign(STRANGER, r.inventories[2].message))}
            ),
            401,
            "unauthorized",
        ),
        (lambda w, r: with_difference(r, "extra"), 409, "inventory_mismatch"),
        (lambda w, r: with_difference(r, "missing"), 409, "inventory_mismatch"),
        (lambda w, r: with_another_own_inventory(w, r), 409, "inventory_mismatch"),
    ],
)
@pytest.mark.grid(6)
async def test_inventories_and_lists_that_do_not_fit_freeze_nothing(
    tmp_path: Path, change: Callable[[World, CohortRequest], CohortRequest], status: int, kind: str
) -> None:
    async with a_world(tmp_path) as world:
        await world.upload_everywhere(world.reports(12))
        request = await world.cohort_request(0)
        answer = await world.freeze(0, change(world, request))
        assert (answer.status_code, token(answer)) == (status, kind)
        assert world.apps[0].node.store.batch(1).state == "closed"
        assert (await world.freeze(0, request)).status_code == 200


@pytest.mark.parametrize(
    ("change", "status", "kind"),
    [
        (lambda w, c: c[:2], 400, "invalid_message"),
        (lambda w, c: (c[0], c[2], c[1]), 401, "unauthorized"),
        (lambda w, c: (c[0], c[1], sign(STRANGER, c[2].message)), 401, "unauthorized"),
        (lambda w, c: (c[1], c[1], c[2]), 409, "cohort_conflict"),
        (
            lambda w, c: (c[0], c[1], sign(w.apps[2].node.identity, c[2].message.model_copy(update={"count": 13}))),
            409,
            "cohort_conflict",
        ),
    ],
)
@pytest.mark.grid(6)
async def test_cohorts_that_do_not_fit_release_nothing(
    tmp_path: Path,
    change: Callable[[World, tuple[Signed[Cohort], ...]], tuple[Signed[Cohort], ...]],
    status: int,
    kind: str,
) -> None:
    async with a_world(tmp_path) as world:
        await world.upload_everywhere(world.reports(12))
        request = await world.aggregate_request()
        answer = await world.release(0, AggregateRequest(cohorts=change(world, request.cohorts)))
        assert (answer.status_code, token(answer)) == (status, kind)
        assert world.apps[0].node.store.batch(1).aggregate is None
        assert (await world.release(0, request)).status_code == 200


async def test_a_disk_without_its_root_key_shows_no_share_and_no_key(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        reports = world.reports(3)
        await world.upload(0, reports)
        disk = b"".join(path.read_bytes() for path in (tmp_path / "server0").glob("lintra.sqlite*"))
        keys = world.apps[0].node.keys.active().values()
        for secret in [report.shares[0][33:] for report in reports] + [key.private_bytes for key in keys]:
            assert secret[:16] not in disk
        assert reports[0].report_id in disk
        assert domain_hash("not there") not in disk
