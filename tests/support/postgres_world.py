"""Two servers of a task, the first with its database at an address, for tests that ask what this changes."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import SecretStr

from lintra_server.web.app import create_app
from support.server_world import World, _client, new_world, seeded


@contextmanager
def a_server(folder: Path, url: str | None) -> Iterator[World]:
    """Give two servers of a new task; the first has its database at an address, or in a file."""
    world = new_world(folder, "osnap", num_servers=2)
    world.kill(0)
    for path in (world.settings[0].data_dir, world.settings[0].key_dir):
        shutil.rmtree(path)
    start(world, url)
    try:
        yield world
    finally:
        world.close()


def start(world: World, url: str | None) -> None:
    """Start the first server, with the same random bytes whatever its database is."""
    changed = {"database_url": None if url is None else SecretStr(url)}
    world.settings[0] = world.settings[0].model_copy(update=changed)
    world.apps[0] = create_app(
        world.settings[0], now=world.clock, random_bytes=seeded("server 0"), running=world.clock,
        halt=world.halts.append,
    )  # fmt: skip
    world.http[0] = _client(world.apps[0])
