"""What happens to servers: kills between any two writes, full disks, old copies, losses, clocks, second processes."""

import shutil
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from sqlalchemy.exc import OperationalError

from lintra_protocol.errors import LintraError
from lintra_server.storage.key_folder import ACCEPT_FILE, BusyError
from lintra_server.storage.server_resources import NotStartedError
from lintra_service.settings import InvalidSettingsError
from simulation.books import Course, law
from simulation.reading import STATES, UNKEPT, Snapshot, after_restore, key_file, read_journal
from simulation.requesting import ask, burst, hostile_question, next_question, parcel_of, register, repeat_question
from simulation.trouble import CrashError
from simulation.world import Backup, World

DAY = 86_400
HOUR = 3600
MOST_WRITES = 14
"""A kill comes within so many writes, or after the request if it makes fewer."""


# --- starting again ------------------------------------------------------------------------------------------


def start(world: World, server: int) -> None:
    """Start a server. (law) After crashes alone it always does, and holds what it acknowledged."""
    one = world.servers[server]
    try:
        one.start()
    except (InvalidSettingsError, LintraError) as error:
        law(False, "a server does not start after a crash", error)
    audit(world, server)


def audit(world: World, server: int) -> None:
    """Compare what a server stores with what it acknowledged."""
    one, seat = world.servers[server], world.seats[server]
    held = one.held()
    if (one.key_dir / "journal").exists():
        lines = read_journal(one.key_dir / "journal")
        seat.journal((line.batches, line.state) for line in lines)
        require_order(world, server, [line.batches[-1] for line in lines if line.state == "released"])
    for course in world.courses:
        batch = course.key
        law(batch not in seat.never or batch not in held.tasks, "a window from before a restore was opened", batch)
        if batch in held.tasks:
            seat.stored(course, sorted(held.tasks[batch].report_ids), held.tasks[batch].counted)
        elif course.batch:  # a later window is opened by its first report
            law(not seat.must.get(batch), "acknowledged reports are not stored", f"server {server}", batch)
        else:
            law(batch in seat.given_up or batch not in seat.tasks, "a registered task is unknown", batch)


def require_order(world: World, server: int, released: Sequence[str]) -> None:
    """(law) The windows of each stream were released in ascending order."""
    for task in {course.task.task_id: course.task for course in world.courses}.values():
        if task.stream is not None:
            world.streams.check_order(task, server, released)


def restore(
    world: World, server: int, backup: Backup | None, *, journal_lost: bool = False, trusted: bool = True
) -> None:
    """Run the restore command on a stopped server, hold its decisions against the docs, and start it.

    (law) Of a batch that goes on it says how many reports are gone.
    """
    one, seat = world.servers[server], world.seats[server]
    world.did("restore")
    lines = read_journal(one.key_dir / "journal")
    found = (backup.held if backup else one.held()).by(lines)
    keyless = {task for task, held in found.tasks.items() if not key_file(one.key_dir, held).exists()}
    vouched = (trusted or world.witnessed) and not journal_lost
    expected = {} if journal_lost else after_restore(found, lines, trusted=vouched, keyless=keyless)
    done = one.restore(
        backup.folder if backup else None, journal_lost=journal_lost, never_copied=trusted and not journal_lost
    )
    now = world.times.wall
    if journal_lost:
        world.backups[server] = []  # they belong to the journal that is lost
    learn(world, server, found, expected, now)
    for course in world.courses:
        if (
            expected.get(course.key) == "kept"
            and found.tasks[course.key].state != "merged"
            and lacking(world, server, course)
        ):
            told = any(named(course) in text for text in done.lost)
            law(told or seat.hurt(course), "a restore lost reports in silence", course.key)
            seat.damaged.add(course.key)
    # What is registered from now on begins later than what may have been lost.
    world.times.pass_(3 * HOUR)
    if world.maybe(0.7):
        mend(world, server)
    one.start()
    world.seats[server].barred = world.times.wall
    audit(world, server)


def learn(world: World, server: int, found: Snapshot, expected: dict[str, str], restored: float) -> None:
    """Note what an announced restore gave up and lost. (law) It decides as docs/how-to/operations.md says."""
    seat, now = world.seats[server], world.servers[server].held()
    for course in world.courses:
        task = course.key
        state = now.tasks[task].state if task in now.tasks else "unknown"
        promised = expected.get(task, "unknown")
        entered = course.task.task_id in now.entered
        if promised == "kept":
            law(state == found.tasks[task].state, "a restore changed a batch it keeps", found.tasks[task].state, state)
            if not entered:
                seat.tasks.discard(course.task.task_id)  # its author registers it again
            if state != "merged":  # of one that was released with another nothing has to be there any more
                continue
        if promised == "released":
            seat.bare.add(task)  # or all of it is there
        law(
            state == promised or promised == "kept",
            "a restore decided otherwise than the docs say",
            promised,
            state,
            task,
        )
        kept = now.tasks[task].report_ids if task in now.tasks else frozenset()
        acknowledged = seat.must.get(task, set())
        seat.lost.setdefault(task, set()).update(acknowledged - kept)
        seat.must[task] = acknowledged & kept
        seat.damaged.discard(task)
        seat.never.discard(task)
        if promised == "unknown" and entered and course.begins > restored:
            continue  # a window that nobody could answer yet
        if promised in ("abandoned", "unknown") and course.task.task_id in seat.maybe_tasks:
            seat.given_up.add(task)
            if promised == "unknown" and course.batch:
                seat.never.add(task)
            if not (course.closes and entered):  # of a task with windows the others go on
                seat.tasks.discard(course.task.task_id)
            course.over = True
            world.outcomes["batch given up by a restore"] += 1


# --- reports that are gone ------------------------------------------------------------------------------------


def named(course: Course) -> str:
    """Return how a server names a batch when it says that reports are gone."""
    return f"task {course.task.task_id}, batch {course.batch}:"


def lacking(world: World, server: int, course: Course) -> set[bytes]:
    """Return which acknowledged reports of a batch a server's database lacks."""
    held = world.servers[server].held().tasks.get(course.key)
    return world.seats[server].must.get(course.key, set()) - (held.report_ids if held else set())


async def hear_losses(world: World, server: int) -> None:
    """Ask a server that started on an older database. (law) It names every batch of which reports are gone."""
    seat, entered = world.seats[server], world.servers[server].held().entered
    for course in world.courses:
        gone = lacking(world, server, course)
        if course.task.task_id in seat.tasks and course.task.task_id not in entered:
            await register(world, course, server)
        if gone and not seat.hurt(course):
            answer = await ask(world, course, server, "census")
            over = course.task.not_after * course.task.time_precision <= world.times.wall
            told = named(course).encode() in answer.body or (over and answer.problem == "unrecognized_task")
            law(told, "reports were lost in silence", len(gone), course.key, answer.body)
            seat.damaged.add(course.key)
            world.outcomes["batch was damaged"] += 1


def mend(world: World, server: int) -> None:
    """Let the operator of a stopped server accept what is lost, or give batches up.

    (law) It says at least how many there were.
    """
    one, seat = world.servers[server], world.seats[server]
    for course in [each for each in world.courses if each.key in seat.damaged]:
        world.did("loss accepted or given up")
        gone = lacking(world, server, course)
        state = one.held().tasks[course.key].state
        if state == "open" and world.maybe(0.8):
            try:
                said = one.accept_loss(course.task.task_id, course.batch)
            except NotStartedError as error:
                law("nothing of" in str(error), "a loss cannot be accepted", error)
                seat.damaged.discard(course.key)  # whoever took the rows away put them back
                continue
            law(said >= len(gone), "fewer reports are said to be lost than are", said, len(gone), course.key)
            gone = lacking(world, server, course)  # whatever stood behind the gap is gone, too
            law(said >= len(gone), "fewer reports are said to be lost than are", said, len(gone), course.key)
            seat.cut.setdefault(course.key, set()).update(gone)
        elif state not in ("released", "abandoned"):
            one.abandon(course.task.task_id, course.batch)
            held = one.held().tasks
            for each in world.courses:
                if each.key in held and held[each.key].state == "abandoned":
                    seat.given_up.add(each.key)
                    each.over = True
        seat.lost.setdefault(course.key, set()).update(gone)
        seat.must.setdefault(course.key, set()).difference_update(gone)
        seat.damaged.discard(course.key)


async def mended(world: World, server: int) -> None:
    """Stop a server that has damaged batches, let its operator decide, and start it."""
    if world.seats[server].damaged:
        world.servers[server].terminate()
        mend(world, server)
        start(world, server)


# --- crashes and disks ---------------------------------------------------------------------------------------


async def something(world: World, server: int) -> None:
    """Do a request or a chore at one server."""
    active = [course for course in world.active() if course.task.task_id in world.seats[server].tasks]
    match world.chance.randrange(6):
        case 0 | 1:
            await burst(world, server)
        case 2 | 3 if active:
            course = world.chance.choice(active)
            await (next_question if course.hostile is None else hostile_question)(world, course)
        case 4 if active:
            await register(world, world.chance.choice(active), server)
        case _:
            with suppress(CrashError, OSError, OperationalError, LintraError):
                world.servers[server].upkeep()  # the hourly chore reports it, and comes again


async def crash(world: World, server: int) -> None:
    """Kill a server between two writes of whatever it does."""
    world.did("SIGKILL between two writes")
    world.trouble.arm("crash", world.chance.randrange(MOST_WRITES), after=world.maybe(0.5))
    await something(world, server)
    hit = world.trouble.fired
    for other, one in enumerate(world.servers):  # `something` may have reached another server
        if one.is_up and (other == server or hit):
            one.kill()
    world.trouble.disarm()
    for other, one in enumerate(world.servers):
        if not one.is_up:
            if hit and world.maybe(0.3):
                crash_at_start(world, other)
            start(world, other)


def crash_at_start(world: World, server: int) -> None:
    """Kill a server while it starts."""
    world.did("SIGKILL while starting")
    world.trouble.arm("crash", world.chance.randrange(MOST_WRITES), after=world.maybe(0.5))
    try:
        world.servers[server].start()
        world.servers[server].kill()
    except (CrashError, LintraError):
        law(world.trouble.fired, "a server did not start for no reason")
    finally:
        world.trouble.disarm()


async def terminate(world: World, server: int) -> None:
    """Stop a server as SIGTERM does, and start it."""
    world.did("SIGTERM")
    world.servers[server].terminate()
    start(world, server)


async def full_disk(world: World, server: int) -> None:
    """Let the disk be full for a while. (law) Nothing is lost, and with room it works again."""
    world.did("disk full")
    world.trouble.arm("full")
    for _ in range(world.chance.randint(1, 3)):
        await something(world, server)
    world.trouble.disarm()
    for other, one in enumerate(world.servers):
        law(not one.halts, "a full disk ended a server", one.halts)
        audit(world, other)


async def failed_sync(world: World, server: int) -> None:
    """Let one synchronisation fail; a server that cannot know what is on its disk ends itself."""
    world.did("synchronisation fails")
    world.trouble.arm("sync", world.chance.randrange(4))
    await something(world, server)
    for other, one in enumerate(world.servers):
        if one.halts:
            one.kill()
            world.trouble.disarm()
            start(world, other)
    world.trouble.disarm()


# --- old copies ----------------------------------------------------------------------------------------------


async def back_up(world: World, server: int) -> None:
    """Copy the database while the server runs."""
    world.did("backup")
    folder = world.folder / f"backup{world.operations}"
    kept = world.backups.setdefault(server, [])
    kept.append(Backup(folder, world.servers[server].back_up(folder)))
    if len(kept) > 4:
        shutil.rmtree(kept.pop(world.chance.randrange(3)).folder)


def any_backup(world: World, server: int) -> Backup | None:
    kept = world.backups.get(server, [])
    return world.chance.choice(kept) if kept else None


async def old_copy(world: World, server: int) -> None:
    """Put an old database in the place of the newer one.

    (law) It is refused if it lacks steps, and nothing is changed. (law) Else the server says of which batches reports
    are gone.
    """
    one, backup = world.servers[server], any_backup(world, server)
    if backup is None:
        return
    world.did("restore of an old copy")
    one.note()
    one.kill()
    trusted = world.maybe(0.7)
    if world.maybe(0.5):
        restore(world, server, backup, trusted=trusted)
        return
    one.put_raw(backup.folder)
    before, lines = one.files(), read_journal(one.key_dir / "journal")
    ahead = sum(line.state not in (*UNKEPT, "started") for line in lines[backup.held.lines :])
    try:
        one.start()
    except NotStartedError as error:
        law(ahead > 0, "a database that lacks no step was refused", error)
        law(one.files() == before, "a refused start changed the key folder")
        restore(world, server, None, trusted=trusted)
        return
    # One step ahead, with its file: the start finished it, as after a crash.
    law(ahead < 2, "a server started on an old copy", ahead)
    await hear_losses(world, server)
    audit(world, server)


async def failover(world: World, server: int) -> None:
    """Set the database back beneath a running server, as a failover to a late replica does.

    (law) It is noticed before anything is said that the lost part would change.
    """
    one = world.servers[server]
    if world.maybe(0.5):  # the replica is late by a few requests only
        await back_up(world, server)
        for _ in range(3):
            await something(world, server)
    kept = world.backups.get(server, [])
    if not kept or one.halts or not one.is_up:
        return
    backup = world.chance.choice([kept[-1], *kept])
    world.did("failover to an old state")
    one.note()
    one.set_back = True  # until that is noticed it may refuse what it knows nothing of, but say nothing wrong
    one.fall_back(backup.folder)
    for _ in range(world.chance.randint(0, 4)):
        if one.halts:
            break
        await (repeat_question(world, server) if world.maybe(0.5) else something(world, server))
    if not one.halts:
        one.note()
    one.kill()
    one.set_back = False
    try:
        one.start()
    except NotStartedError:
        restore(world, server, None, trusted=world.maybe(0.7))
    else:
        await hear_losses(world, server)
        audit(world, server)


async def snapshot(world: World, server: int) -> None:
    """Set both folders back together. (law) The witness tells."""
    if not world.witnessed:
        return
    world.did("snapshot of both folders")
    one = world.servers[server]
    one.terminate()
    old = world.folder / "snapshot"
    for folder in (one.data_dir, one.key_dir):
        shutil.copytree(folder, old / folder.name)
    start(world, server)
    await something(world, server)
    if one.is_up:
        one.kill()
    for folder in (one.data_dir, one.key_dir):
        folder.rename(world.folder / f"newer-{folder.name}")
        (old / folder.name).rename(folder)
    try:
        one.start()
        law(False, "a snapshot of both folders started beside a witness")
    except NotStartedError as error:
        law("witness" in str(error), "a snapshot was refused for another reason", error)
    for folder in (one.data_dir, one.key_dir):
        shutil.rmtree(folder)
        (world.folder / f"newer-{folder.name}").rename(folder)
    shutil.rmtree(old)
    start(world, server)


# --- losses and second processes -----------------------------------------------------------------------------


async def lost_part(world: World, server: int) -> None:
    """Lose one file. (law) The start names it or the command, and makes nothing in its place."""
    world.did("key loss")
    one = world.servers[server]
    one.note()
    one.kill()
    keys = [key_file(one.key_dir, held) for held in one.held().tasks.values() if held.state in ("open", *STATES[:4])]
    choices = [one.key_dir / name for name in ("identity.key", "storage-root.key", "journal", "journal.key", "notes")]
    lost = world.chance.choice([*choices, *keys[:2]])
    aside = world.folder / "aside"
    lost.rename(aside)
    before = one.files()
    try:
        one.start()
        law(False, "a server started without", lost.name)
    except NotStartedError:
        law(one.files() == before, "a refused start changed the key folder", lost.name)
    if lost.name == "journal" and world.maybe(0.3):
        aside.unlink()
        restore(world, server, None, journal_lost=True)
    elif lost in keys and world.maybe(0.5):
        aside.unlink()
        restore(world, server, None)
    else:
        aside.rename(lost)
        start(world, server)


async def second_process(world: World, server: int) -> None:
    """Start a second process on the same folders. (law) It is refused, and the first one goes on."""
    world.did("second process")
    try:
        world.servers[server].new_node()
        law(False, "two processes own one key folder")
    except BusyError:
        pass
    audit(world, server)


async def copied_keys(world: World, server: int) -> None:
    """Let a second process begin on the same database with a copied key folder. (law) One of the two stops."""
    world.did("copied key folder")
    one = world.servers[server]
    copy = world.folder / "copied-keys"
    shutil.copytree(one.key_dir, copy)
    (copy / "lock").unlink()
    files = {"identity_key_file": copy / "identity.key", "storage_root_key_file": copy / "storage-root.key"}
    one.new_node(one.settings.model_copy(update={"key_dir": copy, **files})).close()
    await something(world, server)
    if not one.halts:
        one.note()
    one.kill()
    try:
        one.start()
        law(False, "a server started whose database belongs to a copy of its key folder")
    except NotStartedError:
        pass
    restore(world, server, None, journal_lost=True)
    shutil.rmtree(copy)


# --- clocks --------------------------------------------------------------------------------------------------


async def wrong_clock(world: World, server: int) -> None:
    """Start a server with a wrong clock, or let it jump. (law) Nothing is destroyed; right again, all goes on."""
    world.did("clock step")
    one = world.servers[server]
    running = world.maybe(0.4)
    if not running:
        one.terminate()
    one.offset = world.chance.choice([400, -400, 40, -2, 3000]) * DAY
    if not running:
        one.start()
    there = set(one.files())
    for _ in range(2):
        one.node.maintain()
        await burst(world, server)
        world.times.pass_(1.5 * HOUR)
    try:
        one.node.clock.check()
        law(False, "a wrong clock is believed", one.offset / DAY)
    except LintraError:
        pass
    gone = {name for name in there - set(one.files()) if name.startswith("batches")}
    law(not gone, "a wrong clock destroyed something", gone)
    one.terminate()
    one.offset = 0
    start(world, server)


async def long_stop(world: World, server: int) -> None:
    """Switch everything off for longer than a clock is believed; the operator says that it is right."""
    if world.counts["long stop of all"]:
        return
    world.did("long stop of all")
    for one in world.servers:
        one.terminate()
    world.times.wall += 31 * DAY
    world.sealed.clear()  # the keys that they were sealed to are old
    for one in world.servers:
        one.start()
        law(bool(one.node.clock.complaint), "a clock is believed after a long stop")
        (one.key_dir / ACCEPT_FILE).touch(mode=0o600)
        one.note()
    for _ in range(2):  # keys are destroyed an hour after somebody saw that they are over
        for each, one in enumerate(world.servers):
            one.node.maintain()
            audit(world, each)
        world.times.pass_(1.5 * HOUR)


async def an_hour(world: World, server: int) -> None:
    """Let an hour pass, and its upkeep come."""
    world.did("an hour passes")
    world.times.pass_(HOUR)
    for one in world.servers:
        one.node.maintain()
        one.note()


async def from_the_start(world: World, server: int) -> None:
    """Register a task again that a restore gave up, and send all its reports again, as somebody may who recorded them.

    (law) Its batch stays given up: it may have been released in the part that was lost.
    """
    seat = world.seats[server]
    gone = [course for course in world.courses if course.key in seat.given_up]
    if not gone or not world.is_up(server):
        return
    world.did("task from before a restore")
    course = world.chance.choice(gone[-6:])
    await register(world, course, server)
    known = sorted(seat.may.get(course.key, ())) or course.waiting.get(server, [])[:5]
    seat.reached(course.key, known)
    parcels = [parcel_of(world, "upload recorded before", course, server, known[:100])] if known else []
    for parcel in parcels:
        world.did(parcel.kind)
        await world.servers[server].upload([(course.task.task_id, parcel.body)])
    answer = await ask(world, course, server, "inventory")
    law(not answer.good, "a batch that was given up goes on", "it gave an inventory", course.key)
    audit(world, server)


async def lost_memory(world: World, server: int) -> None:
    """Stop a server, take away what it remembers of its noise, or bring back an older state of that, and start it."""
    one = world.servers[server]
    world.did("lost memory of noise")
    one.terminate()
    if world.maybe(0.5):
        world.streams.forget(one.key_dir, server)
    else:
        world.streams.put_back(one.key_dir, server, world.chance)
    start(world, server)


Fault = Callable[[World, int], Awaitable[None]]
FAULTS: dict[Fault, float] = {
    crash: 10,
    terminate: 4,
    full_disk: 4,
    failed_sync: 3,
    back_up: 4,
    old_copy: 2.5,
    failover: 2.5,
    snapshot: 2,
    lost_part: 2.5,
    second_process: 2,
    copied_keys: 0.5,
    wrong_clock: 2,
    long_stop: 0.3,
    from_the_start: 2.5,
    mended: 2,
    an_hour: 3,
    lost_memory: 2,
}
"""How often each happens, relative to the others."""
