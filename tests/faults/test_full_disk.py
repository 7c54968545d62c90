"""A disk that is really full, on a small file system of its own: nothing is lost, and a release still goes through."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lintra_protocol.errors import UnavailableError
from lintra_server.disk.folders import destroy, write_new
from lintra_server.disk.reserve import RESERVE_FILE, Reserve
from support.server_world import World, a_world, token

BLOCK = 4096


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of eight megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m,mode=0700", "tmpfs", str(folder)], check=False, capture_output=True
    )
    if mount.returncode:
        pytest.skip("mounting a file system needs an administrator")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take every block that is free."""
    path = folder / "somebody else's"
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, BLOCK, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return path


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
