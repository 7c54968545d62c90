"""Was my report counted? Real servers prove it, and whatever they could say instead is refused."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import httpx2
import pytest
from typer.testing import CliRunner

from lintra_client import Client, Ledger
from lintra_client.commands import counted as module
from lintra_client.commands.client import app
from lintra_client.counted import Counted, ask_counted
from lintra_client.ledger.ledger import default_path
from lintra_client.sending.connection import Channel
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.encoding.canonical import base64url, canonical_json, parse_base64url
from lintra_protocol.errors import (
    BatchOpenError,
    CohortConflictError,
    InvalidMessageError,
    InventoryMismatchError,
    LintraError,
    UnauthorizedError,
    UnknownResourceError,
)
from lintra_protocol.ideal import client_report
from lintra_protocol.messages.inclusion import Absence, Inclusion, Judged, ShownLeaf
from lintra_protocol.task import Task
from support import identity, make_task
from support.analyzer_world import NOW, Answer, Life, clients, living, server_url
from support.checked_world import hostile, verified
from support.tasks import TRUSTING

SERVERS = [server_url(server) for server in range(3)]
ROW = {"a": 0.1, "b": 0.2, "c": 0.3}
OTHERS = 23


class Says:
    """A server that answers every question alike."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def fetch(self, _path: str, *_names: str) -> bytes:
        return self._body


def client_of(task: Task, way: "_Kept", ledger: Ledger | None = None) -> Client:
    return Client(task.task_id, SERVERS, policy=TRUSTING, ledger=ledger, now=lambda: NOW, transport=way)


@dataclass
class Sent:
    """A task with a report of this client, others, and one that two servers never got."""

    life: Life
    task: Task
    own: str
    lost: str

    def client(self) -> Client:
        return client_of(self.task, _Kept(self.life.wires))


class _Kept(httpx2.AsyncBaseTransport):
    """A way that stays open when a client is closed."""

    def __init__(self, wires: httpx2.AsyncBaseTransport) -> None:
        self._wires = wires

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return await self._wires.handle_async_request(request)


@pytest.fixture
async def sent(tmp_path: Path) -> AsyncIterator[Sent]:
    async with living(tmp_path) as life:
        task = await life.create("sum")
        await life.upload(task, OTHERS)
        await life.upload(task, 1, servers=(0,), label="lost")
        row, rng = clients(1, "lost")[0]
        lost = client_report(task, row, task.span(0)[0], rng).report_id
        with Ledger(default_path(), max_epsilon=9) as ledger:
            way = _Kept(life.wires)
            async with client_of(task, way, ledger) as client:
                receipt = await client.send(ROW, source="me")
        yield Sent(life, task, receipt.report_id, base64url(lost))


async def certificate(sent: Sent) -> str:
    """Release the task, and return what the analyzer publishes."""
    release = await sent.life.release(sent.task)
    async with sent.life.rest() as rest:
        return (await rest.get(f"/v1/releases/{release}")).text


async def test_servers_prove_that_a_report_was_counted_or_that_it_was_not(sent: Sent) -> None:
    async with sent.client() as client:
        with pytest.raises(BatchOpenError):
            await client.counted(sent.own)
        published = await certificate(sent)
        named = json.loads(published)["record"]
        for report_id, included in ((sent.own, True), (sent.lost, False), (base64url(bytes(32)), False)):
            for text in (None, published):
                found = await client.counted(report_id, certificate=text)
                assert (found.report_id, found.included, found.certified) == (report_id, included, text is not None)
                assert (found.num_clients, found.cohort_root) == (OTHERS + 1, named["cohort_root"])
        with pytest.raises(InvalidMessageError):
            await client.counted("AAAA")
        with pytest.raises(LintraError):
            await client.counted(sent.own, batch=1)


async def test_of_a_verified_task_it_is_proved_whether_a_report_was_accepted_or_rejected(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        task = await life.create("sum", verification="norm", max_clients=100)
        reports = [client_report(task, row, task.not_before, rng) for row, rng in clients(24)]
        wrong = hostile(task, 1)
        await life.send(task, [*reports, *wrong])
        client = client_of(task, _Kept(life.wires))
        good, bad, absent = (base64url(own) for own in (reports[0].report_id, wrong[0].report_id, bytes(32)))
        async with client:
            job = life.service.jobs._make(task.task_id, 0)
            for stage in ("inventory", "cohort"):
                with pytest.raises((BatchOpenError, UnknownResourceError)):
                    await client.counted(good)
                await job.take(stage)
            with pytest.raises(BatchOpenError, match="not every server has judged them"):
                await client.counted(good)
            release = await life.release(task)
            async with life.rest() as rest:
                published = (await rest.get(f"/v1/releases/{release}")).text
            frozen = json.loads(published)["record"]["verification"]
            for text in (None, published):
                found = [await client.counted(own, certificate=text) for own in (good, bad, absent)]
                assert [each.included for each in found] == [True, False, False]
                assert [each.rejected for each in found] == [False, True, False]
                assert [each.num_clients for each in found] == [24, 24, 25]
                assert found[2].cohort_root == frozen["frozen_root"] != found[0].cohort_root
                assert all(each.certified is (text is not None) for each in found)
            said = module.in_words(task, bad, found[1])
            assert "was rejected: its check failed" in said

            def accepted_elsewhere(server: int, request: httpx2.Request, answer: Answer) -> Answer:
                status, headers, body = answer
                if server != 1 or "inclusion" not in request.url.path:
                    return answer
                return status, headers, _canonical(json.loads(body) | {"accepted": None, "rejected": None})

            life.wires.fault = accepted_elsewhere
            with pytest.raises(InventoryMismatchError, match="either accepted or rejected"):
                await client.counted(good)


@pytest.mark.slow  # the next one is its quick sibling
async def test_a_server_that_proves_it_of_another_cohort_or_not_at_all_is_found(sent: Sent) -> None:
    published = await certificate(sent)
    told: dict[str, bytes] = {}

    def other(server: int, request: httpx2.Request, answer: Answer) -> Answer:
        status, headers, _ = answer
        if server == 1 and "inclusion" in request.url.path:
            return status, {**headers, "content-type": told["type"].decode()}, told["instead"]
        return answer

    async with sent.client() as client:
        path = f"/v1/tasks/{sent.task.task_id}/batches/0/inclusion/"
        async with httpx2.AsyncClient(transport=_Kept(sent.life.wires), base_url=SERVERS[1]) as http:
            own, lost = await http.get(path + sent.own), await http.get(path + sent.lost)
        alone = {**own.json(), "leaf": 0, "leaf_ids": sent.own, "siblings": [], "count": 1}
        lies: list[tuple[bytes, str, type[LintraError]]] = [
            (lost.content, lost.headers["content-type"], InventoryMismatchError),
            (own.content.replace(b'"count":24', b'"count":23'), own.headers["content-type"], InventoryMismatchError),
            (own.content[:-1], own.headers["content-type"], InvalidMessageError),
            (_canonical(alone), own.headers["content-type"], InventoryMismatchError),
        ]
        for body, kind, error in lies:
            told.update(instead=body, type=kind.encode())
            sent.life.wires.fault = other
            with pytest.raises(error):
                await client.counted(sent.own)
            sent.life.wires.fault = None
        record = json.loads(published)
        for change, wrong in (
            ({"num_clients": 25}, UnauthorizedError),
            ({"cohort_root": base64url(bytes(32))}, UnauthorizedError),
        ):
            changed = json.dumps({**record, "record": record["record"] | change})
            with pytest.raises(wrong):
                await client.counted(sent.own, certificate=changed)
        for text in ("", "[]", "{}", '{"record": {}, "signature": "AA"}', '{"record": {"kind": 1.5}}', "{" * 9999):
            with pytest.raises(InvalidMessageError):
                await client.counted(sent.own, certificate=text)


@pytest.mark.slow
async def test_a_cohort_of_one_that_a_server_made_up_is_not_the_one_of_the_others(sent: Sent) -> None:
    await certificate(sent)
    wanted = parse_base64url(sent.own, 32)
    root = base64url(ReportIds.of([wanted]).root)
    alone = {"kind": "inclusion", "root": root, "count": 1, "leaf": 0, "leaf_ids": sent.own, "siblings": []}

    def alone_at(server: int, request: httpx2.Request, answer: Answer) -> Answer:
        status, headers, body = answer
        return status, headers, _canonical(alone) if server == 2 and "inclusion" in request.url.path else body

    sent.life.wires.fault = alone_at
    async with sent.client() as client:
        with pytest.raises(CohortConflictError, match="different cohorts"):
            await client.counted(sent.own)


async def test_the_command_answers_in_sentences_from_the_ledger(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    real = module.Client
    way = _Kept(sent.life.wires)

    def reached(task_id: str, servers: object, ledger: None) -> Client:
        return real(task_id, SERVERS, policy=TRUSTING, ledger=ledger, now=lambda: NOW, transport=way)

    monkeypatch.setattr(module, "Client", reached)

    async def said(*arguments: str) -> tuple[int, str]:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(module.asyncio, "run", lambda work: asyncio.run_coroutine_threadsafe(work, loop).result())
        command = ["verify-inclusion", sent.task.task_id, *arguments, *(f"--server={name}" for name in SERVERS)]
        result = await asyncio.to_thread(CliRunner().invoke, app, command)
        return result.exit_code, result.output

    code, text = await said()
    assert (code, text.startswith(f"Of report {sent.own} it is not decided yet")) == (75, True), text
    published = await certificate(sent)
    file = default_path().parent / "certificate.json"
    file.write_text(published)
    code, text = await said("--source", "me", "--certificate", str(file))
    assert code == 0
    assert text.startswith(f"Report {sent.own} was counted. All 3 servers proved that it is one of the 24 reports ")
    assert text.endswith("of the release that the certificate describes.\n")
    code, text = await said(sent.own, sent.lost)
    assert code == 1
    assert f"Report {sent.own} was counted." in text
    assert f"Report {sent.lost} was not counted. All 3 servers proved that it is not among the 24 reports" in text
    code, text = await said("--source", "somebody else")
    assert (code, "the ledger knows no such report" in text) == (1, True)
    code, text = await said("--json")
    (found,) = json.loads(text)["reports"]
    assert (found["report_id"], found["included"], found["num_clients"]) == (sent.own, True, 24)


VERIFIED = verified(make_task("sum", min_clients=4, max_clients=100, check=False))
IDS = [bytes([number]) * 32 for number in range(1, 9)]
FROZEN, ACCEPTED, OTHER = ReportIds.of(IDS), ReportIds.of(IDS[:5]), ReportIds.of(IDS[:4])


def judged(report_id: bytes, *, kept: bool | None, turned_down: bool | None = None) -> bytes:
    """Return what every server says of a report of 8 frozen and 5 accepted ones."""
    (frozen,) = FROZEN.prove(report_id, FROZEN.tree)
    own = _of(FROZEN, ACCEPTED)
    inclusion = Inclusion(root=own["frozen_root"], count=8, **dict(ShownLeaf.of_proof(frozen)))
    proofs = ACCEPTED.prove(report_id, ACCEPTED.tree)
    shown = Inclusion(root=own["root"], count=5, **dict(ShownLeaf.of_proof(proofs[0])))
    absence = Absence(root=own["root"], count=5, leaves=tuple(map(ShownLeaf.of_proof, proofs)))
    turned_down = not kept if turned_down is None else turned_down
    return Judged(
        frozen=inclusion, accepted=shown if kept else None, rejected=absence if turned_down else None
    ).canonical()  # fmt: skip


def _of(frozen: ReportIds, accepted: ReportIds) -> dict[str, str]:
    return {"frozen_root": base64url(frozen.root), "root": base64url(accepted.root)}


def certificate_of(frozen: ReportIds, accepted: ReportIds) -> str:
    """Return what the task's analyzer signs of a release."""
    roots = _of(frozen, accepted)
    record = {
        "kind": "release", "task_id": VERIFIED.task_id, "batch": 0,
        "cohort_root": roots["root"], "num_clients": len(accepted),
        "verification": {"frozen_root": roots["frozen_root"], "frozen": len(frozen)},
    }  # fmt: skip
    signature = identity("analyzer").sign("release", canonical_json(record))
    return json.dumps({"record": record, "signature": signature})


async def asked(report_id: bytes, body: bytes, certificate: str | None) -> Counted:
    servers = cast("list[Channel]", [Says(body)] * 3)
    return await ask_counted(VERIFIED, servers, base64url(report_id), 0, certificate)


@pytest.mark.parametrize("included", [True, False])
async def test_a_certificate_that_names_another_accepted_cohort_is_refused(included: bool) -> None:
    own = IDS[0] if included else IDS[6]
    body = judged(own, kept=included)
    found = await asked(own, body, certificate_of(FROZEN, ACCEPTED))
    assert (found.included, found.rejected, found.certified, found.num_clients) == (included, not included, True, 5)
    # The same cohort was frozen, or the same one accepted, but the release is not of what the servers show.
    for frozen, accepted in ((FROZEN, OTHER), (OTHER, ACCEPTED), (FROZEN, FROZEN)):
        with pytest.raises(CohortConflictError, match="certificate is of another cohort"):
            await asked(own, body, certificate_of(frozen, accepted))


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("own", [IDS[0], IDS[6]])
async def test_an_answer_has_exactly_one_of_accepted_and_rejected(own: bytes, both: bool) -> None:
    with pytest.raises(InventoryMismatchError, match="either accepted or rejected"):
        await asked(own, judged(own, kept=both, turned_down=both), None)


def _canonical(document: dict[str, object]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
