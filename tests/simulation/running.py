"""One simulation from its seed: random requests and faults until there were enough, then a last look at everything."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import structlog
from structlog.typing import EventDict, WrappedLogger

from lintra_server import node
from lintra_server.storage import identity
from simulation.books import ViolationError, law
from simulation.faults import DAY, FAULTS, HOUR, Fault, audit
from simulation.inside import InsideServer
from simulation.requesting import ask, burst, census, hostile_question, next_question, register, repeat_question
from simulation.trouble import Trouble, install
from simulation.world import World, new_course, new_world, require_gone

FAST = Path("/dev/shm")
"""A disk in memory, where there is one."""


REPLAY = "again: .venv/bin/python -m pytest -n 0 tests/simulation/test_simulation.py --seed"
FAULT_SHARE = 0.05
"""Of all steps; a step of another kind is up to thirty requests."""


async def simulate(
    seed: int,
    operations: int,
    fault_share: float = FAULT_SHARE,
    faults: Mapping[Fault, float] = FAULTS,
    kind: type[InsideServer] = InsideServer,
) -> World:
    """Run a simulation and return its world, closed.

    Args:
        seed: decides everything.
        operations: at least so many requests and faults.
        fault_share: of all steps that are faults.
        faults: how often each happens, relative to the others.
        kind: of the servers, which says what their databases are.

    Raises:
        ViolationError: a law was broken; its notes say at which operation.
    """
    trouble = Trouble()
    folder = Path(tempfile.mkdtemp(prefix="lintra-simulation-", dir=FAST if FAST.is_dir() else None))
    try:
        with pytest.MonkeyPatch.context() as patch:
            for module, name in ((node, "NOTE_SECONDS"), (identity, "LOOK_SECONDS")):
                patch.setattr(module, name, 1e6)  # seconds pass when the simulation says so
            install(patch, trouble)
            world = new_world(folder, seed, trouble, kind)
            world.streams.watch(patch)
            with listening(world.logged):
                try:
                    while world.operations < operations:
                        await step(world, fault_share, faults)
                    await last_look(world)
                except Exception as error:
                    note = f"after {world.operations} operations of seed {seed}; {REPLAY} {seed}"
                    error.add_note(f"{note} --operations {operations}")
                    raise
                finally:
                    world.close()
            return world
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def step(world: World, fault_share: float, faults: Mapping[Fault, float]) -> None:
    """Do one thing of some kind, and see that every server still stands."""
    while len(world.active()) < 2:
        course = new_course(world)
        for server in range(len(world.servers)):
            await register(world, course, server)
    server = world.chance.randrange(len(world.servers))
    if world.maybe(fault_share):
        (fault,) = world.chance.choices(list(faults), list(faults.values()))
        await fault(world, server)
    else:
        await request(world, server)
    world.times.pass_(world.chance.random() * 20)
    for one in world.servers:
        law(not one.halts, "a server ended itself for no reason", one.halts)
    world.require_quiet_logs()


async def request(world: World, server: int) -> None:
    """Send uploads, or ask something."""
    dice = world.chance.random()
    if dice < 0.53:
        await burst(world, server)
    elif dice < 0.79:
        course = world.chance.choice(world.active())
        if course.hostile is not None and (course.num_waiting < 6 or world.maybe(0.05)):
            await hostile_question(world, course)
        elif course.num_waiting < 6 or world.maybe(0.03):
            await next_question(world, course)
        else:
            await burst(world, server)
    elif dice < 0.94:
        await repeat_question(world)
    elif dice < 0.97:
        await census(world, server)
    else:
        await register(world, world.chance.choice(world.courses), server)


async def last_look(world: World) -> None:
    """(law) In the end everything acknowledged is there; when all time is over, nothing opens any more."""
    for server in range(len(world.servers)):
        audit(world, server)
    for one in world.servers:
        one.node.maintain()
    # All that is kept for later is over, and of no task was the end a year ago, when a server forgets it.
    world.times.pass_(280 * DAY)
    for _ in range(2):
        for one in world.servers:
            one.node.maintain()
        world.times.pass_(2 * HOUR)
    for server in range(len(world.servers)):
        held = [secret for (other, _), secret in world.secrets.items() if other == server]
        require_gone(world, server, [*world.destroyed.get(server, []), *held])
    for course in world.courses:  # what was released is still given out, the same
        for server, name in [key for key in course.documents if key[1] == "aggregate"]:
            await ask(world, course, server, f"{name} again")


@contextmanager
def listening(logged: list[str]) -> Iterator[None]:
    """Collect tracebacks from the logs; nothing else is written."""

    def hear(_: WrappedLogger, __: str, event: EventDict) -> str:
        if "traceback" in event or "exc_info" in event:
            logged.append(str(event.get("traceback", event)))
        return ""

    structlog.configure(processors=[hear], logger_factory=structlog.ReturnLoggerFactory())
    try:
        yield
    finally:
        structlog.reset_defaults()


__all__ = ["ViolationError", "simulate"]
