"""Overload, tried on real sockets against the real listener: each attack fails with the rule, and works without it."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from starlette.types import Receive

from lintra_analyzer.web import app as analyzer_app
from lintra_analyzer.web.app import create_app
from lintra_protocol.errors import InvalidMessageError, UnavailableError
from lintra_protocol.http.requests import media_type
from lintra_server.web import upload_route
from lintra_service import responses
from lintra_service.byte_budget import ByteBudget, Lease
from support.analyzer_world import TOKEN, living
from support.raw_connections import SECONDS, Attacker, listening, until_closed, upload_head
from support.server_world import World, a_world, token

ROOM = 1 << 16
PAGE_BYTES = 4096


async def uploaded(world: World, port: int, label: str) -> int:
    """Send an honest client's report, and return the status of the answer."""
    body = await world.body(0, world.reports(1, label))
    url = f"http://127.0.0.1:{port}/v1/tasks/{world.task.task_id}/reports"
    async with httpx2.AsyncClient(timeout=SECONDS) as http:
        return (await http.post(url, content=body, headers={"content-type": media_type("reports")})).status_code


def reserving(read_body: Callable[..., object]) -> Callable[..., object]:
    """Return how bodies were read before: room is taken for what is announced."""

    async def reading(receive: Receive, content_length: str | None, limit: int, lease: Lease, *rest: object) -> object:
        lease.take(int(content_length or limit))
        return await read_body(receive, content_length, limit, lease, *rest)  # type: ignore[misc]

    return reading


@pytest.mark.parametrize("rule", [True, False], ids=["bytes that came", "announced bytes"])
async def test_a_connection_that_announces_much_takes_no_room_from_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    async with a_world(tmp_path, max_pending_bytes=ROOM) as world:
        if not rule:
            monkeypatch.setattr(upload_route, "read_body", reserving(responses.read_body))
        async with listening(world.apps[0]) as port, Attacker(port) as attacker:
            announced = world.apps[0].node.registry.find(world.task.task_id).max_upload_bytes
            assert announced > ROOM // 2
            await attacker.connect(upload_head(world.task.task_id, announced) + bytes(200))
            async with asyncio.timeout(SECONDS):
                while not world.apps[0].node.uploads.used:
                    await asyncio.sleep(0.01)
            assert await uploaded(world, port, "honest") == (200 if rule else 429)


@pytest.mark.parametrize("rule", [True, False], ids=["in time", "whenever"])
async def test_silent_connections_are_closed_and_then_others_are_answered(tmp_path: Path, rule: bool) -> None:
    async with (
        a_world(tmp_path) as world,
        listening(world.apps[0], max_connections=20, header_seconds=0.3 if rule else 3600) as port,
        Attacker(port) as attacker,
    ):
        silent = [await attacker.connect(b"GET /v1/keys HTTP/1.1\r\nx: " if n % 2 else b"") for n in range(40)]
        await asyncio.sleep(0.5)
        if rule:
            ended = [await until_closed(reader) for reader in silent]
            assert ended == [b""] * 40
            assert await uploaded(world, port, "honest") == 200
        else:
            with pytest.raises(httpx2.TransportError):
                await uploaded(world, port, "honest")


@pytest.mark.parametrize("rule", [True, False], ids=["a pace", "only an end"])
async def test_a_body_that_trickles_is_cut_off_long_before_the_longest_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    monkeypatch.setattr(responses, "GRACE_SECONDS", 0.2 if rule else 3600)
    async with a_world(tmp_path) as world, listening(world.apps[0]) as port, Attacker(port) as attacker:
        body = await world.body(0, world.reports(20))
        reader = await attacker.connect(upload_head(world.task.task_id, len(body)) + body[:100])
        trickling = asyncio.create_task(attacker.trickle(b"\0", 0.05))
        began = time.monotonic()
        try:
            answer = await asyncio.wait_for(reader.readline(), 1.5)
            assert rule
            assert b" 503 " in answer
            assert time.monotonic() - began < 1.4
        except TimeoutError:
            assert not rule
        finally:
            trickling.cancel()


async def test_a_body_shorter_than_announced_is_not_executed(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world, listening(world.apps[0]) as port:
        body = await world.body(0, world.reports(1))
        async with Attacker(port) as attacker:
            await attacker.connect(upload_head(world.task.task_id, len(body) + 50) + body)
        await asyncio.sleep(0.2)
        assert world.apps[0].node.store.report_ids(1) == []
        assert world.apps[0].node.uploads.used == 0
        # The same bytes, announced rightly.
        async with Attacker(port) as attacker:
            reader = await attacker.connect(upload_head(world.task.task_id, len(body)) + body)
            assert b" 200 " in await asyncio.wait_for(reader.readline(), SECONDS)
        assert len(world.apps[0].node.store.report_ids(1)) == 1


@pytest.mark.parametrize("rule", [True, False], ids=["compared", "not compared"])
async def test_a_channel_that_ends_early_without_saying_so_is_refused(rule: bool) -> None:
    async def ends() -> dict[str, object]:
        return {"type": "http.request", "body": b"half", "more_body": False}

    with ByteBudget(100).lease("a") as lease:
        if rule:
            with pytest.raises(InvalidMessageError, match="8 bytes were announced and 4 came"):
                await responses.read_body(ends, "8", 100, lease)
        else:
            assert await responses.read_body(ends, None, 100, lease) == b"half"


@pytest.mark.parametrize("rule", [True, False], ids=["who has a token", "anybody"])
async def test_half_bodies_of_strangers_take_nothing_of_the_analyzer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: bool
) -> None:
    if not rule:
        monkeypatch.setattr(analyzer_app, "most_bytes", lambda *_: ROOM)
    async with (
        living(tmp_path, max_body_bytes=ROOM, max_pending_bytes=ROOM) as life,
        listening(create_app(life.service)) as port,
        Attacker(port) as attacker,
    ):
        head = f"POST /v1/tasks HTTP/1.1\r\nhost: a\r\ncontent-length: {ROOM}\r\n\r\n".encode()
        for _ in range(8):
            await attacker.connect(head + bytes(ROOM // 4))
        await asyncio.sleep(0.3)
        async with httpx2.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}, timeout=SECONDS) as http:
            answer = await http.post(f"http://127.0.0.1:{port}/v1/tasks", content=b"{" + b" " * (ROOM // 2))
        assert answer.status_code == (400 if rule else 429)


async def test_uploads_that_fill_their_room_leave_analyzer_and_operators_theirs(tmp_path: Path) -> None:
    async with a_world(tmp_path, max_pending_bytes=ROOM) as world:
        node = world.apps[0].node
        with node.uploads.lease("a stranger") as lease:
            lease.take(ROOM)
            assert token(await world.post(0, await world.body(0, world.reports(1)))) == "overloaded"
            assert (await world.ask(0, "GET", "/batches")).status_code == 200


async def test_a_full_disk_and_a_damaged_page_are_not_ready(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        node = world.apps[0].node
        await world.upload(0, world.reports(40))
        node.check()
        node.readiness._min_free_bytes = 2**62
        node.readiness.probe()
        answer = await world.post(0, await world.body(0, world.reports(1, "late")))
        assert (answer.status_code, token(answer)) == (503, "unavailable")
        assert (await world.ask(0, "GET", "/batches")).status_code == 200
        node.readiness._min_free_bytes = 0
        node.readiness.probe()
        node.check()
        damage(world)
        answer = await world.post(0, await world.body(0, world.reports(1, "late")))
        assert answer.status_code == 503
        node.readiness.probe()
        with pytest.raises(UnavailableError, match="damaged"):
            node.check()


def damage(world: World) -> None:
    """Overwrite the pages where the first server keeps the identifiers of reports, as a failing disk would."""
    node = world.apps[0].node
    node.database.forget_log()
    with node.database.reading() as connection:
        asked = "SELECT rootpage FROM sqlite_master WHERE tbl_name = 'segments' AND rootpage > 0"
        pages = list(connection.exec_driver_sql(asked).scalars())
    # Connections remember pages; without any, the file is read.
    node.database.close()
    with next(node.settings.data_dir.glob("*.sqlite")).open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * PAGE_BYTES)
            file.write(b"\xff" * PAGE_BYTES)
