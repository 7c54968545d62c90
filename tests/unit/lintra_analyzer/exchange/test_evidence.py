"""The evidence of a verdict: a third party finds the accepted cohort again, and every changed byte is found out."""

import json
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lintra_analysis.certificate.certificate import SignedRecord
from lintra_analysis.certificate.evidence import Member, file_bytes, opened_evidence, written
from lintra_analyzer.exchange.evidence import evidence_of
from lintra_audit.release.cli import app
from lintra_audit.replay.cli import replayed
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.errors import LintraError, UnknownResourceError
from lintra_protocol.ideal import client_report
from lintra_protocol.messages.documents import Signed, sign
from lintra_protocol.messages.verification import Verdict
from lintra_protocol.task import Task
from support.analyzer_world import KEYS, Life, clients
from support.checked_world import hostile

HONEST, HOSTILE = 36, 2


async def released(life: Life) -> tuple[Task, SignedRecord]:
    """Return a verified task and its release, which the first test makes: 36 reports accepted, 2 rejected."""
    found = [signed for signed in life.records() if signed.record.verification is not None]
    if not found:
        task = await life.create("sum", verification="norm", max_clients=100)
        honest = [client_report(task, row, task.not_before, rng) for row, rng in clients(HONEST)]
        await life.send(task, [*honest, *hostile(task, HOSTILE)])
        await life.release(task)
        found = [signed for signed in life.records() if signed.record.verification is not None]
    return life.service.task(found[0].record.task_id), found[0]


async def evidence(life: Life) -> bytes:
    task, signed = await released(life)
    return b"".join(written(evidence_of(task, signed, life.service.store)))


def keys_of(task: Task) -> list[str]:
    return [entry.identity_key for entry in task.servers]


def refusals(path: Path, keys: list[str]) -> list[str]:
    """Replay a file; return what is wrong."""
    try:
        with opened_evidence(path) as opened:
            return [f"{check.question} {check.detail}" for check in replayed(opened, keys) if not check.passed]
    except LintraError as error:
        return [str(error)]


async def test_a_third_party_finds_the_accepted_cohort_with_the_file_and_public_keys_only(
    life: Life, tmp_path: Path
) -> None:
    task, signed = await released(life)
    async with life.rest() as rest:
        answer = await rest.get(f"/v1/releases/{signed.record.release_id}/evidence")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-tar")
    assert (
        len(answer.content)
        == int(answer.headers["content-length"])
        == file_bytes(evidence_of(task, signed, life.service.store))
    )
    path = tmp_path / "evidence.tar"
    path.write_bytes(answer.content)
    with tarfile.open(path) as archive:
        assert len(archive.getnames()) == 3 + 5 * task.num_servers
    servers = [part for key in keys_of(task) for part in ("--server", key)]
    said = CliRunner().invoke(app, ["replay", str(path), *servers])
    assert said.exit_code == 0, said.output
    assert "The accepted cohort is right: nothing differs." in said.output
    document = json.loads(CliRunner().invoke(app, ["replay", str(path), *servers, "--json"]).stdout)
    assert (document["verdict"], document["release_id"]) == ("pass", signed.record.release_id)
    told = f"36 pass, with the root {signed.record.cohort_root}; 2 fail"
    assert told in [check["detail"] for check in document["checks"]]


async def test_a_byte_that_was_changed_anywhere_is_found(life: Life, tmp_path: Path) -> None:
    task, _ = await released(life)
    whole, path, at, members = await evidence(life), tmp_path / "evidence.tar", 0, 0
    assert refusals_of(path, whole, task) == []
    while any(whole[at : at + 512]):
        name, size = whole[at : at + 100].rstrip(b"\0").decode(), int(whole[at + 124 : at + 135], 8)
        data = at + 512
        # In turn the head, the middle, and what fills the last block up.
        place = (at + 100, data + size // 2, data + size if size % 512 else data)[members % 3]
        changed = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        assert refusals_of(path, changed, task), f"{name}, byte {place - at}"
        members += 1
        at = data + size + -size % 512
    assert refusals_of(path, whole[:-1] + b"1", task) == [
        "The message is malformed. the file does not end behind its last member as it should"
    ]
    assert "cut off" in refusals_of(path, whole[: len(whole) // 2], task)[0]


def refusals_of(path: Path, data: bytes, task: Task) -> list[str]:
    path.write_bytes(data)
    return refusals(path, keys_of(task))


async def test_what_was_changed_is_named(life: Life, tmp_path: Path) -> None:
    task, signed = await released(life)
    members = {member.name: b"".join(member.pieces()) for member in evidence_of(task, signed, life.service.store)}
    changed = members["body-1"][:-1] + bytes([members["body-1"][-1] ^ 1])
    for name, data, told in (
        ("body-1", changed, "the body of server 1 is not the one that it signed"),
        ("body-2", members["body-0"], "the body of server 2 is not the one that it signed"),
        ("verdict-0", members["verdict-1"], "Did every server sign its verdict? server 0 did not"),
        ("report_ids", members["report_ids"][:-32], "froze another cohort"),
    ):
        (found,) = refusals_of(tmp_path / name, rebuilt(members | {name: data}), task)
        assert told in found
    strangers = [*keys_of(task)[:2], SigningKey.generate(lambda count: bytes([7]) * count).public_key]
    path = tmp_path / "whole.tar"
    path.write_bytes(rebuilt(members))
    assert refusals(path, strangers)[0] == "Does the task name these servers? it names another key for server 2"
    assert (
        refusals(path, strangers[:2])[0] == "Does the task name these servers? it has 3 servers, and 2 keys were given"
    )


def rebuilt(members: dict[str, bytes]) -> bytes:
    return b"".join(written([Member.of(name, data) for name, data in members.items()]))


async def test_a_verdict_that_servers_signed_and_that_is_wrong_is_found(life: Life, tmp_path: Path) -> None:
    """All servers say together that nobody failed: the sum of their own check shares shows two that did."""
    task, signed = await released(life)
    members = {member.name: b"".join(member.pieces()) for member in evidence_of(task, signed, life.service.store)}
    frozen = signed.record.verification
    assert frozen is not None
    for server in range(3):
        verdict = Signed[Verdict].from_canonical(members[f"verdict-{server}"]).message
        lie = verdict.model_copy(update={"count": frozen.frozen, "rejected": 0, "root": frozen.frozen_root})
        members[f"verdict-{server}"] = sign(life.servers[server].node.identity, lie).canonical()
    path = tmp_path / "lie.tar"
    path.write_bytes(rebuilt(members))
    (found,) = refusals(path, keys_of(task))
    assert found.startswith("Did every server come to this verdict")
    assert "server 0 came to another verdict" in found


async def test_an_analyzer_that_certifies_a_witness_which_no_server_signed_for_is_found_out(
    life: Life, tmp_path: Path
) -> None:
    task, signed = await released(life)
    servers = tuple(part.model_copy(update={"witnessed": True}) for part in signed.record.servers)
    record = signed.record.model_copy(update={"servers": servers})
    lie = SignedRecord(record=record, signature=KEYS.identity.sign(record.kind, record.canonical()))
    path = tmp_path / "witnesses.tar"
    path.write_bytes(b"".join(written(evidence_of(task, lie, life.service.store))))
    (found,) = refusals(path, keys_of(task))
    assert found.endswith("the certificate differs in servers")


async def test_there_is_no_evidence_of_reports_that_nobody_checked_or_whose_bodies_are_gone(life: Life) -> None:
    task, signed = await released(life)
    unchecked = signed.model_copy(update={"record": signed.record.model_copy(update={"verification": None})})
    with pytest.raises(UnknownResourceError, match="are not verified"):
        evidence_of(task, unchecked, life.service.store)
    life.service.store.bodies.keep_only([])
    async with life.rest() as rest:
        answer = await rest.get(f"/v1/releases/{signed.record.release_id}/evidence")
    assert (answer.status_code, "body of the check share of server 0" in answer.text) == (502, True)
