"""Attacks of several steps on one batch, each against one rule: some histories of the editor begin with one.

Chance alone seldom does such steps in their order. Whoever carries one out edits only what he may, so all laws hold
where the rules are kept; a server without the rule is found by the law that stands in `edited_mutants`.
"""

from collections.abc import Awaitable, Callable, Iterator

import pytest

from lintra_protocol.rules.release import fewest_reports
from lintra_server.storage import segments as segment_rows
from simulation.books import Course
from simulation.editor import SPAN, Editor, Row
from simulation.edits import fits
from simulation.faults import mend
from simulation.requesting import census, hostile_question, judge_upload, next_question, parcel_of, register, upload_one
from simulation.stages import places
from simulation.world import World, mark_edited, new_course

Attack = Callable[[World, Editor], Awaitable[None]]

STEPS = 20
"""Questions until a batch is released, at most."""


async def payloads_of_another_row(world: World, editor: Editor) -> None:
    """Copy the payloads of one row over those of another, of the same length, and let the batch be released."""
    for server, place, course in _open(world, editor):
        rows = list(editor.read(server, "segments", place).items())
        pairs = [(key, row, other) for key, row in rows for _, other in rows if fits(row, other)]
        if pairs:
            key, row, other = world.chance.choice(pairs)
            _edited(editor, server, key, row | {"payloads": other["payloads"]}, "payloads of another row")
            await _released(world, course)
            return


async def row_of_a_failed_commit_at_the_last_moment(world: World, editor: Editor) -> None:
    """Put mark and payloads of a commit that failed into a row whose mark was just checked, before it is opened."""
    for server, place, course in _open(world, editor):
        rows = editor.read(server, "segments", place)
        found = [
            (key, row | {"mark": other["mark"], "payloads": other["payloads"]})
            for key, row in rows.items()
            for other in editor.versions.get((-1, "segments", key), ())
            if fits(row, other) and other["ids"] != row["ids"]
        ]
        if not found:
            continue
        key, swapped = world.chance.choice(found)

        async def meanwhile(server: int = server, key: int = key, row: Row = swapped) -> None:
            _edited(editor, server, key, row, "a failed commit's row at the last moment")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(segment_rows, "MAX_STEP_BYTES", 1)  # a large row is never joined with others
            for _ in range(STEPS):
                opened = (server, "cohort") in course.documents
                world.servers[server].meanwhile = meanwhile if opened else None
                if course.over:
                    break
                await next_question(world, course)
        world.servers[server].meanwhile = None
        return


async def row_of_a_failed_commit(world: World, editor: Editor) -> None:
    """Put the row of a failed commit over the one that was stored in its place, and let the batch be closed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_rows, "MAX_STEP_BYTES", 1)  # a large row is never joined with others
        await row_of_a_failed_commit_that_is_joined(world, editor)


async def row_of_a_failed_commit_that_is_joined(world: World, editor: Editor) -> None:
    """Do the same to a row that is joined with others when the batch is closed."""
    for server, place, course in _open(world, editor):
        rows = editor.read(server, "segments", place)
        found = [
            (key, other)
            for key, row in rows.items()
            for other in editor.versions.get((-1, "segments", key), ())
            if fits(row, other) and (other["total"], len(other["mark"])) == (row["total"], len(row["mark"]))
        ]
        if not found:
            continue
        key, failed = world.chance.choice(found)
        _edited(editor, server, key, failed, "a failed commit's row in the place of the stored one")
        await _released(world, course)
        return


async def row_of_a_failed_commit_at_the_end(world: World, editor: Editor) -> None:
    """Let a commit fail and another one take its place, and put the failed row over that, the last one of a batch."""
    for server, place, course in _open(world, editor):
        waiting = course.waiting.get(server, [])[:2]
        if len(waiting) < 2 or 0 < course.closes <= world.times.wall:
            continue
        for number, report_id in enumerate(waiting):
            if number == 0:
                world.trouble.arm("refused")
            parcel = parcel_of(world, "upload", course, server, [report_id])
            world.seats[server].reached(course.key, [report_id])
            (answer,) = await world.servers[server].upload([(course.task.task_id, parcel.body)])
            judge_upload(world, parcel, answer)
            world.trouble.disarm()
        failed = {row["key"]: row for row in world.trouble.refused}
        editor.remember([server])
        rows = editor.read(server, "segments", place)
        last = max(rows, default=None, key=int)  # type: ignore[call-overload]
        if last in failed and rows[last] != failed[last]:
            _edited(editor, server, last, failed[last], "a failed commit's row in the place of the last one")
            if world.maybe(0.5):
                world.servers[server].kill()
                world.servers[server].start()
            await _released(world, course)
            return


async def opened_while_it_is_closed(world: World, editor: Editor) -> None:
    """Let a row say that its batch is open, while its list is being signed, and send it another report."""
    for server, place, course in _open(world, editor):
        if not course.waiting.get(server) or course.closes > world.times.wall:
            continue

        async def meanwhile(server: int = server, place: int = place, course: Course = course) -> None:
            row = editor.read(server, "batches", place).get(place)
            if row is not None:
                row = row | {"state": "open"}
                _edited(editor, server, place, row, "a batch is opened while it is closed", "batches")
            await upload_one(world, course, server)

        for _ in range(STEPS):
            if course.over or (server, "inventory") in course.documents:
                break
            world.servers[server].meanwhile = meanwhile
            await next_question(world, course)
        world.servers[server].meanwhile = None
        return


async def victim_left_alone(world: World, editor: Editor) -> None:
    """Cut most reports of an honest server; a few come again, and all others are left out by the other servers."""
    for server, place, course in _open(world, editor):
        held, rows = world.seats[server].must.get(course.key, set()), editor.read(server, "segments", place)
        total = max((row["total"] for row in rows.values()), default=0)
        left = max((row["total"] for row in rows.values() if row["total"] < total), default=0)
        again = max(0, fewest_reports(course.task) - left)
        if not course.task.uses_tokens or total != len(held) or 4 * (left + again) >= 3 * total:
            continue
        world.servers[server].kill()
        editor.count("the last rows of an honest server are cut")
        editor.put(server, "segments", max(rows), None)
        mark_edited(world, server)
        world.seats[server].damaged.add(course.key)
        mend(world, server)
        world.servers[server].start()
        course.hostile = server
        lost = sorted(held - world.seats[server].must[course.key])[:again]
        if lost:
            parcel = parcel_of(world, "upload", course, server, lost)
            (answer,) = await world.servers[server].upload([(course.task.task_id, parcel.body)])
            judge_upload(world, parcel, answer)
        for _ in range(STEPS // 2):
            if not course.over:
                await hostile_question(world, course)
        return


async def list_taken_away(world: World, editor: Editor) -> None:
    """Empty the inventory of a released batch, or delete its rows, and send again a report that it holds."""
    for server in range(len(world.servers)):
        for place, course in places(world, server).items():
            held = sorted(world.seats[server].must.get(course.key, ()))
            released = (server, "aggregate") in course.documents and not course.parts and held
            if not released or not editor.may("batches", place) or course.key in world.seats[server].bare:
                continue
            row = editor.read(server, "batches", place).get(place)
            if row is not None and world.maybe(0.5):
                _edited(editor, server, place, row | {"inventory": None}, "an inventory is emptied", "batches")
            else:
                for key in editor.read(server, "segments", place):
                    _edited(editor, server, key, None, "the rows of a released batch are deleted")
            parcel = parcel_of(world, "upload repeated", course, server, held[:2])
            (answer,) = await world.servers[server].upload([(course.task.task_id, parcel.body)])
            judge_upload(world, parcel, answer)
            return


async def look_taken_away(world: World, editor: Editor) -> None:
    """Delete the row of a look, now and then while the server stands still, and look again in the same unit."""
    for server, place, course in _open(world, editor):
        if not course.waiting.get(server):
            continue
        await census(world, server, course)
        before = editor.read(server, "looks", place).get(place)
        if before is None:
            continue
        await upload_one(world, course, server)
        restarted = world.maybe(0.5)
        if restarted:
            world.servers[server].kill()
        _edited(editor, server, place, None, "a look that was told is deleted", "looks")
        if restarted:
            world.servers[server].start()
        await census(world, server, course)
        return


async def look_changed(world: World, editor: Editor) -> None:
    """Let a look say that fewer reports were counted, or put another batch's in its place."""
    for server, place, course in _open(world, editor):
        await census(world, server, course)
        row = editor.read(server, "looks", place).get(place)
        if row is None:
            continue
        others = [other for other in editor.rows["looks"] if other["census"] not in (None, row["census"])]
        changes = [{"reports": row["reports"] - 1}, *({"census": other["census"]} for other in others[:2])]
        _edited(editor, server, place, row | world.chance.choice(changes), "a look is changed", "looks")
        await census(world, server, course)
        return


async def places_exchanged(world: World, editor: Editor) -> None:
    """Let the rows of two batches say that each belongs to the other's task, and let one of them be released."""
    known = list(_open(world, editor))
    for server, place, course in known:
        for at, other, another in known:
            if at == server and another.batch == course.batch and another.task != course.task:
                rows = [editor.read(server, "batches", each).get(each) for each in (place, other)]
                if rows[0] is not None and rows[1] is not None:
                    for key, row, taken in ((place, rows[0], rows[1]), (other, rows[1], rows[0])):
                        exchanged = row | {"task": taken["task"]}
                        _edited(editor, server, key, exchanged, "a batch is given to another task", "batches")
                    await _released(world, course)
                    return


async def rows_of_another_batch(world: World, editor: Editor) -> None:
    """Give one batch the rows of another while the server stands still, and let it be closed."""
    known = list(_open(world, editor))
    for server, place, course in known:
        others = [other for at, other, _ in known if at == server and other != place]
        if not others:
            continue
        await _moved(world, editor, server, world.chance.choice(others), place)
        await _released(world, course)
        return


async def rows_of_another_batch_in_a_new_one(world: World, editor: Editor) -> None:
    """Give a batch that has no reports the rows of another, as if a crash had come before their note."""
    course = new_course(world)
    while course.begins > world.times.wall:
        course = new_course(world)
    for server in course.servers:
        await register(world, course, server)
    for server, place, other in _open(world, editor):
        new = next((at for at, each in places(world, server).items() if each is course), None)
        if other is not course and new is not None and editor.may("batches", new):
            await _moved(world, editor, server, place, new)
            await _released(world, course)
            return


ATTACKS: tuple[Attack, ...] = (
    payloads_of_another_row,
    row_of_a_failed_commit_at_the_last_moment,
    row_of_a_failed_commit,
    row_of_a_failed_commit_that_is_joined,
    row_of_a_failed_commit_at_the_end,
    opened_while_it_is_closed,
    victim_left_alone,
    list_taken_away,
    look_taken_away,
    look_changed,
    places_exchanged,
    rows_of_another_batch,
    rows_of_another_batch_in_a_new_one,
)


def _open(world: World, editor: Editor) -> Iterator[tuple[int, int, Course]]:
    """Yield server and place of open batches that nobody touched and that he may edit, in any order."""
    found = [
        (server, place, course)
        for server in range(len(world.servers))
        for place, course in places(world, server).items()
        if editor.may("batches", place)
        and all(map(world.is_up, course.servers))
        and course.begins <= world.times.wall
        and not course.over
        and not any(name == "inventory" for _, name in course.documents)
        and not world.seats[server].hurt(course)
        and course.key not in world.seats[server].given_up
    ]
    world.chance.shuffle(found)
    yield from found


def _edited(editor: Editor, server: int, key: object, row: Row | None, kind: str, table: str = "segments") -> None:
    editor.count(kind)
    editor.put(server, table, key, row)
    mark_edited(editor.world, server)


async def _moved(world: World, editor: Editor, server: int, place: int, to: int) -> None:
    """Give the rows of one batch to another while a server stands still."""
    world.servers[server].kill()
    editor.count("the rows of another batch")
    for key in editor.read(server, "segments", to):
        editor.put(server, "segments", key, None)
    for key, row in editor.read(server, "segments", place).items():
        moved = to * SPAN + int(str(key)) % SPAN
        editor.put(server, "segments", moved, row | {"key": moved})
    mark_edited(world, server)
    world.servers[server].start()


async def _released(world: World, course: Course) -> None:
    """Let the analyst ask for a batch until there is no more to ask for."""
    for _ in range(STEPS):
        if course.over:
            return
        await next_question(world, course)
