"""What strangers may try: authors whose promises are worth nothing, and clients that nobody knows.

Each attack stands here twice: with its rule on it is refused and nothing is lost, with the rule off it works.
"""

from decimal import Decimal
from pathlib import Path

import httpx2
import pytest

from lintra_client import ClientPolicy as ClientPolicy
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.sealing import seal
from lintra_protocol.crypto.tokens import PASS_BYTES, Token, derived_keys, key_context, make_token
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import InventoryMismatchError, PolicyRefusedError, TokenInvalidError
from lintra_protocol.fields.schema import Column
from lintra_protocol.http.requests import media_type
from lintra_protocol.messages.documents import Census, Inventory, Signed, TaskRecord, UploadAnswer, inventory_of, sign
from lintra_protocol.privacy.statement import Claim, PrivacyStatement
from lintra_protocol.rules import release as rules
from lintra_protocol.rules.release import verify_census
from lintra_protocol.task import Task
from lintra_server.batches import gate, registry
from lintra_server.batches.intake import screening
from lintra_server.settings import RegistrationPolicy
from support import make_task
from support.server_world import AUTHOR, POLICY, PRECISION, World, a_world, new_world, seeded, token


def failures(answer: httpx2.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [failure.type for failure in UploadAnswer.from_canonical(answer.content).failures]


def replaced(**changes: object) -> RegistrationPolicy:
    return POLICY.model_copy(update=changes)


# --- a promise that is worth nothing --------------------------------------------------------------------------

WORTHLESS = Claim(epsilon="0.1", delta="0.99999999999999", min_clients=12)
"""Two rows are 14 deviations of this promise's noise apart: every client's row shows through."""


async def test_a_small_epsilon_beside_a_delta_near_one_is_refused_by_server_and_client(tmp_path: Path) -> None:
    world = new_world(tmp_path, "sum", claim=WORTHLESS, policy=replaced(max_epsilon=Decimal("0.1")))
    try:
        refused = await world.register(0)
        assert (refused.status_code, token(refused)) == (403, "policy_refused")
        assert "is more than 0.0001" in refused.text
    finally:
        world.close()
    with pytest.raises(PolicyRefusedError):
        ClientPolicy(max_epsilon=0.1).require(make_task("sum", claim=WORTHLESS))
    # A judge who takes every delta compares epsilon at its own all the same.
    with pytest.raises(PolicyRefusedError, match=r"epsilon is \S+ at delta 1e-06"):
        ClientPolicy(max_epsilon=0.1, max_delta=1.0).require(make_task("sum", claim=WORTHLESS))


async def test_attack_without_a_delta_of_its_own_a_judge_accepts_a_promise_that_is_worth_nothing(
    tmp_path: Path,
) -> None:
    blind = replaced(max_epsilon=Decimal("0.1"), max_delta=Decimal("0.999999999999999"), delta=Decimal(WORTHLESS.delta))
    async with a_world(tmp_path, "sum", claim=WORTHLESS, policy=blind) as world:
        assert world.task.worst_privacy().epsilon_at(1e-6) > 100


# --- texts of strangers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a\x1b[2J", "line\nline", "left\u202eright", "\u2066", "\x7f"])
def test_texts_that_could_steer_a_terminal_or_a_reader_are_no_purpose_name_or_unit(text: str) -> None:
    with pytest.raises(ValueError, match="printable"):
        make_task(purpose=text)
    for field in ({"name": text}, {"name": "a", "unit": text}):
        with pytest.raises(ValueError, match=r"printable|pattern"):
            Column(lower="0", upper="1", **field)


# --- reports of nobody ----------------------------------------------------------------------------------------


async def orphaned(world: World, count: int) -> None:
    """Send honest reports everywhere, and others to one server only."""
    await world.upload_everywhere(world.reports(12))
    await world.upload(0, world.reports(count, "orphan"))


async def test_reports_at_one_server_only_are_left_out_and_the_batch_is_released(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        await orphaned(world, 40)
        request = await world.aggregate_request()
        assert request.cohorts[0].message.count == 12
        assert (await world.release(0, request)).status_code == 200


async def test_attack_counting_them_against_the_batch_loses_it_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counted(task: Task, num_clients: int, num_own: int) -> PrivacyStatement:
        return rules.check_cohort(task.model_copy(update={"client_auth": "token"}), num_clients, num_own)

    monkeypatch.setattr(gate, "check_cohort", counted)
    async with a_world(tmp_path) as world:
        await orphaned(world, 40)
        answer = await world.freeze(0)
        assert (answer.status_code, token(answer)) == (409, "too_many_missing")
        # Closed for good: no report can be added that would mend it.
        assert world.apps[0].node.store.batch(1).state == "closed"


# --- places ---------------------------------------------------------------------------------------------------


async def test_strangers_cannot_take_places_and_are_refused_before_their_reports_are_read(tmp_path: Path) -> None:
    async with a_world(tmp_path, tokens=True, max_clients=20) as world:
        junk = await world.body(0, world.reports(20, "junk"), [forged(world, index) for index in range(20)])
        answer = await world.post(0, junk)
        assert (answer.status_code, token(answer)) == (403, "token_invalid")
        # A head with such tokens is enough: the rest never needs to arrive.
        with pytest.raises(TokenInvalidError):
            screening(world.apps[0].node.registry.find(world.task.task_id))(junk[: 2 + 20 * PASS_BYTES])  # type: ignore[misc]
        await world.upload_everywhere(world.reports(20))
        assert world.apps[0].node.store.num_reports(1) == 20


async def test_attack_without_tokens_junk_fills_the_task(tmp_path: Path) -> None:
    async with a_world(tmp_path, max_clients=20) as world:
        await world.upload(0, world.reports(20, "junk"))
        refused = (await world.upload(0, world.reports(1))).failures
        assert [failure.type for failure in refused] == ["batch_closed"]


async def test_an_open_task_needs_the_operators_word(tmp_path: Path) -> None:
    world = new_world(tmp_path, policy=replaced(open=False))
    try:
        refused = await world.register(0)
        assert (refused.status_code, token(refused)) == (403, "policy_refused")
        assert "does not take open tasks" in refused.text
    finally:
        world.close()


async def test_nobodys_tasks_are_taken_by_default(tmp_path: Path) -> None:
    world = new_world(tmp_path, policy=RegistrationPolicy(open=True))
    try:
        refused = await world.register(0)
        assert (refused.status_code, token(refused)) == (403, "policy_refused")
        assert "this author" in refused.text
    finally:
        world.close()


async def test_one_author_has_a_quota_of_tasks_and_memory_holds_a_few_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MOST_HELD", 2)
    async with a_world(tmp_path, policy=replaced(max_tasks=5)) as world:
        salted = [world.task.model_copy(update={"salt": base64url(bytes([n]) * 32)}) for n in range(5)]
        answers = [await world.register(0, task) for task in salted]
        assert [answer.status_code for answer in answers] == [201] * 4 + [403]
        assert "5 tasks here that have not ended" in answers[-1].text
        assert len(world.apps[0].node.registry._held) == 2
        for task in [world.task, *salted[:4]] * 2:
            assert (await world.http[0].get(f"/v1/tasks/{task.task_id}")).status_code == 200


async def test_attack_without_quotas_tasks_of_strangers_grow_without_end(tmp_path: Path) -> None:
    free = replaced(max_tasks=10**6, max_days=36_500)
    async with a_world(tmp_path, policy=free) as world:
        salted = [world.task.model_copy(update={"salt": base64url(bytes([n]) * 32)}) for n in range(8)]
        assert [(await world.register(0, task)).status_code for task in salted] == [201] * 8


def most_may_be_missing(task: Task) -> Task:
    return task.model_copy(update={"max_missing": "0.99"})


async def test_servers_cannot_be_let_to_leave_out_all_but_a_few(tmp_path: Path) -> None:
    world = new_world(tmp_path, tokens=True, change=most_may_be_missing)
    try:
        refused = await world.register(0)
        assert (refused.status_code, token(refused)) == (403, "policy_refused")
        assert "max_missing 0.99 exceeds 0.5" in refused.text
    finally:
        world.close()


async def test_attack_without_a_bound_others_leave_out_all_but_a_few_reports(tmp_path: Path) -> None:
    free = replaced(max_missing=Decimal("0.99"))
    async with a_world(tmp_path, tokens=True, change=most_may_be_missing, policy=free) as world:
        await world.upload(0, world.reports(60))
        for server in (1, 2):
            await world.upload(server, world.reports(12))
        assert (await world.freeze(0)).status_code == 200


def forged(world: World, index: int) -> Token:
    """Return a token that somebody made up."""
    stranger = derived_keys(b"stranger" * 4, [entry.identity_key for entry in world.task.servers])
    return make_token(stranger, world.task.id_bytes, seeded(f"forged {index}"))


async def test_a_token_is_good_for_one_report_and_for_that_one_again(tmp_path: Path) -> None:
    async with a_world(tmp_path, tokens=True) as world:
        own = [world.token("somebody")]
        first, second = world.reports(2)
        for _ in range(2):
            assert failures(await world.post(0, await world.body(0, [first], own))) == []
        assert failures(await world.post(0, await world.body(0, [second], own))) == ["token_spent"]
        both = await world.body(1, [second, first], own * 2)
        assert failures(await world.post(1, both)) == ["token_spent"]
        # What was lost at one server is completed there, and stays what it was after a restart.
        world.reopen(0)
        assert failures(await world.post(2, await world.body(2, [first], own))) == []
        assert failures(await world.post(0, await world.body(0, [second], own))) == ["token_spent"]
        assert world.apps[0].node.store.report_ids(1) == [first.report_id]


async def test_of_several_reports_only_those_without_a_good_token_are_refused(tmp_path: Path) -> None:
    async with a_world(tmp_path, tokens=True) as world:
        reports = world.reports(3)
        given = [world.token("a"), forged(world, 0), world.token("c")]
        assert failures(await world.post(0, await world.body(0, reports, given))) == ["token_invalid"]
        assert len(world.apps[0].node.store.report_ids(1)) == 2


async def test_a_server_cannot_use_what_it_has_seen_at_another_one(tmp_path: Path) -> None:
    async with a_world(tmp_path, tokens=True) as world:
        seen = world.token("somebody").pass_for(1)
        replayed = Token(seen[:16], (seen[16:],) * 3)
        answer = await world.post(0, await world.body(0, world.reports(1), [replayed]))
        assert (answer.status_code, token(answer)) == (403, "token_invalid")


async def test_who_registers_first_cannot_bring_other_keys(tmp_path: Path) -> None:
    world = new_world(tmp_path, tokens=True)
    try:
        record = sign(AUTHOR, TaskRecord(definition=world.task))
        good = await world.registration(0, world.task, record)
        _, public_key = await world.sealing_key_of(0)
        sealed = seal(bytes(32), world.task.suite, public_key, key_context(world.task.id_bytes, 0))
        for key, kind in ((base64url(sealed), "invalid_task"), ("", "invalid_task"), (good.token_key[:-4], None)):
            wrong = good.model_copy(update={"token_key": key}).canonical()
            path, headers = f"/v1/tasks/{world.task.task_id}", {"content-type": media_type("registration")}
            answer = await world.http[0].put(path, content=wrong, headers=headers)
            assert answer.status_code == 400
            assert kind in {None, token(answer)}
        assert (await world.register(0)).status_code == 201
    finally:
        world.close()


# --- a census -------------------------------------------------------------------------------------------------


async def census(world: World, server: int) -> tuple[Signed[Census], ReportIds]:
    answer = await world.ask(server, "GET", "/batches/0/census")
    assert answer.status_code == 200, answer.text
    listed = await world.ask(server, "GET", "/batches/0/census/ids")
    return Signed[Census].from_canonical(answer.content), ReportIds.parse(listed.content, 1000)


async def test_a_census_changes_nothing_and_stands_still_for_a_time_unit(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        reports = world.reports(14)
        await world.upload(0, reports[:5])
        signed, ids = await census(world, 0)
        assert signed.message.count == 5
        assert ids == sorted(report.report_id for report in reports[:5])
        await world.upload(0, reports[5:])
        assert await census(world, 0) == (signed, ids)
        world.reopen(0)
        assert await census(world, 0) == (signed, ids)
        world.clock.seconds += PRECISION
        later, ids = await census(world, 0)
        assert later.message.count == len(ids) == 14
        assert world.apps[0].node.store.batch(1).state == "open"
        # After closing no new one is made.
        await world.upload(1, reports)
        await world.close_batch(0)
        world.clock.seconds += PRECISION
        assert (await census(world, 0))[0] == later


async def test_a_server_that_hides_a_report_it_has_counted_is_proven_to_lie(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        reports = world.reports(14)
        await world.upload(1, reports)
        signed, counted = await census(world, 1)
        kept = ReportIds.of(counted[1:])
        hidden = inventory_of(world.task, 0, 1, kept, bytes(32), 0, signed.message.start)
        lie = sign(world.apps[1].node.identity, hidden)
        with pytest.raises(InventoryMismatchError, match="signed for 1 reports in its census"):
            verify_census(world.task, signed, counted, lie, kept)
        honest = Signed[Inventory].from_canonical((await world.close_batch(1)).content)
        verify_census(world.task, signed, counted, honest, await world.ids(1))
