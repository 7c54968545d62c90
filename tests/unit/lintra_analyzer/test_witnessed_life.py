"""A server with a witness says so in its signed inventory, and the certificate says of each server whether it did."""

import html
from pathlib import Path

import httpx2

from lintra_analysis.certificate.certificate import NOT_WITNESSED, ReleaseRecord, SignedRecord, witness_lines
from lintra_protocol.messages.documents import Inventory, Signed
from lintra_protocol.task import Task
from support.analyzer_world import Answer, Life, living

WITNESSED = 1


def inventories(life: Life, task: Task) -> list[Signed[Inventory]]:
    bodies = [life.service.store.document(task.task_id, 0, "inventory", server) for server in range(3)]
    return [Signed[Inventory].from_canonical(body or b"") for body in bodies]


async def test_the_certificate_says_of_each_server_whether_it_had_a_witness(tmp_path: Path) -> None:
    async with living(tmp_path, witnessed=(WITNESSED,)) as life:
        task = await life.create("sum")
        await life.upload(task)
        release_id = await life.release(task)
        signed = life.service.record(release_id)
        assert [one.message.witnessed for one in inventories(life, task)] == [False, True, False]
        assert [b"witnessed" in one.canonical() for one in inventories(life, task)] == [False, True, False]
        assert [part.witnessed for part in signed.record.servers] == [False, True, False]
        assert witness_lines(signed.record, task) == [
            f"server http://server-0.test: {NOT_WITNESSED}",
            "server http://server-1.test: witnessed",
            f"server http://server-2.test: {NOT_WITNESSED}",
        ]
        async with life.rest() as rest:
            page = html.unescape((await rest.get(f"/releases/{release_id}")).text)
        for line in witness_lines(signed.record, task):
            assert f"{line[:1].upper()}{line[1:]}." in page
        assert all(check.passed for check in await life.service.replay(signed))
        better = signed.model_copy(update={"record": with_witnesses(signed.record)})
        assert "Is it these servers' sealed shares that were added up?" in await refused(life, better)


def with_witnesses(record: ReleaseRecord) -> ReleaseRecord:
    """Return the same record, in which every server had a witness."""
    servers = tuple(part.model_copy(update={"witnessed": True}) for part in record.servers)
    return record.model_copy(update={"servers": servers})


async def refused(life: Life, signed: SignedRecord) -> list[str]:
    return [check.question for check in await life.service.replay(signed) if not check.passed]


async def test_an_inventory_that_claims_a_witness_its_server_did_not_sign_for_is_refused(tmp_path: Path) -> None:
    def claims(server: int, request: httpx2.Request, answer: Answer) -> Answer:
        status, headers, body = answer
        if server == 0 and request.url.path.endswith("/inventory"):
            signed = Signed[Inventory].from_canonical(body)
            body = signed.model_copy(
                update={"message": signed.message.model_copy(update={"witnessed": True})}
            ).canonical()
        return status, headers, body

    async with living(tmp_path) as life:
        task = await life.create("sum")
        await life.upload(task)
        life.wires.fault = claims
        life.service.start_release(task.task_id)
        await life.service.jobs.finished(task.task_id)
        job = life.service.job(task.task_id)
        assert job.release_id is None
        assert job.problem is not None
        assert job.problem["type"] == "urn:lintra:problem:unauthorized"
        life.wires.fault = None
        record = life.service.record(await life.release(task)).record
        assert [part.witnessed for part in record.servers] == [False] * 3
        assert b"witnessed" not in record.canonical()
