"""A simulation with three server processes behind faulty proxies: the same requests and laws, real kills and clocks.

One of the servers has its database in a PostgreSQL, which is killed, too; some tasks have windows of a few seconds.

The seed decides what is asked and when something happens; how far a process had come by then the machine decides. So a
failure comes again often, but not always.
"""

import asyncio
import math
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from services import free_ports

from simulation.books import LOST, Seat, law
from simulation.faults import (
    DAY,
    Fault,
    audit,
    back_up,
    failover,
    from_the_start,
    lost_part,
    old_copy,
    second_process,
    something,
    start,
)
from simulation.inside import InsideServer
from simulation.on_postgres import PostgresServer
from simulation.outside import PROBE_SECONDS, OutsideServer, RealTimes, outside_settings
from simulation.proxy import Proxy
from simulation.requesting import PASSING, ask, burst, register
from simulation.running import FAST, request
from simulation.trouble import Trouble
from simulation.world import World, new_course, require_gone, seeded

NUM_SERVERS = 3
ON_POSTGRES = 1
"""The server whose database is not a file."""

ON_WORKERS = 2
"""The server that has openers and a gate, in a simulation that has one."""

WINDOWED = 0.4
"""Of all tasks."""

A_WINDOW = 150
"""Requests and faults in which a window gets its reports while other tasks get theirs: how long that takes the machine
decides."""

WINDOWS_RELEASED = 2
"""At least so many in a simulation; tasks are made until there were, though not for ever."""

SETTLING_SECONDS = 30
REPLAY = "again: .venv/bin/python -m pytest -n 0 tests/simulation/test_processes.py --seed"


async def simulate_processes(
    seed: int, operations: int, planted: str = "", workers: int = 1, faults: Sequence[Fault] = ()
) -> World:
    """Run a simulation with processes and return its world, closed.

    Args:
        seed: of all that is asked and done.
        operations: at least so many requests and faults.
        planted: the name of a rule that the servers lack, if they are to lack one.
        workers: how many openers the last server has; with one it takes uploads itself.
        faults: all that happens, in a short simulation, which waits for no windows; if left out, each fault happens.

    Raises:
        ViolationError: a law was broken; its notes say at which operation.
    """
    folder = Path(tempfile.mkdtemp(prefix="lintra-processes-", dir=FAST if FAST.is_dir() else None))
    world = _new_world(folder, seed, planted)
    _outside(world, ON_WORKERS).workers = workers
    try:
        await asyncio.to_thread(_on_postgres(world).open)
        for server in range(NUM_SERVERS):
            await _proxy(world, server).open()
            await asyncio.to_thread(world.servers[server].start)
        if faults:
            await live(world, operations, list(faults), lambda: True)
        else:
            await live(world, operations, _all_faults(world), lambda: not _windows_lack(world, operations))
        await last_look(world)
    except Exception as error:
        error.add_note(f"after {world.operations} operations of seed {seed}; {REPLAY} {seed} --operations {operations}")
        raise
    finally:
        for server in range(NUM_SERVERS):
            await _proxy(world, server).close()
            world.servers[server].kill()
        _on_postgres(world).close()
        shutil.rmtree(folder, ignore_errors=True)
    for server in range(NUM_SERVERS):
        world.counts.update(_proxy(world, server).counts)
    return world


def _outside(world: World, server: int) -> OutsideServer:
    one = world.servers[server]
    if not isinstance(one, OutsideServer):
        raise TypeError("a server in this process")
    return one


def _proxy(world: World, server: int) -> Proxy:
    proxy = _outside(world, server).proxy
    if proxy is None:
        raise RuntimeError("this server has no proxy")
    return proxy


def _on_postgres(world: World) -> PostgresServer:
    server = world.servers[ON_POSTGRES]
    if not isinstance(server, PostgresServer):
        raise TypeError("this server has its database in a file")
    return server


def _new_world(folder: Path, seed: int, planted: str) -> World:
    chance = random.Random(seed)
    times, trouble = RealTimes(), Trouble()
    servers: list[InsideServer] = []
    for number in range(NUM_SERVERS):
        ports = free_ports(3)
        proxy = Proxy(random.Random(seed * NUM_SERVERS + number), ports[0], ports[1])
        kind = PostgresServer if number == ON_POSTGRES else OutsideServer
        servers.append(
            kind(
                outside_settings(folder, number, ports),
                times,
                seeded(f"restore {number}", seed),
                trouble,
                proxy=proxy,
                planted=planted,
            )
        )
    world = World(folder, chance, times, trouble, servers, [], witnessed=False)
    world.seats = [Seat(number) for number in range(NUM_SERVERS)]
    world.precision, world.sizes, world.loose = 1, (15, 20, 30, 50), True
    world.windowed, world.window_sizes = WINDOWED, (15, 20)
    return world


def _all_faults(world: World) -> list[Fault]:
    waiting = [*FAULTS, *world.chance.choices(OFTEN, k=3)]
    if _outside(world, ON_WORKERS).workers > 1:
        waiting += [killed_opener, killed_opener]
    world.chance.shuffle(waiting)
    waiting.append(back_up_all)  # first, so that there are old copies
    return waiting


async def live(world: World, operations: int, waiting: list[Fault], is_enough: Callable[[], bool]) -> None:
    """Send requests; now and then one of the faults of the list happens, from its end on, until each did."""
    every = operations // (len(waiting) + 1)
    began = time.monotonic()
    while world.operations < operations or waiting or not is_enough():
        if world.operations >= operations:
            world.windowed = 1.0  # windows are what is not enough
        while len(world.active()) < 2:
            pace = (time.monotonic() - began) / max(world.operations, 20)
            world.window_units = (max(2, math.ceil(pace * A_WINDOW)),)
            course = new_course(world)
            for server in range(NUM_SERVERS):
                await register(world, course, server)
        server = world.chance.randrange(NUM_SERVERS)
        if waiting and world.operations > operations - every * len(waiting):
            await waiting.pop()(world, server)
        else:
            await request(world, server)
        for one in world.servers:
            law(not one.halts, "a server ended itself for no reason", one.halts)


def _windows_lack(world: World, operations: int) -> bool:
    return world.outcomes["window released"] < WINDOWS_RELEASED and world.operations < 4 * operations


async def last_look(world: World) -> None:
    """(law) Everything acknowledged is there, what was released is given again, and no log holds a traceback."""
    for server in range(NUM_SERVERS):
        audit(world, server)
        require_gone(world, server, world.destroyed.get(server, []))
        texts = _outside(world, server).tracebacks()
        law(not texts, "a traceback in the log", *texts)
    for course in world.courses:
        for server, name in [key for key in course.documents if key[1] == "aggregate"]:
            await ask(world, course, server, f"{name} again")


# --- what happens to processes -------------------------------------------------------------------------------


async def sudden_death(world: World, server: int) -> None:
    """SIGKILL at any moment of whatever goes on. (law) It starts again, and holds what it acknowledged."""
    world.did("SIGKILL")
    busy = asyncio.create_task(burst(world, server))
    await asyncio.sleep(world.chance.uniform(0, 0.1))
    world.servers[server].kill()
    await busy
    start(world, server)


async def killed_opener(world: World, _: int) -> None:
    """SIGKILL to a process that takes uploads. (law) The others go on, and nothing acknowledged is lost."""
    world.did("SIGKILL of an opener")
    busy = asyncio.create_task(burst(world, ON_WORKERS))
    await asyncio.sleep(world.chance.uniform(0, 0.1))
    _outside(world, ON_WORKERS).kill_opener(world.chance)
    await busy
    audit(world, ON_WORKERS)


async def asked_to_end(world: World, server: int) -> None:
    """SIGTERM under load. (law) It ends in order, and nothing acknowledged is lost."""
    world.did("SIGTERM")
    busy = asyncio.create_task(burst(world, server))
    await asyncio.sleep(world.chance.uniform(0, 0.05))
    await asyncio.to_thread(world.servers[server].terminate)
    await busy
    start(world, server)


async def back_up_all(world: World, _: int) -> None:
    """Copy the database of every server while it runs."""
    for server in range(NUM_SERVERS):
        await back_up(world, server)


async def moved_clock(world: World, server: int) -> None:
    """Start with a clock that is days wrong. (law) It takes nothing and destroys nothing; set right, all goes on."""
    world.did("clock step")
    one = world.servers[server]
    one.terminate()
    one.offset = world.chance.choice([400, 40, -2]) * DAY
    secrets = {name for name in one.files() if name.startswith("batches")}
    one.start()
    before = one.held()
    await burst(world, server)
    law(one.held().tasks == before.tasks, "a server with a wrong clock took reports")
    law(secrets <= set(one.files()), "a wrong clock destroyed something")
    one.terminate()
    one.offset = 0
    start(world, server)


async def killed_database(world: World, _: int) -> None:
    """SIGKILL to PostgreSQL, or to one of its processes, at any moment. (law) Nothing acknowledged is lost.

    (law) A server whose database is gone says that it cannot serve now, and serves again when the database does.
    """
    world.did("SIGKILL of PostgreSQL")
    one, server = _on_postgres(world), ON_POSTGRES
    one.cut_off = True
    busy = asyncio.create_task(burst(world, server) if world.maybe(0.5) else something(world, server))
    await asyncio.sleep(world.chance.uniform(0, 0.1))
    if world.maybe(0.4):
        await asyncio.to_thread(one.cluster.kill_one, world.chance)
    else:
        await asyncio.to_thread(one.cluster.kill)
        with_it = world.maybe(0.3)  # one machine, one power supply
        if with_it:
            one.kill()
        else:
            await something(world, server)
        await asyncio.to_thread(one.cluster.start)
        if with_it:
            await busy
            one.cut_off = False
            start(world, server)
            return
    await busy
    await _settled(world)
    one.cut_off = False
    audit(world, server)


async def _settled(world: World) -> None:
    """Wait until the server that lost its database reads it again. (law) It does, by itself."""
    course, one = world.courses[-1], _on_postgres(world)
    # What it has in memory it answers without its database. At its second look it has let go of each broken connection.
    await asyncio.sleep(2 * PROBE_SECONDS)
    for _ in range(SETTLING_SECONDS * 10):
        answer = await ask(world, course, ON_POSTGRES, "aggregate again")
        law(answer.status != 500, "a server without its database fails", answer.body)
        if one.halts or (answer is not LOST and answer.problem not in PASSING):
            return
        await asyncio.sleep(0.1)
    law(False, "a server does not find its database again")


FAULTS = [
    killed_database, killed_database, sudden_death, sudden_death, asked_to_end, moved_clock, back_up, old_copy,
    failover, lost_part, second_process, from_the_start,
]  # fmt: skip
"""Each happens once in every simulation, in an order that its seed decides."""

OFTEN = [sudden_death, killed_database, asked_to_end, back_up]
