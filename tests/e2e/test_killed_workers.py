"""A gate and two openers as processes: whichever is killed while reports arrive, none that was acknowledged is lost."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import httpx2
import numpy as np
import pytest
from services import Service, local_services, running

from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.randomness import expand, system_randomness
from lintra_protocol.crypto.sealing import CLASSICAL, SealingKey
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.encoding.canonical import base64url, parse_base64url
from lintra_protocol.fields.schema import Column
from lintra_protocol.http.requests import media_type, sign_request
from lintra_protocol.mechanisms import Sum
from lintra_protocol.messages.documents import Inventory, KeyList, Signed, TaskRecord, UploadAnswer, sign
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.report.report import Report, make_reports, seal_block
from lintra_protocol.report.upload import encode_upload
from lintra_protocol.task import AnalyzerEntry, ServerEntry, Task
from lintra_server.node import Node
from lintra_server.settings import Settings
from support.measured import calibrated_for
from support.stores import opened

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ROWS, SENDERS, WORKERS = 400, 16, 2
ANALYZER = SigningKey.generate(expand(bytes(32), "analyzer"))
AUTHOR = SigningKey.generate(expand(bytes(32), "author"))


def children(service: Service) -> list[int]:
    """Return the processes that a service started."""
    assert service.process is not None
    listed = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text().split()
    threads = Path(f"/proc/{service.process.pid}/task").iterdir()
    return sorted(
        {int(each) for thread in threads for each in (thread / "children").read_text().split()} | {*map(int, listed)}
    )


async def registered(service: Service, http: httpx2.AsyncClient) -> tuple[Task, tuple[bytes, bytes]]:
    """Register a task of which the second server exists by name only; return it, and the key to seal to."""
    answer = await http.get(f"{service.url}/v1/keys")
    keys = Signed[KeyList].from_canonical(answer.content).message
    hour = int(time.time()) // 3600
    claim = Claim(epsilon="2", delta="0.000001", min_clients=12)
    task = Task(
        salt=base64url(system_randomness(32)),
        purpose="workers",
        author_key=AUTHOR.public_key,
        servers=(
            ServerEntry(url=service.url, identity_key=keys.identity_key),
            ServerEntry(url="http://127.0.0.1:9", identity_key=ANALYZER.public_key),
        ),
        analyzer=AnalyzerEntry(
            identity_key=ANALYZER.public_key,
            sealing_key=base64url(SealingKey.generate(CLASSICAL, system_randomness).public_bytes),
        ),
        columns=(Column(name="a", lower="-1", upper="1"), Column(name="b", lower="-1", upper="1")),
        mechanism=calibrated_for(Sum(row_bound="1", fraction_bits=0, sigma=4), 2, claim, 1000),
        claim=claim,
        max_clients=1000,
        not_before=hour - 1,
        not_after=hour + 24,
        suite=CLASSICAL,
    )
    body = sign(AUTHOR, TaskRecord(definition=task)).canonical()
    path = f"{service.url}/v1/tasks/{task.task_id}"
    registering = await http.put(path, content=body, headers={"content-type": media_type("task")})
    assert registering.status_code == 201, registering.text
    entry = next(each for each in keys.keys if each.suite == CLASSICAL)
    return task, (parse_base64url(entry.key_id), parse_base64url(entry.public_key))


async def send_all(
    service: Service, task: Task, key: tuple[bytes, bytes], reports: Sequence[Report], done: set[bytes]
) -> None:
    """Send reports one by one from many connections, each until it is acknowledged; note these in `done`."""
    waiting = list(reports)
    path = f"{service.url}/v1/tasks/{task.task_id}/reports"

    async def sender() -> None:
        async with httpx2.AsyncClient(timeout=20) as http:
            while waiting:
                report = waiting.pop()
                body = encode_upload([seal_block(task, 0, *key, [report])])
                while report.report_id not in done:
                    try:
                        answer = await http.post(path, content=body, headers={"content-type": media_type("reports")})
                    except (httpx2.TransportError, OSError):
                        await asyncio.sleep(0.1)
                        continue
                    if answer.status_code != 200:
                        assert answer.status_code in (429, 503), answer.text
                        await asyncio.sleep(0.1)
                        continue
                    said = UploadAnswer.from_canonical(answer.content)
                    said.receipt.verified(task.servers[0].identity_key)
                    assert said.failures == ()
                    done.add(report.report_id)

    await asyncio.gather(*(sender() for _ in range(SENDERS)))


async def closed(service: Service, task: Task, http: httpx2.AsyncClient) -> bytes:
    """Close the batch as its analyzer, and return the inventory."""
    url = f"{service.url}/v1/tasks/{task.task_id}/batches/0/inventory"
    headers = sign_request(ANALYZER, "POST", url, b"", int(time.time()), system_randomness(16))
    answer = await http.post(url, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.content


async def until(done: set[bytes], count: int) -> None:
    while len(done) < count:
        await asyncio.sleep(0.01)


async def kill_while_reports_arrive(service: Service, task: Task, done: set[bytes]) -> None:
    """Kill an opener, and later the gate; start the service again as whoever looks after it would."""
    chance = random.Random(1)
    await until(done, ROWS // 4)
    before = children(service)
    assert len(before) == WORKERS
    os.kill(chance.choice(before), signal.SIGKILL)
    await until(done, ROWS // 2)
    service.kill()
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{child}/cmdline").exists() for child in before[-1:]) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    await asyncio.to_thread(service.start)


def test_no_acknowledged_report_is_lost_when_an_opener_or_the_gate_is_killed(tmp_path: Path) -> None:
    (service, *_), _ = local_services(tmp_path, 1)
    service.command = [*service.command, "--workers", str(WORKERS)]
    done: set[bytes] = set()

    async def whole() -> tuple[Task, list[Report], bytes, bytes]:
        async with httpx2.AsyncClient(timeout=30) as http:
            task, key = await registered(service, http)
            rows = np.arange(2 * ROWS, dtype=np.int64).reshape(ROWS, 2)
            reports = make_reports(task, rows, task.not_before, expand(bytes(32), "reports"))
            await asyncio.gather(
                send_all(service, task, key, reports, done), kill_while_reports_arrive(service, task, done)
            )
            await asyncio.to_thread(service.wait_until_ready)
            first = await closed(service, task, http)
        # A gate that is killed leaves its folder to the next, which says the same again.
        service.kill()
        await asyncio.sleep(0.5)
        service.start()
        await asyncio.to_thread(service.wait_until_ready)
        async with httpx2.AsyncClient(timeout=30) as http:
            return task, reports, first, await closed(service, task, http)

    with running([service]):
        task, reports, first, again = asyncio.run(whole())
    assert done == {report.report_id for report in reports}
    assert first == again
    inventory = Signed[Inventory].from_canonical(first).verified(task.servers[0].identity_key)
    ids = ReportIds.of(done)
    assert (inventory.count, inventory.root) == (ROWS, base64url(ids.root))
    # What one process finds on the disk is what the openers were sent.
    node = Node(Settings.load(service.config), system_randomness, time.time)
    try:
        ids, payloads = node.store.ids_by_storing(1), opened(node.store)
        found = {bytes(each): payloads[16 * at : 16 * at + 16] for at, each in enumerate(ids)}
    finally:
        node.close()
    assert found == {report.report_id: report.shares[0][33:] for report in reports}
