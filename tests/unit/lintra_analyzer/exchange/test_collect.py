"""What servers may answer and the analyzer must not believe."""

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import cast

import httpx2
import pytest
from numpy.testing import assert_array_equal

from lintra_analyzer.exchange.collect import ServerExchange
from lintra_analyzer.exchange.servers import Server
from lintra_analyzer.storage.rows import DocumentKind
from lintra_analyzer.storage.store import Store
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.encoding.canonical import base64url, domain_hash
from lintra_protocol.encoding.documents import Frozen
from lintra_protocol.errors import InventoryMismatchError, LintraError, NonceMismatchError
from lintra_protocol.messages.documents import Cohort, Inventory, Signed, SketchShareRecord, inventory_of, sign
from lintra_protocol.report.wire import decode_sealed_document, encode_sealed_document
from lintra_protocol.task import Task
from support import identity, make_task, nonce, signed_cohorts, signed_inventories
from support.analyzer_world import Answer, Life, seeded, server_url
from support.measured import measurement_of

LIAR = 1
Lie = Callable[[bytes, SigningKey], bytes]


def change(message: Frozen, **values: object) -> Frozen:
    return type(message).model_validate(dict(message) | values)


def lie_about_inventory(**values: object) -> Lie:
    def lie(body: bytes, key: SigningKey) -> bytes:
        return sign(key, change(Signed[Inventory].from_canonical(body).message, **values)).canonical()  # type: ignore[type-var]

    return lie


def lie_about_cohort(**values: object) -> Lie:
    def lie(body: bytes, key: SigningKey) -> bytes:
        return sign(key, change(Signed[Cohort].from_canonical(body).message, **values)).canonical()  # type: ignore[type-var]

    return lie


def lie_about_share(**values: object) -> Lie:
    def lie(body: bytes, key: SigningKey) -> bytes:
        document, sealed = decode_sealed_document(body)
        record = change(Signed[SketchShareRecord].from_canonical(document).message, **values)
        return encode_sealed_document(sign(key, record).canonical(), sealed)  # type: ignore[type-var]

    return lie


def other_ciphertext(body: bytes, _key: SigningKey) -> bytes:
    return body[:-1] + bytes([body[-1] ^ 1])


def other_ciphertext_signed(body: bytes, key: SigningKey) -> bytes:
    document, sealed = decode_sealed_document(body)
    sealed = sealed[:-1] + bytes([sealed[-1] ^ 1])
    record = Signed[SketchShareRecord].from_canonical(document).message
    named = change(record, sealed=base64url(domain_hash("sealed sketch share", sealed)))
    return encode_sealed_document(sign(key, named).canonical(), sealed)  # type: ignore[type-var]


def other_signature(body: bytes, _key: SigningKey) -> bytes:
    signed = json.loads(body)
    stranger = sign(SigningKey.generate(seeded("stranger")), Signed[Cohort].from_canonical(body).message)
    return json.dumps(signed | {"signature": stranger.signature}, sort_keys=True, separators=(",", ":")).encode()


ELSE = base64url(bytes(32))
TASK = make_task(max_clients=20, max_missing="0.2")
IDS = ReportIds.of(bytes([number]) * 32 for number in range(8))


class _Says:
    """Server 1, which answers alike whatever it is asked."""

    index = LIAR

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def ask(self, *_asked: object, **_more: object) -> bytes:
        return self._body

    def blame(self) -> AbstractContextManager[None]:
        return nullcontext()


class _Keeping(ServerExchange):
    """An exchange that remembers which answers it took, and nothing else."""

    def __init__(self, store: Store) -> None:
        super().__init__(TASK, 0, [], store)
        self.kept: list[DocumentKind] = []

    async def _keep(self, kind: DocumentKind, body: bytes, server: int) -> None:
        del body, server
        self.kept.append(kind)


INVENTORY_LIES: list[tuple[Lie, str]] = [
    (lie_about_inventory(root=ELSE), "inventory_mismatch"),
    (lie_about_inventory(count=23), "message_too_large"),
    (lie_about_inventory(count=2**40), "inventory_mismatch"),
    (lie_about_inventory(server=0), "inventory_mismatch"),
    (lie_about_inventory(task_id=ELSE), "inventory_mismatch"),
    (lambda body, _: body[:-2], "invalid_message"),
]
LATER_LIES: dict[str, list[tuple[Lie, str]]] = {
    "ids": [
        (lambda body, _: body[32:], "inventory_mismatch"),
        (lambda body, _: body[:-1], "invalid_message"),
        (lambda body, _: body + bytes(32), "message_too_large"),
        (lambda body, _: body[32:64] + body[:32] + body[64:], "invalid_message"),
    ],
    "cohort": [
        (lie_about_cohort(root=ELSE), "cohort_conflict"),
        (lie_about_cohort(count=23), "cohort_conflict"),
        (lie_about_cohort(inventories=ELSE), "cohort_conflict"),
        (lie_about_cohort(nonce=ELSE), "nonce_mismatch"),
        (other_signature, "unauthorized"),
    ],
    "aggregate": [
        (lie_about_share(seed=ELSE), "invalid_release"),
        (lie_about_share(cohort_root=ELSE), "invalid_release"),
        (lie_about_share(num_clients=23), "invalid_release"),
        (lie_about_share(rows=3), "invalid_release"),
        (lie_about_share(server=0), "invalid_release"),
        (other_ciphertext, "invalid_release"),
        (other_ciphertext_signed, "invalid_release"),
        (lambda body, _: body[:3], "invalid_release"),
        (lambda body, _: body + bytes(9 << 20), "message_too_large"),
    ],
}


def lying(life: Life, where: str, lie: Lie) -> None:
    def fault(server: int, request: httpx2.Request, answer: Answer) -> Answer:
        status, headers, body = answer
        if server == LIAR and status == 200 and request.url.path.endswith(f"/{where}"):
            return status, headers, lie(body, life.servers[server].node.identity)
        return answer

    life.wires.fault = fault


async def refusal(life: Life, task: Task) -> tuple[str, str]:
    """Run a job until it is refused, and return the kind and the detail of the problem."""
    life.service.start_release(task.task_id)
    await life.service.jobs.finished(task.task_id)
    job = life.service.job(task.task_id)
    assert job.problem is not None, job
    return str(job.problem["type"]).removeprefix("urn:lintra:problem:"), str(job.problem["detail"])


@pytest.mark.parametrize(("lie", "token"), INVENTORY_LIES)
@pytest.mark.grid(2)
async def test_a_false_inventory_is_refused_by_name(life: Life, lie: Lie, token: str) -> None:
    task = await life.create("sum")
    await life.upload(task, 24)
    lying(life, "inventory", lie)
    kind, detail = await refusal(life, task)
    assert kind == token
    assert f"server {LIAR}" in detail
    assert life.service.job(task.task_id).state == "failed"


@pytest.mark.parametrize("where", LATER_LIES)
@pytest.mark.grid(4)
async def test_a_lie_is_refused_by_name_and_the_truth_is_taken_later(life: Life, where: str) -> None:
    task = await life.create("osnap")
    await life.upload(task)
    if where == "ids":  # a list that another server signed for, too, is not asked for again
        await life.upload(task, 1, servers=(LIAR,), label="only here")
    for lie, token in LATER_LIES[where]:
        lying(life, where, lie)
        kind, detail = await refusal(life, task)
        assert kind == token
        assert f"server {LIAR}" in detail
        assert life.service.job(task.task_id).state == "failed"
    life.wires.fault = None
    record = life.service.record(await life.release(task)).record
    sketch, _ = life.service.archive.read(record)
    assert_array_equal(measurement_of(task, 3).decode(sketch), life.ideal(task).values)


async def test_an_answer_that_is_none_is_refused(life: Life) -> None:
    problem = "application/problem+json"
    answers = [
        ((200, "application/json", b"{}"), "unsupported_media_type"),
        ((500, "text/html", b"<html>"), "invalid_message"),
        ((503, "text/html", b"<html>"), "unavailable"),
        ((401, "text/html", b"<html>"), "unauthorized"),
        ((400, problem, b"{"), "invalid_message"),
        ((400, problem, b"[]"), "invalid_message"),
        ((404, problem, b'{"type":"urn:lintra:problem:surprise","title":"Oh."}'), "refused"),
        ((410, problem, b'{"type":"urn:lintra:problem:abandoned","detail":"x"}'), "abandoned"),
        ((307, "text/plain", b""), "invalid_message"),
    ]
    task = await life.create()
    await life.upload(task)
    for (status, content_type, body), token in answers:
        answer = (status, {"content-type": content_type}, body)
        life.wires.fault = lambda _server, _request, _answer, answer=answer: answer  # type: ignore[misc]
        assert (await refusal(life, task))[0] == token
    life.wires.fault = None
    assert await life.release(task)


# --- each rule alone, without what would be noticed later ------------------------------------------------------


@pytest.mark.parametrize(("count", "allowed"), [(25, True), (26, False), (2**40, False)])
async def test_an_inventory_larger_than_the_task_allows_stops_the_exchange(
    life: Life, count: int, allowed: bool
) -> None:
    """Of 26 reports more than a fifth would be missing from the largest cohort, of 20."""
    honest = inventory_of(TASK, 0, LIAR, IDS, nonce(LIAR), 2, 1)
    signed = sign(identity(f"server {LIAR}"), honest.model_copy(update={"count": count}))
    exchange, server = _Keeping(life.service.store), cast("Server", _Says(signed.canonical()))
    if allowed:
        await exchange._close_one(server, None)
        assert exchange.kept == ["inventory"]
    else:
        with pytest.raises(InventoryMismatchError, match=f"{count} reports are more than this task can release"):
            await exchange._close_one(server, None)
        assert exchange.kept == []


async def test_a_nonce_that_was_not_committed_to_stops_the_exchange(life: Life) -> None:
    lists = [IDS] * 3
    inventories = signed_inventories(TASK, lists)
    cohort = signed_cohorts(TASK, lists, inventories)[LIAR].message
    exchange = _Keeping(life.service.store)

    def check(said: Cohort) -> Cohort:
        body = sign(identity(f"server {LIAR}"), said).canonical()
        return exchange._check_cohort(LIAR, body, inventories, base64url(IDS.root), len(IDS))

    assert check(cohort) == cohort
    # Also that of another server, to which the inventory of that one commits.
    for wrong in (base64url(nonce(0)), ELSE):
        with pytest.raises(NonceMismatchError):
            check(cohort.model_copy(update={"nonce": wrong}))


@pytest.mark.parametrize("more", [-1, 1])
async def test_an_inventory_with_another_count_than_its_roots_stops_the_exchange(life: Life, more: int) -> None:
    """Also if a list of that root is here already, from another server or an earlier count."""
    folder = life.service.store.lists.files
    await asyncio.to_thread(folder.write, IDS)
    root = base64url(IDS.root)
    life.wires.fault = lambda _server, _request, _answer: (400, {"content-type": "text/plain"}, b"asked")
    server = Server(life.service._network, LIAR, server_url(LIAR))
    assert await server.fetch_list("/ids", folder, len(IDS), root, "another list") == IDS
    assert life.wires.log == []
    with pytest.raises(LintraError):
        await server.fetch_list("/ids", folder, len(IDS) + more, root, "another list")
    assert len(life.wires.log) == 1
