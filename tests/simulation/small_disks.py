"""A simulation with three server processes, each with its database, its keys and its log on one small disk that fills.

It is a real file system of some megabytes. Somebody else's file takes what is free, all of it or all but a little, for
as long as it likes; meanwhile servers are asked, killed and started. Afterwards each serves by itself, or has ended
itself with status 70 and serves after its start.
"""

import asyncio
import http.client
import random
import shutil
import tempfile
import time
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from services import free_ports

from lintra_protocol.errors import LintraError
from lintra_service.settings import InvalidSettingsError
from lintra_service.supervisor import HANG_SECONDS
from simulation.books import Seat, law
from simulation.faults import Fault, audit, something, start
from simulation.inside import InsideServer
from simulation.outside import OutsideServer, RealTimes, outside_settings
from simulation.processes import NUM_SERVERS, asked_to_end, last_look, live, sudden_death
from simulation.proxy import Proxy
from simulation.requesting import burst
from simulation.running import FAST
from simulation.trouble import Trouble
from simulation.world import World, seeded
from support.small_disk import fill, mounted

DISK = "16m"
LEFT = (0, 0, 1, 4096, 16_384, 65_536, 262_144)
"""Bytes that are left free of a full disk."""

FULL = ("No space left on device", "database or disk is full", "disk I/O error", "unable to open database file",
        "readonly database")  # fmt: skip
"""What a full disk is called, by the system and by SQLite."""

FULL_DISKS = 4
"""In one simulation."""

WELL_SECONDS = HANG_SECONDS + 30
REPLAY = "again: .venv/bin/python -m pytest -n 0 tests/simulation/test_small_disks.py --seed"


async def simulate_small_disks(seed: int, operations: int, planted: str = "", faults: Sequence[Fault] = ()) -> World:
    """Run a simulation and return its world, closed.

    Args:
        seed: of all that is asked and done.
        operations: at least so many requests and faults.
        planted: the name of a rule that the servers lack, if they are to lack one.
        faults: all that happens; if left out, some disks fill and two servers end.

    Raises:
        NotMountedError: this process may not mount file systems.
        ViolationError: a law was broken; its notes say at which operation.
    """
    folder = Path(tempfile.mkdtemp(prefix="lintra-disks-", dir=FAST if FAST.is_dir() else None))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        for number in range(NUM_SERVERS):
            stack.enter_context(mounted(folder / f"disk{number}", DISK))
        world = _new_world(folder, seed, planted)
        try:
            for one in _servers(world):
                if one.proxy is not None:
                    await one.proxy.open()
                await asyncio.to_thread(one.start)
            waiting = [*faults] or [full_disk] * FULL_DISKS + [sudden_death, asked_to_end]
            world.chance.shuffle(waiting)
            await live(world, operations, waiting, lambda: True)
            await last_look(world)
        except Exception as error:
            again = f"{REPLAY} {seed} --operations {operations}"
            error.add_note(f"after {world.operations} operations of seed {seed}; {again}")
            raise
        finally:
            for one in _servers(world):
                if one.proxy is not None:
                    await one.proxy.close()
                one.kill()
    return world


def _servers(world: World) -> list[OutsideServer]:
    return [one for one in world.servers if isinstance(one, OutsideServer)]


def _new_world(folder: Path, seed: int, planted: str) -> World:
    times, trouble, servers = RealTimes(), Trouble(), list[InsideServer]()
    for number in range(NUM_SERVERS):
        ports = free_ports(3)
        settings = outside_settings(folder / f"disk{number}", number, ports)
        # Every answer is a line, so that the log meets the full disk, too.
        settings = settings.model_copy(update={"log_level": "info"})
        proxy = Proxy(random.Random(seed * NUM_SERVERS + number), ports[0], ports[1])
        restoring = seeded(f"restore {number}", seed)
        servers.append(OutsideServer(settings, times, restoring, trouble, proxy=proxy, planted=planted, expected=FULL))
    world = World(folder, random.Random(seed), times, trouble, servers, [], witnessed=False)
    world.seats = [Seat(number) for number in range(NUM_SERVERS)]
    world.precision, world.sizes, world.loose = 1, (15, 20, 30), True
    world.windowed, world.window_sizes = 0.3, (15, 20)
    return world


async def full_disk(world: World, server: int) -> None:
    """Let the disk be full for a while, with kills and starts. (law) With room a server serves, or it ended itself.

    (law) What it acknowledged is there.
    """
    world.did("small disk full")
    one = _servers(world)[server]
    filler = fill(one.data_dir.parent, world.chance.choice(LEFT))
    one.cut_off = True
    for _ in range(world.chance.randint(1, 4)):
        await _answered(something(world, server))
        await _maybe_started_again(world, one)
        await asyncio.sleep(world.chance.choice([0, 0, 0.3, 1.2]))
    filler.unlink()
    await _served(world, server)
    one.cut_off = False
    audit(world, server)
    await _answered(burst(world, server))
    law(not one.halts, "a server ended itself after its disk was well", one.halts)


async def _answered(asking: Coroutine[object, object, None]) -> None:
    """Ask, for as long as a server that hangs may take to end itself. (law) There is an end."""
    try:
        await asyncio.wait_for(asking, WELL_SECONDS)
    except TimeoutError:
        law(False, "a server hangs", "a request has no end")


async def _maybe_started_again(world: World, one: OutsideServer) -> None:
    """Now and then kill it, and start it on the full disk, which may refuse that in words."""
    one.look()
    if one.halts:
        one.kill()
    elif world.maybe(0.8):
        return
    elif world.maybe(0.5):
        one.kill()
    else:
        world.did("SIGTERM on a full disk")
        await asyncio.to_thread(one.end)
    if not one.is_up and world.maybe(0.7):
        try:
            await asyncio.to_thread(one.start)
        except (InvalidSettingsError, LintraError):
            world.did("start refused on a full disk")


async def _served(world: World, server: int) -> None:
    """Wait until a server whose disk is well is ready, or has ended itself, which is when it is started again."""
    one, deadline = _servers(world)[server], time.monotonic() + WELL_SECONDS
    while one.is_up:
        one.look()
        if one.halts:
            world.did("server ended itself")
            one.kill()
        elif await asyncio.to_thread(_is_ready, one.settings.internal_port):
            return
        law(time.monotonic() < deadline, "a server hangs", "its disk is well, and it neither serves nor ended itself")
        await asyncio.sleep(0.1)
    await asyncio.to_thread(start, world, server)


def _is_ready(port: int) -> bool:
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
