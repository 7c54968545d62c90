"""Servers whose batches stand at every stage at once, made once and put back as often as somebody edits them."""

import random
from copy import copy
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

from lintra_protocol.task import Task
from simulation.books import Course, Seat
from simulation.editor import Editor
from simulation.faults import back_up
from simulation.inside import InsideServer
from simulation.reading import read_journal
from simulation.requesting import NAMES, judge_upload, next_question, parcel_of, register
from simulation.trouble import Trouble
from simulation.world import World, new_course, new_world

SIZES = (18, 22, 30)
"""Clients of a batch: few, so that a history has many releases, and enough for one after some reports are lost."""

TASKS = 6
ROUNDS = 7
"""In which clients send and the analyst asks, before the histories begin."""

LATE = 2
"""Reports of each batch that nobody sends before."""

WINDOW_UNITS = (1, 2)


@dataclass
class Stages:
    """Two or three stopped servers, what the outside knows of them, and what an editor saw meanwhile."""

    world: World
    folder: Path
    editor: Editor
    wall: float
    running: float

    def again(self, seed: int) -> tuple[World, Editor]:
        """Put every folder and database back, and return the world as it was, with another chance."""
        made, chance = self.world, random.Random(seed)
        for number, server in enumerate(made.servers):
            server.load(self.folder / str(number))
        made.times.wall, made.times.running = self.wall, self.running
        courses = {id(course): _copied(course) for course in made.courses}
        for course in courses.values():
            course.parts = [courses[id(part)] for part in course.parts]
        world = copy(made)
        world.chance = chance
        world.courses = list(courses.values())
        world.seats = [_copied(seat) for seat in made.seats]
        for name in ("counts", "outcomes", "logged", "backups", "secrets", "destroyed", "sealed", "moved", "touched"):
            setattr(world, name, _copied_value(getattr(made, name)))
        world.counts.clear()
        world.outcomes.clear()
        return world, self.editor.again(world)


def _copied_value(value: object) -> object:
    """Return a copy of a container and of those in it."""
    if isinstance(value, dict):
        made = copy(value)
        made.update({key: _copied_value(each) for key, each in value.items()})
        return made
    if isinstance(value, list):
        return [_copied_value(each) for each in value]
    return copy(value) if isinstance(value, set) else value


Each = TypeVar("Each", Course, Seat)


def _copied(known: Each) -> Each:
    made = copy(known)
    for each in fields(known):
        if each.name != "parts":
            setattr(made, each.name, _copied_value(getattr(known, each.name)))
    return made


async def new_stages(folder: Path, seed: int, trouble: Trouble, kind: type[InsideServer], tasks: int = TASKS) -> Stages:
    """Let tasks come to every stage, with commits that fail on the way, and stop the servers."""
    world = new_world(folder / "servers", seed, trouble, kind)
    world.sizes, world.window_sizes, world.window_units = SIZES, SIZES, WINDOW_UNITS
    editor = Editor(world)
    for _ in range(tasks):
        course = new_course(world)
        for server in course.servers:
            await register(world, course, server)
    editor.stranger = _stranger(world)
    for course in world.courses:
        course.hostile = None
    most = len(NAMES) * len(world.servers) - 1
    steps = {course.key: world.chance.choice([0, world.chance.randrange(most)]) for course in world.courses}
    for number in range(ROUNDS):
        for course in world.courses:
            await _send_some(world, course, last=number == ROUNDS - 1)
        editor.remember()
        for server in range(len(world.servers)):
            if number in (3, ROUNDS - 1):
                await back_up(world, server)
        world.times.pass_(1800)
    for _ in range(len(NAMES) * len(world.servers)):
        for course in world.courses:
            if steps[course.key] > 0 and not course.over and course.closes <= world.times.wall:
                await next_question(world, course)
                steps[course.key] -= 1
        editor.remember()
    for number, server in enumerate(world.servers):
        await back_up(world, number)
        (server.terminate if world.maybe(0.5) else server.kill)()  # type: ignore[attr-defined]
        server.save(folder / str(number))  # type: ignore[attr-defined]
    return Stages(world, folder, editor, world.times.wall, world.times.running)


def _stranger(world: World) -> Task:
    """Make a task without tokens, which nobody will register."""
    known = list(world.courses)
    while (task := new_course(world).task).uses_tokens:
        pass
    world.courses[:] = known
    return task


async def _send_some(world: World, course: Course, *, last: bool) -> None:
    """Let some clients send, now and then first into a commit that fails when its row was seen."""
    for server in course.servers:
        waiting = course.waiting.get(server, [])
        if course.begins > world.times.wall or 0 < course.closes <= world.times.wall:
            continue
        count = world.chance.randint(1, 6) if not last else max(0, len(waiting) - LATE)
        failing = not last and world.maybe(0.4)
        for _ in range(2 if failing else 1):
            mine = world.chance.sample(waiting, min(count, max(0, len(waiting) - LATE)))
            if mine:
                if failing:
                    world.trouble.arm("refused")
                parcel = parcel_of(world, "upload", course, server, mine)
                world.seats[server].reached(course.key, mine)
                (answer,) = await world.servers[server].upload([(course.task.task_id, parcel.body)])
                judge_upload(world, parcel, answer)
                world.trouble.disarm()
                failing = False
            waiting = course.waiting.get(server, [])


def places(world: World, server: int) -> dict[int, Course]:
    """Return the batches of a server by their place in its database."""
    lines = read_journal(world.servers[server].key_dir / "journal")
    known = {course.key: course for course in world.courses}
    opened = {line.facts["place"]: line.batches[0] for line in lines if line.state == "opened"}
    return {place: known[key] for place, key in opened.items() if key in known}
