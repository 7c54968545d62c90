"""Histories in which nearly every step is an edit of a database: live, of stopped servers, or before a restore.

Each begins with batches at every stage (see `stages`). Somebody edits a batch, and the analyst and clients ask for it.
He puts back what he changed or not, the server starts again or not, its operator accepts a loss or not.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from lintra_protocol.errors import LintraError
from lintra_protocol.messages.documents import Signed, TaskRecord
from lintra_protocol.task import Task
from lintra_server import node
from lintra_server.operations.manifests import DoctoredBackupError
from lintra_server.storage import identity
from lintra_server.storage import segments as segment_rows
from lintra_service.settings import InvalidSettingsError
from simulation.attacks import ATTACKS, Attack
from simulation.books import Course, law
from simulation.editor import STANDING, Editor
from simulation.edits import edit
from simulation.faults import audit, hear_losses, mend, named, restore
from simulation.inside import InsideServer
from simulation.requesting import (
    census,
    judge_upload,
    lost_here,
    next_question,
    parcel_of,
    register,
    repeat_question,
    upload_one,
)
from simulation.running import FAST, listening
from simulation.stages import TASKS, Stages, new_stages, places
from simulation.trouble import CrashError, Trouble, install
from simulation.world import World, mark_edited, token_keys

LONGEST = 160
"""Edits of one history."""

HISTORIES = 40
"""Of one set of stages; then another is made."""

WITH_ATTACK, UNJOINED = 0.25, 0.25
"""Of all histories: those that begin with an attack, and those whose rows are too large to be joined."""

HOUR = 3600
REPLAY = "again: .venv/bin/python -m pytest -n 0 tests/simulation/test_editor.py --seed"


@dataclass
class Result:
    """What happened in some histories, and what became of batches and reports."""

    counts: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    edits: int = 0
    histories: int = 0


async def edited_histories(
    seed: int,
    edits: int,
    kind: type[InsideServer] = InsideServer,
    begins: Sequence[Attack] = (),
    tasks: int = TASKS,
) -> Result:
    """Run histories of some tasks from one seed until there were enough edits.

    Each begins with one of the attacks in `begins`; without them one in `WITH_ATTACK` begins with any.

    Raises:
        ViolationError: a law was broken; its notes say in which history.
    """
    result, trouble = Result(), Trouble()
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((node, "NOTE_SECONDS"), (identity, "LOOK_SECONDS")):
            patch.setattr(module, name, 1e6)  # seconds pass when the simulation says so
        install(patch, trouble)
        part = 0
        while result.edits < edits:
            with _folder() as folder, listening([]):
                stages = await new_stages(folder, seed * 1000 + part, trouble, kind, tasks)
                try:
                    await _some_histories(stages, seed, edits, result, begins)
                finally:
                    stages.world.close()
            part += 1
    return result


async def _some_histories(stages: Stages, seed: int, edits: int, result: Result, begins: Sequence[Attack]) -> None:
    for number in range(HISTORIES):
        if result.edits >= edits:
            return
        world, editor = stages.again(number)
        attack = world.chance.choice(begins or ATTACKS) if begins or world.maybe(WITH_ATTACK) else None
        try:
            with listening(world.logged), pytest.MonkeyPatch.context() as patch:
                if world.maybe(UNJOINED):
                    patch.setattr(segment_rows, "MAX_STEP_BYTES", 1)
                await _history(world, editor, attack)
        except Exception as error:
            error.add_note(f"after {result.edits + editor.edits} edits of seed {seed}, the last one: {editor.last}")
            error.add_note(f"{REPLAY} {seed} --operations {edits}")
            raise
        finally:
            world.stop()
        result.counts.update(world.counts)
        result.outcomes.update(world.outcomes)
        result.edits += editor.edits
        result.histories += 1


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="lintra-edits-", dir=FAST if FAST.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# --- one history ------------------------------------------------------------------------------------------------------


async def _history(world: World, editor: Editor, attack: Attack | None) -> None:
    most = world.chance.choice([10, 30, 80, LONGEST])
    for server in range(len(world.servers)):
        if attack is None and world.maybe(0.5):
            _edit(world, editor, server, _focus(world, server), most)
        _begin(world, server)
    if attack is not None:
        await attack(world, editor)
        _require_standing(world)
    while editor.edits < most:
        await _round(world, editor, most)
    if world.maybe(0.15):
        await _restored(world, editor, world.chance.randrange(len(world.servers)))
    for server in range(len(world.servers)):
        if world.maybe(0.85):
            editor.put_back(server)
        if world.maybe(0.9):
            await _again(world, server)
    await _to_the_end(world)
    for server in range(len(world.servers)):
        audit(world, server)


async def _round(world: World, editor: Editor, most: int) -> None:
    """Edit something of a batch, and ask for it."""
    server = world.chance.randrange(len(world.servers))
    place = _focus(world, server)
    course, dice = places(world, server).get(place), world.chance.random()
    if dice < 0.05:
        world.servers[server].kill()
        for _ in range(3):
            _edit(world, editor, server, place, most)
        _begin(world, server)
    elif dice < 0.06:
        await _standing(world, editor, server)
    elif dice < 0.07:
        await _trigger(world, editor, server, place)
    elif dice < 0.09:
        await _interrupted(world, editor, server, place)
    elif dice < 0.18:

        async def meanwhile() -> None:
            world.did("edited in the middle of a step")
            _edit(world, editor, server, place, most)
            if course is not None and world.maybe(0.4):
                await upload_one(world, course, server)

        world.servers[server].meanwhile = meanwhile
    else:
        _edit(world, editor, server, place, most)
    for _ in range(world.chance.randint(1, 4)):
        if course is not None:
            await _ask_for(world, course, server)
    world.servers[server].meanwhile = None
    if editor.stranger is not None and world.maybe(0.05):
        await stranger(world, editor.stranger, server)
    if world.maybe(0.55):
        editor.put_back(server)
    if world.maybe(0.04):
        editor.remember([server])
    if world.maybe(0.07):
        await _again(world, server)
    world.times.pass_(world.chance.random() * 60)
    _require_standing(world)


def _focus(world: World, server: int) -> int:
    """Return the place of a batch, more often of one that is not over."""
    known = places(world, server)
    active = [place for place, course in known.items() if not course.over]
    return world.chance.choice(active if active and world.maybe(0.85) else list(known))


def _edit(world: World, editor: Editor, server: int, place: int, most: int) -> None:
    for _ in range(world.chance.choice([1, 1, 2, 3, 5])):
        if editor.edits < most:
            edit(editor, server, place)
            place = _focus(world, server) if world.maybe(0.15) else place


def _require_standing(world: World) -> None:
    for one in world.servers:
        law(not one.halts, "a server ended itself for no reason", one.halts)
    world.require_quiet_logs()


async def _ask_for(world: World, course: Course, server: int) -> None:
    """Do something about one batch, as its clients or its analyst do."""
    if not all(map(world.is_up, course.servers)):
        return
    dice = world.chance.random()
    if dice < 0.55 and not course.over and course.begins <= world.times.wall:
        await next_question(world, course)
    elif dice < 0.72 and course.begins <= world.times.wall:
        await _upload(world, course, server)
    elif dice < 0.8 and not course.over:
        await census(world, server, course)
    elif dice < 0.88:
        await definition(world, course, server)
    elif dice < 0.93:
        await register(world, course, server)
    elif dice < 0.96:
        world.times.pass_(HOUR / 3)
        with suppress(CrashError, OperationalError, LintraError):
            world.servers[server].upkeep()  # the hourly chore reports it, and comes again
    else:
        await repeat_question(world, server)


async def _upload(world: World, course: Course, server: int) -> None:
    """Send a report that waits, or one that was acknowledged, or both."""
    waiting, held = course.waiting.get(server, [])[:2], sorted(world.seats[server].must.get(course.key, ()))
    mine = [
        *waiting[: world.chance.randint(0, 2)],
        *world.chance.sample(held, min(len(held), world.chance.randint(0, 2))),
    ]
    if mine:
        if world.maybe(0.1):
            world.trouble.arm("refused")
        parcel = parcel_of(world, "upload", course, server, mine)
        world.did(parcel.kind)
        world.seats[server].reached(course.key, mine)
        (answer,) = await world.servers[server].upload([(course.task.task_id, parcel.body)])
        judge_upload(world, parcel, answer)
        world.trouble.disarm()


# --- what a task is ---------------------------------------------------------------------------------------------------


async def definition(world: World, course: Course, server: int) -> None:
    """Ask for a task. (law) It is the one that its author registered, and its tokens are checked with its own key."""
    answer = await world.servers[server].ask(course.task.task_id, "definition")
    world.did("question: definition")
    key = token_keys(world)[server] if course.task.uses_tokens else b""
    record = answer.body.removesuffix(key)
    if answer.good:
        law(len(record) + len(key) == len(answer.body), "tokens are checked with another key", course.key)
        said = Signed[TaskRecord].from_canonical(record).message.definition
        law(said == course.task, "a task is served with another promise", course.key)
    else:
        stopped = world.seats[server].stops(course, answer.problem)
        fair = world.unwell(server) or stopped or course.key in lost_here(world, server)
        fair = fair or course.task.task_id not in world.seats[server].tasks
        law(fair, "a healthy server does not know a task", answer.problem, answer.body)


async def stranger(world: World, task: Task, server: int) -> None:
    """Ask for a task that no author registered. (law) It is unknown, whatever the database says."""
    world.did("question: a task that nobody registered")
    answer = await world.servers[server].ask(task.task_id, "definition")
    law(not answer.good, "a task that nobody registered is served", answer.body)


# --- starts -----------------------------------------------------------------------------------------------------------


def _begin(world: World, server: int) -> None:
    """Start a server whose database was edited. (law) No row of a batch or a task stops it."""
    try:
        world.servers[server].start()
    except (InvalidSettingsError, LintraError) as error:
        law(False, "an edited row of a batch stops the start", error)


async def _again(world: World, server: int) -> None:
    """Stop a server and start it; its operator mends what it complains of, or not."""
    one, seat = world.servers[server], world.seats[server]
    (one.terminate if world.maybe(0.3) else one.kill)()
    _begin(world, server)
    wrong = one.node.store.check_ends()
    hurt = [
        course for course in world.courses if any(named(course) in text and "accept-loss" in text for text in wrong)
    ]
    if hurt and world.maybe(0.6):
        one.kill()
        seat.damaged.update(course.key for course in hurt)
        mend(world, server)
        _begin(world, server)


async def _standing(world: World, editor: Editor, server: int) -> None:
    """Edit what the database says of the whole server. (law) It serves, or ends itself, or does not start."""
    one = world.servers[server]
    rows = {table: editor.read(server, table) for table in STANDING}
    changes = list(editor.changes)
    one.set_back = True
    editor.edit_standing(server)
    for _ in range(world.chance.randint(0, 2)):
        if not one.halts:
            await repeat_question(world, server)
    one.kill()
    one.set_back = False
    older = [row["version_num"] for row in editor.read(server, "alembic_version").values()] != ["0001"]
    try:
        one.start()
        law(not older, "a database that calls itself another version's was started")
    except (InvalidSettingsError, LintraError):
        for table in STANDING:
            for key in editor.read(server, table):
                editor.put(server, table, key, None)
            for key, row in rows[table].items():
                editor.put(server, table, key, row)
        _begin(world, server)
    editor.changes = changes


async def _interrupted(world: World, editor: Editor, server: int, place: int) -> None:
    """Kill a server between a commit and its note; when the report came again, let somebody delete it."""
    one, course = world.servers[server], places(world, server).get(place)
    mine = course.waiting.get(server, [])[:1] if course is not None and course.begins <= world.times.wall else []
    if course is None or not mine:
        return
    world.did("killed between a commit and its note")
    parcel = parcel_of(world, "upload", course, server, mine)
    world.seats[server].reached(course.key, mine)
    for crashes in (True, False):
        if crashes:
            world.trouble.arm("crash", 1)
        (answer,) = await one.upload([(course.task.task_id, parcel.body)])
        judge_upload(world, parcel, answer)
        one.kill()
        if not crashes:
            editor.count("a row after a crash")
            for key in list(editor.read(server, "segments", place))[-1:]:
                editor.put(server, "segments", key, None)
            mark_edited(world, server)
        _begin(world, server)


async def _trigger(world: World, editor: Editor, server: int, place: int) -> None:
    """Plant a trigger for a while. (law) What acts within the server's own transactions ends it, and is named."""
    one = world.servers[server]
    if not editor.may("batches", place):
        return
    editor.count("trigger")
    world.touched.setdefault(server, set()).add(("batches", place))
    name = world.chance.choice(list(one.triggers(place)))
    for statement in one.triggers(place)[name]:
        one.past(statement)
    one.set_back = True
    course = places(world, server).get(place)
    for _ in range(2):
        if not one.halts and course is not None:
            await _ask_for(world, course, server)
    one.past(one.untrigger)
    if one.halts:
        law("planted" in one.halts[0], "a server ended itself and did not name the trigger", one.halts)
        one.kill()
        _begin(world, server)
        await hear_losses(world, server)
    one.set_back = False


# --- before a restore -------------------------------------------------------------------------------------------------


async def _restored(world: World, editor: Editor, server: int) -> None:
    """Edit a backup, which is refused; then edit what was put in place past its manifest, and restore."""
    one, backup = world.servers[server], world.chance.choice(world.backups[server])
    one.kill()
    if one.has_manifests:
        doctored = world.folder / "doctored"
        shutil.rmtree(doctored, ignore_errors=True)
        shutil.copytree(backup.folder, doctored)
        before, changes = (backup.folder / one.database.name).read_bytes(), list(editor.changes)
        with one.looking_at(doctored) as database:
            _edit(world, editor, server, _focus(world, server), editor.edits + 3)
        changed, editor.changes = before != database.read_bytes(), changes
        try:
            one.put_back(doctored)
            law(not changed, "a backup that was changed was put in place")
        except DoctoredBackupError:
            law(changed, "a backup that nobody changed was refused")
    place = _focus(world, server)

    def edit_it() -> None:
        _edit(world, editor, server, place, editor.edits + 3)

    one.before_restoring = edit_it
    with suppress(KeyError):
        restore(world, server, backup, trusted=world.maybe(0.7))
    one.before_restoring = None
    for _ in range(3):
        course = places(world, server).get(_focus(world, server))
        if course is not None:
            await _ask_for(world, course, server)


# --- the end ----------------------------------------------------------------------------------------------------------


async def _to_the_end(world: World) -> None:
    """Let the analyst ask for every batch until there is no more to ask for."""
    for course in world.courses:
        for _ in range(20):
            if course.over or course.begins > world.times.wall:
                break
            if course.closes > 0 and course.closes > world.times.wall:
                world.times.pass_(course.closes - world.times.wall)
            await next_question(world, course)
    _require_standing(world)
