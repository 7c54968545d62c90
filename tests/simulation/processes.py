"""A simulation with three server processes behind faulty proxies: the same requests and laws, real kills and clocks.

The seed decides what is asked and when something happens; how far a process had come by then the machine decides. So a
failure comes again often, but not always.
"""

import asyncio
import random
import shutil
import socket
import tempfile
from pathlib import Path

from simulation.books import Seat, law, read_database
from simulation.faults import DAY, audit, back_up, failover, from_the_start, lost_part, old_copy, second_process, start
from simulation.inside import InsideServer
from simulation.outside import OutsideServer, RealTimes, outside_settings
from simulation.proxy import Proxy
from simulation.requesting import ask, burst, register
from simulation.running import FAST, request
from simulation.trouble import Trouble
from simulation.world import World, new_course, require_gone, seeded

NUM_SERVERS = 3
REPLAY = "again: .venv/bin/python -m pytest -n 0 tests/simulation/test_processes.py --seed"


async def simulate_processes(seed: int, operations: int, planted: str = "") -> World:
    """Run a simulation with processes and return its world, closed.

    Args:
        seed: of all that is asked and done.
        operations: at least so many requests and faults.
        planted: the name of a rule that the servers lack, if they are to lack one.

    Raises:
        ViolationError: a law was broken; its notes say at which operation.
    """
    folder = Path(tempfile.mkdtemp(prefix="lintra-processes-", dir=FAST if FAST.is_dir() else None))
    world = _new_world(folder, seed, planted)
    try:
        for server in world.servers:
            await _proxy(server).open()
            await asyncio.to_thread(server.start)
        await _live(world, operations)
        await _last_look(world)
    except Exception as error:
        error.add_note(f"after {world.operations} operations of seed {seed}; {REPLAY} {seed} --operations {operations}")
        raise
    finally:
        for server in world.servers:
            await _proxy(server).close()
            server.kill()
        shutil.rmtree(folder, ignore_errors=True)
    for server in world.servers:
        world.counts.update(_proxy(server).counts)
    return world


def _proxy(server: InsideServer) -> Proxy:
    proxy = server.proxy if isinstance(server, OutsideServer) else None
    if proxy is None:
        raise RuntimeError("a server in this process has no proxy")
    return proxy


def _new_world(folder: Path, seed: int, planted: str) -> World:
    chance = random.Random(seed)
    times, trouble = RealTimes(), Trouble()
    servers: list[InsideServer] = []
    for number in range(NUM_SERVERS):
        ports = _free_ports()
        proxy = Proxy(random.Random(seed * NUM_SERVERS + number), ports[0], ports[1])
        servers.append(
            OutsideServer(
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
    return world


def _free_ports() -> tuple[int, int, int]:
    listeners = [socket.socket() for _ in range(3)]
    try:
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        first, second, third = (int(listener.getsockname()[1]) for listener in listeners)
        return first, second, third
    finally:
        for listener in listeners:
            listener.close()


async def _live(world: World, operations: int) -> None:
    """Send requests; now and then one of the faults of the list happens, until each did."""
    waiting = [*FAULTS, *world.chance.choices(OFTEN, k=3)]
    world.chance.shuffle(waiting)
    waiting.append(back_up_all)  # first, so that there are old copies
    every = operations // (len(waiting) + 1)
    while world.operations < operations or waiting:
        while len(world.active()) < 2:
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


async def _last_look(world: World) -> None:
    """(law) Everything acknowledged is there, what was released is given again, and no log holds a traceback."""
    for server, one in enumerate(world.servers):
        audit(world, server)
        require_gone(world, server, world.destroyed.get(server, []))
        texts = one.tracebacks() if isinstance(one, OutsideServer) else []
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
    secrets = {name for name in one.files() if name.startswith("secrets")}
    one.start()
    before = read_database(one.database)
    await burst(world, server)
    law(read_database(one.database).tasks == before.tasks, "a server with a wrong clock took reports")
    law(secrets <= set(one.files()), "a wrong clock destroyed something")
    one.terminate()
    one.offset = 0
    start(world, server)


FAULTS = [
    sudden_death, sudden_death, asked_to_end, moved_clock, back_up, old_copy, failover, lost_part,
    second_process, from_the_start,
]  # fmt: skip
"""Each happens once in every simulation, in an order that its seed decides."""

OFTEN = [sudden_death, asked_to_end, back_up]
