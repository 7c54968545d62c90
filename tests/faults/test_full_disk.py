"""A disk that is really full, on a small file system of its own: nothing is lost, and a release still goes through."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lintra_client import Client, Ledger
from lintra_protocol.errors import LedgerRefusedError, UnavailableError
from lintra_server.durability.disk_reserve import RESERVE_FILE, Reserve
from lintra_server.durability.private_files import destroy, write_new
from support import make_task, postgres
from support.fake_servers import IMPATIENT, NOW, Network
from support.postgres_world import a_server
from support.server_world import World, a_world, token
from support.small_disk import NotMountedError, fill, mounted


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of eight megabytes."""
    yield from _mounted(tmp_path / "small", "8m")


@pytest.fixture
def disk_of_a_database() -> Iterator[Path]:
    """Mount a file system on which a cluster of PostgreSQL has room, with a name that its socket can have."""
    folder = Path(tempfile.mkdtemp(prefix="lintra-disk-"))
    yield from _mounted(folder, "96m")
    folder.rmdir()


def _mounted(folder: Path, size: str) -> Iterator[Path]:
    try:
        with mounted(folder, size):
            yield folder
    except NotMountedError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("reserve", [1 << 18, 0], ids=["on", "off"])
async def test_a_full_disk_stops_uploads_and_with_a_reserve_no_release(small_disk: Path, reserve: int) -> None:
    async with a_world(small_disk, "sum", num_servers=2) as world:
        for server in (0, 1):
            world.kill(server)
            world.start(server, reserve_bytes=reserve, min_free_bytes=0)
        await world.upload_everywhere(world.reports(14))
        node = world.apps[0].node
        node.check()
        filler = fill(small_disk)
        node.readiness.probe()
        with pytest.raises(UnavailableError):
            node.check()
        refused = await world.post(0, await world.body(0, world.reports(200, "late")))
        assert (refused.status_code, token(refused)) == (503, "unavailable")
        closed = await world.close_batch(0)
        assert closed.status_code == (200 if reserve else 503)
        filler.unlink()
        node.readiness.probe()
        node.check()
        again = await world.close_batch(0)
        assert again.status_code == 200
        assert not reserve or again.content == closed.content
        assert len(await ids_of(world)) == 14
        assert (node.settings.key_dir / RESERVE_FILE).exists() == bool(reserve)
        assert world.halts == []
        world.reopen(0)
        assert (await world.close_batch(0)).content == again.content


@pytest.mark.slow  # a cluster of its own
async def test_a_database_whose_disk_is_full_refuses_in_words_and_keeps_what_was_acknowledged(
    disk_of_a_database: Path, tmp_path: Path
) -> None:
    cluster = postgres.Cluster(disk_of_a_database)
    try:
        with a_server(tmp_path, cluster.url) as world:
            assert (await world.register(0)).status_code == 201
            reports = world.reports(1400)
            await world.upload(0, reports[:14])
            filler, taken = fill(disk_of_a_database), 14
            while taken < len(reports):
                answer = await world.post(0, await world.body(0, reports[taken : taken + 14]))
                if answer.status_code != 200:
                    break
                taken += 14
            assert taken < len(reports)
            assert (answer.status_code, token(answer)) == (503, "unavailable")
            filler.unlink()
            cluster.kill()  # it may have ended by itself, as it does when its log has no room
            cluster.start()
            world.reopen(0)
            assert world.halts == []
            assert world.apps[0].node.store.num_reports(1) in (taken, taken + 14)  # what was refused may be there
            for first in range(0, taken + 14, 14):
                await world.upload(0, reports[first : first + 14])
            assert world.apps[0].node.store.num_reports(1) == taken + 14
            assert (await world.close_batch(0)).status_code == 200
            assert len(await ids_of(world)) == taken + 14
    finally:
        cluster.close()


async def test_a_client_whose_disk_is_full_refuses_in_words_and_sends_every_report_once(small_disk: Path) -> None:
    network, sources = Network(make_task()), [f"source {number}" for number in range(2000)]

    def client() -> Client:
        ledger = Ledger(small_disk / "ledger.sqlite")
        return Client(
            network.task.task_id, network.urls, ledger=ledger, retries=IMPATIENT, now=lambda: NOW, transport=network
        )

    sent: list[str] = []

    async def send(sending: Client, some: list[str]) -> None:
        for source in some:
            await sending.send([0.5, 0, 0], source=source)
            sent.append(source)

    async with client() as sending:
        await send(sending, sources[:3])
        filler = fill(small_disk)
        with pytest.raises(LedgerRefusedError, match="full"):
            await send(sending, sources[3:])
    assert {len(server.payloads) for server in network.servers} == {len(sent)}
    filler.unlink()
    async with client() as sending:
        again = [await sending.send([0, 0, 0], source=source) for source in sources[: len(sent) + 2]]
    assert [receipt.repeated for receipt in again[: len(sent)]] == [True] * len(sent)
    assert {len(server.payloads) for server in network.servers} == {len(sent) + 2}


async def ids_of(world: World) -> list[bytes]:
    return list(await world.ids(0))


def test_a_reserve_is_real_is_used_once_and_made_again(tmp_path: Path) -> None:
    reserve = Reserve([tmp_path], 1 << 16)
    reserve.refill()
    file = tmp_path / RESERVE_FILE
    assert file.stat().st_blocks * 512 >= 1 << 16  # no holes
    assert (reserve.use(), reserve.use(), file.exists()) == (True, False, False)
    reserve.refill()
    assert file.stat().st_size == 1 << 16
    Reserve([tmp_path], 0).refill()
    assert not file.exists()


def test_a_secret_is_destroyed_on_a_full_disk(small_disk: Path) -> None:
    secret = small_disk / "a.secret"
    write_new(secret, b"s" * 32)
    fill(small_disk)
    destroy(secret)
    assert not secret.exists()
