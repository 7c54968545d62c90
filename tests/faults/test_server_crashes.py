"""A server that dies between any two changes of its state answers with the same bytes afterwards, or with nothing.

A crash is an exception from a seam of the store, before or after its transaction, after which the server is started
again from its disk alone.
"""

import asyncio
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import httpx2
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sqlalchemy.exc import OperationalError
from typer.testing import CliRunner

from lintra_protocol import ideal
from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.crypto.ring import from_ring
from lintra_protocol.crypto.sharing import combine
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.report.wire import payload_bytes
from lintra_protocol.task import ServerEntry, Task
from lintra_server.cli import app
from lintra_server.durability.journal import Journal
from lintra_server.durability.key_files import KeyFiles
from lintra_server.durability.witness import FolderWitness
from lintra_server.node import Node
from lintra_server.storage.batch_states import BatchStates
from lintra_server.storage.key_folder import BusyError
from lintra_server.storage.store import Store
from lintra_server.storage.transition_log import StepFiles
from lintra_server.web.app import create_app
from support.measured import measurement_of
from support.server_world import PRECISION, World, a_world, configured, started, token
from support.stores import allow_any_schema


class CrashError(RuntimeError):
    """The process ends here."""


def crash_at(
    monkeypatch: pytest.MonkeyPatch, seams: Iterable[tuple[type, str]], at: tuple[type, str], after: bool
) -> None:
    """Let the process end before or after one write: it raises, and from then on no write is done any more."""
    ended: list[bool] = []

    def patch(owner: type, method: str) -> None:
        original: Callable[..., object] = getattr(owner, method)

        def crashing(self: object, *arguments: object, **options: object) -> object:
            if ended:
                raise CrashError
            if (owner, method) != at:
                return original(self, *arguments, **options)
            if after:
                original(self, *arguments, **options)
            ended.append(True)
            raise CrashError

        monkeypatch.setattr(owner, method, crashing)

    for owner, method in seams:
        patch(owner, method)


async def run(world: World) -> list[bytes]:
    """Do the analyzer's whole exchange with server 0, and return everything that server said in it."""
    said = [(await world.close_batch(0)).content]
    request = await world.aggregate_request()
    said.append(request.cohorts[0].canonical())
    said.append((await world.release(0, request)).content)
    return said


WRITES: dict[str, tuple[type, str]] = {
    "uploads stopped": (BatchStates, "begin_closing"),
    "step file": (StepFiles, "write"),
    "journal line": (Journal, "append"),
    "witness": (FolderWitness, "advance"),
    "database": (BatchStates, "commit_step"),
    "secret": (KeyFiles, "destroy"),
    "step file removed": (StepFiles, "remove"),
}
"""The writes of a step, in their order; closing begins with the first, only a release destroys a secret."""


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("step", ["close", "freeze", "release"])
@pytest.mark.grid(9)
async def test_a_crash_between_any_two_writes_of_a_step_changes_no_byte_of_what_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, write: str, after: bool
) -> None:
    if (write == "uploads stopped" and step != "close") or (write == "secret" and step != "release"):
        return  # this step has no such write
    async with a_world(tmp_path, num_servers=2, witness=tmp_path / "witness") as world:
        await world.upload_everywhere(world.reports(13))
        before = [(await world.close_batch(0)).content] if step != "close" else []
        lists = await world.cohort_request(0) if step == "freeze" else None
        request = await world.aggregate_request() if step == "release" else None
        with monkeypatch.context() as patched:
            seams = [*WRITES.values(), (BatchStates, "reopen"), (BatchStates, "mark_destroyed")]
            crash_at(patched, seams, WRITES[write], after)
            answer = await {
                "close": lambda: world.close_batch(0),
                "freeze": lambda: world.freeze(0, lists),
                "release": lambda: world.release(0, request),
            }[step]()
            crashed = answer.status_code >= 500
            assert crashed == (write != "step file removed" or step != "release")
            # The process ends here, with whatever it had in memory.
            world.kill(0)
        last = (journal_states(world) or [""])[-1]
        world.start(0)
        said = await run(world)
        assert said[: len(before)] == before
        named = {"close": "closed", "freeze": "frozen", "release": "released"}[step]
        # If the journal has the step, it happened, and nothing else can be said afterwards.
        written = list(WRITES).index(write) > 2 or (write == "journal line" and after)
        assert (last == named) == written
        assert journal_states(world).count(named) == 1
        world.reopen(0)
        assert await run(world) == said
        assert world.halts == []


async def test_a_share_leaves_only_when_the_secret_of_its_reports_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_world(tmp_path, num_servers=2) as world:
        await world.upload_everywhere(world.reports(13))
        request = await world.aggregate_request()
        secrets = set((world.settings[0].key_dir / "batches").iterdir())

        def full(*_: object) -> None:
            raise OSError(28, "no space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(KeyFiles, "destroy", full)
            # The release happened and is in the journal, yet nobody hears of it while a secret is left.
            for _ in range(2):
                assert (await world.release(0, request)).status_code >= 500
            assert (await world.ask(0, "GET", "/batches/0/aggregate")).status_code >= 500
            assert journal_states(world)[-1] == "released"
        assert secrets == set((world.settings[0].key_dir / "batches").iterdir())
        assert (await world.release(0, request)).status_code == 200
        assert len(secrets - set((world.settings[0].key_dir / "batches").iterdir())) == 1


def journal_states(world: World) -> list[str]:
    """Return what server 0's journal says, line after line, without the starts."""
    lines = (world.settings[0].key_dir / "journal").read_text().splitlines()
    states = [json.loads(line.rpartition(" ")[0])["state"] for line in lines]
    return [state for state in states if state not in ("started", "registered", "opened", "migrated")]


async def test_a_server_started_again_at_every_step_releases_what_the_ideal_protocol_does(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        for report in world.reports(12):
            await world.upload_everywhere([report])
            world.reopen(0)
        await world.close_batch(0)
        world.reopen(0)
        request = await world.aggregate_request()
        world.reopen(0)
        shares = [world.opened(server, (await world.release(server, request)).content)[1] for server in range(3)]
        nonces = [parse_base64url(signed.message.nonce) for signed in request.cohorts]
        values = measurement_of(world.task, world.task.num_columns).decode(from_ring(combine(np.stack(shares))))
        assert_array_equal(values, ideal.run(world.task, world.rows(12), nonces).values)


async def test_an_upload_is_acknowledged_only_if_it_would_survive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_world(tmp_path) as world:
        reports = world.reports(6)
        await world.upload(0, reports[:3])
        body = await world.body(0, reports)
        with monkeypatch.context() as patched:
            patched.setattr("lintra_server.storage.store.new_segments", lambda *_: 1 / 0)
            failed = await world.post(0, body)
        assert (failed.status_code, token(failed)) == (503, "unavailable")
        world.reopen(0)
        assert world.apps[0].node.store.report_ids(1) == sorted(report.report_id for report in reports[:3])
        assert (await world.post(0, body)).status_code == 200
        world.reopen(0)
        assert world.apps[0].node.store.report_ids(1) == sorted(report.report_id for report in reports)
        assert len(world.apps[0].node.store.report_ids(1)) == 6


async def test_a_repeated_report_waits_for_its_first_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_world(tmp_path) as world:
        node = world.apps[0].node
        body = await world.body(0, world.reports(2))
        may_commit, committing = threading.Event(), threading.Event()
        add_reports = node.store.add_reports

        def slow(uploads):  # type: ignore[no-untyped-def]
            committing.set()
            may_commit.wait(10)
            return add_reports(uploads)

        monkeypatch.setattr(node.writer, "_commit", slow)
        uploads = [asyncio.create_task(world.post(0, body)) for _ in range(3)]
        await asyncio.to_thread(committing.wait, 10)
        await asyncio.sleep(0.05)
        assert not any(upload.done() for upload in uploads)
        may_commit.set()
        assert {answer.status_code for answer in await asyncio.gather(*uploads)} == {200}
        counters = (await world.ask(0, "GET", "/counters")).json()
        assert (counters["accepted"], counters["repeated"]) == (2, 4)


async def test_reports_that_reach_a_closing_batch_are_in_it_or_refused(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        await world.upload_everywhere(world.reports(12))
        bodies = [await world.body(0, [report]) for report in world.reports(20, "late")]
        answers = await asyncio.gather(*(world.post(0, body) for body in bodies[:10]), world.close_batch(0))
        answers += await asyncio.gather(*(world.post(0, body) for body in bodies[10:]))
        uploads = [answer.json() for answer in answers if "receipt" in answer.json()]
        stored = sum(upload["receipt"]["message"]["count"] for upload in uploads)
        refused = [failure["type"] for upload in uploads for failure in upload["failures"]]
        assert len(await world.ids(0)) == 12 + stored
        # Just before the inventory a report is asked to come again: the batch may still become open.
        assert set(refused) <= {"batch_closed", "unavailable"}
        assert len(refused) == 20 - stored
        assert stored <= 10


async def test_a_second_process_on_one_key_folder_is_refused(tmp_path: Path) -> None:
    async with a_world(tmp_path, num_servers=2) as world:
        with pytest.raises(BusyError, match="another process owns"):
            create_app(world.settings[0], now=world.clock, running=world.clock)
        await world.upload_everywhere(world.reports(12))
        assert (await world.close_batch(0)).status_code == 200


async def test_of_two_processes_on_one_store_only_one_freezes_and_releases(tmp_path: Path) -> None:
    async with a_world(tmp_path, num_servers=2) as world:
        await world.upload_everywhere(world.reports(12))
        inventories = await world.inventories()
        request = await world.cohort_request(0, inventories)
        # The key folder was copied: the lock is another one's, the journal has the same lines.
        copy = tmp_path / "copied keys"
        shutil.copytree(world.settings[0].key_dir, copy)
        twin = create_app(
            world.settings[0].model_copy(update={"key_dir": copy}), now=world.clock, running=world.clock,
            halt=world.halts.append,
        )  # fmt: skip
        # Whoever began last owns the database; the other one ends at its next step, and says nothing.
        answer = await world.freeze(0, request)
        assert (answer.status_code, token(answer)) == (503, "unavailable")
        assert len(world.halts) == 1
        assert "another process began on this database" in world.halts[0]
        held = twin.node.registry.find_batch(world.task.task_id)
        assert twin.node.gate.freeze(held, request) == twin.node.gate.freeze(held, request)
        twin.node.close()


async def test_concurrent_freezes_and_releases_get_the_same_bytes(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        await world.upload_everywhere(world.reports(12))
        request = await world.cohort_request(0)
        frozen = await asyncio.gather(*(world.freeze(0, request) for _ in range(4)))
        assert len({answer.content for answer in frozen}) == 1
        aggregate = await world.aggregate_request()
        released = await asyncio.gather(*(world.release(0, aggregate) for _ in range(4)))
        assert {answer.status_code for answer in released} == {200}
        assert len({answer.content for answer in released}) == 1


async def test_a_store_that_cannot_be_written_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_world(tmp_path) as world:

        def broken(_self: Store, _uploads: object) -> None:
            raise OperationalError("INSERT", {}, Exception("disk full"))

        node = world.apps[0].node
        monkeypatch.setattr(node.writer, "_commit", broken.__get__(node.store))
        answer = await world.post(0, await world.body(0, world.reports(2)))
        assert (answer.status_code, token(answer)) == (503, "unavailable")
        assert answer.headers["retry-after"] == "1"
        assert "INSERT" not in answer.text
        counters = (await world.ask(0, "GET", "/counters")).json()
        assert counters == {"received": 2, "accepted": 0, "repeated": 0, "refused": {"unavailable": 2}}


async def test_a_failed_write_is_logged_without_what_was_to_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with a_world(tmp_path) as world:
        report, other = world.reports(2)
        allow_any_schema(world.apps[0].node.database)
        with world.apps[0].node.database.writing() as connection:
            connection.exec_driver_sql(
                "CREATE TRIGGER full BEFORE INSERT ON segments BEGIN SELECT RAISE(ABORT, 'disk full'); END"
            )
        answer = await world.post(0, await world.body(0, [report, other]))
        assert (answer.status_code, token(answer)) == (503, "unavailable")
        log = "".join(capsys.readouterr())
        assert "disk full" in log
        for secret in (report.report_id, report.shares[0][33:]):
            assert repr(secret)[2:20] not in log
            assert secret.hex()[:16] not in log


@pytest.mark.slow
async def test_a_killed_process_has_everything_that_it_acknowledged(tmp_path: Path) -> None:
    config, settings = configured(tmp_path)
    printed = CliRunner().invoke(app, ["keys", "--config", str(config)])
    identity_key = printed.output.strip()
    async with a_world(tmp_path / "made") as made:
        servers = (ServerEntry(url=settings.public_url, identity_key=identity_key), *made.task.servers[1:])
        hour = int(time.time()) // PRECISION
        changes = {"servers": servers, "not_before": hour - 1, "not_after": hour + 24}
        made.task = Task.from_canonical(made.task.model_copy(update=changes).canonical())
        acknowledged: list[bytes] = []
        with started(config, settings) as process:
            async with httpx2.AsyncClient(base_url=settings.public_url) as http:
                made.http[0] = http
                assert (await made.register(0)).status_code == 201

                async def send(number: int) -> None:
                    with suppress(httpx2.HTTPError):
                        for report in made.reports(60, f"sender {number}"):
                            await made.upload(0, [report])
                            acknowledged.append(report.report_id)

                async def kill() -> None:
                    while len(acknowledged) < 60:
                        await asyncio.sleep(0.01)
                    process.kill()

                await asyncio.gather(kill(), *(send(number) for number in range(4)))
            process.wait()
        node = Node(settings, system_randomness, time.time)
        held = node.registry.find_batch(made.task.task_id)
        stored = node.store.report_ids(held.number)
        assert len(acknowledged) >= 60
        assert set(acknowledged) <= set(stored)
        size, segments = payload_bytes(held.task, 0), node.store.segments(held.number, node.store.held(held.number)[1])
        payloads, before = dict(segments.payloads()), [0, *segments.totals.tolist()]
        counts = {number: len(payloads[number]) // size for number in segments.numbers.tolist()}
        assert list(counts.values()) == np.diff(before).tolist()
        assert node.store.num_reports(held.number) == len(stored)
        node.close()
