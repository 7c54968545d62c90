"""The world of a simulation: servers, clocks, tasks in progress, and the one source of chance."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lintra_protocol.crypto.randomness import RandomBytes, expand
from lintra_protocol.crypto.ring import to_ring
from lintra_protocol.crypto.sealing import CLASSICAL, SealingKey, seal
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.crypto.tokens import derived_keys, key_commitment, key_context, make_token
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.fields.windows import Windows
from lintra_protocol.messages.documents import Registration, TaskRecord, sign
from lintra_protocol.report.report import make_report
from lintra_protocol.report.upload import SealedBlock
from lintra_protocol.task import AnalyzerEntry, ServerEntry, Task
from simulation.books import Course, Seat, Sent, law
from simulation.inside import InsideServer, Times, settings_of
from simulation.reading import Held, Snapshot, key_file, read_journal
from simulation.streams import STREAMS, StreamBooks, in_a_stream
from simulation.trouble import INJECTED, Trouble
from simulation.verified import FORGED, forged_report
from support.checked_world import verified
from support.measured import calibrated_for
from support.server_world import ANALYZER, AUTHOR, CLAIM, COLUMNS, MECHANISMS, PRECISION, START, noised_by_servers

SMALL_SIZES = (8, 10, 25)
"""Of one that may be merged with others."""

WINDOW = 2000
"""Time units from a task's beginning to its end: longer than any simulation."""

WINDOWED, VERIFIED, HOSTILE = 0.25, 0.4, 0.15
"""Of all tasks of a simulation."""

STREAMED = False
"""Whether every task with windows has a stream."""


@dataclass(frozen=True)
class Backup:
    """A copy of a server's database, and what the outside knew when it was made."""

    folder: Path
    held: Snapshot


@dataclass
class World:
    """Everything there is.

    Attributes:
        chance: decides everything; two worlds with one seed do the same.
        counts: what was done, by kind; each is one request or one fault.
        outcomes: what became of tasks and reports.
        logged: tracebacks that servers wrote.
        precision: seconds in a time unit of every task.
        sizes: numbers of clients.
        windowed: how many of all tasks have windows.
        window_units: how long these are.
        window_sizes: numbers of their clients.
        loose: whether a request may arrive long after its answer, or another one of the same, came.
        touched: tables and keys of rows that somebody edited and that belong to no batch yet, by server.
        moved: how many reports of a source each release holds that it is in, by task and token.
        streams: what servers drew and remember in windows that are a stream.
        secrets: the keys of batches, wrapped, read from the key folder before their release, by server and batch.
    """

    folder: Path
    chance: random.Random
    times: Times
    trouble: Trouble
    servers: list[InsideServer]
    seats: list[Seat]
    witnessed: bool
    counts: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    logged: list[str] = field(default_factory=list)
    courses: list[Course] = field(default_factory=list)
    backups: dict[int, list[Backup]] = field(default_factory=dict)
    secrets: dict[tuple[int, str], bytes] = field(default_factory=dict)
    destroyed: dict[int, list[bytes]] = field(default_factory=dict)
    sealed: dict[tuple[int, tuple[bytes, ...]], SealedBlock] = field(default_factory=dict)
    analyzer_key: SealingKey = field(default_factory=lambda: SealingKey.generate(CLASSICAL, seeded("analyzer", 0)))
    moved: dict[tuple[str, bytes], list[int]] = field(default_factory=dict)
    touched: dict[int, set[tuple[str, object]]] = field(default_factory=dict)
    streams: StreamBooks = field(default_factory=StreamBooks)
    made: int = 0
    precision: int = PRECISION
    sizes: Sequence[int] = (15, 40, 60, 100, 150)
    windowed: float = 0.0
    window_units: Sequence[int] = (1, 2, 6)
    window_sizes: Sequence[int] = (15, 25, 40)
    loose: bool = False

    @property
    def operations(self) -> int:
        """Return how many requests and faults there were."""
        return self.counts.total()

    def did(self, kind: str) -> None:
        """Count one request or one fault."""
        self.counts[kind] += 1

    def maybe(self, probability: float) -> bool:
        return self.chance.random() < probability

    def random_bytes(self, label: str) -> RandomBytes:
        """Return a stream that depends on the seed and on how many were made before."""
        self.made += 1
        return expand(self.chance.randbytes(32), f"{label} {self.made}")

    def is_up(self, server: int) -> bool:
        return self.servers[server].is_up

    def unwell(self, server: int) -> bool:
        """Return whether this simulation did something to a server for which it may refuse to serve."""
        one = self.servers[server]
        return self.trouble.fired or bool(one.halts) or one.offset != 0 or one.set_back or one.cut_off or not one.is_up

    def active(self) -> list[Course]:
        """Return the batches that have begun, and are not over."""
        return [course for course in self.courses if not course.over and course.begins <= self.times.wall]

    def require_quiet_logs(self) -> None:
        """(law) No traceback in any log but those of faults that this simulation made."""
        for text in self.logged:
            law(any(words in text for words in INJECTED), "a traceback in the log", text)
        self.logged.clear()

    def stop(self) -> None:
        """End every server's process."""
        self.trouble.disarm()
        for server in self.servers:
            if server.is_up:
                server.kill()

    def close(self) -> None:
        """End every server, and what its database needed."""
        self.stop()
        for server in self.servers:
            server.close()


def seeded(label: str, seed: int) -> RandomBytes:
    return expand(seed.to_bytes(32, "big"), f"simulation {label}")


def new_world(folder: Path, seed: int, trouble: Trouble, kind: type[InsideServer] = InsideServer) -> World:
    """Found two servers, or now and then three, with or without witnesses."""
    chance = random.Random(seed)
    times = Times(float(START))
    witnessed = chance.random() < 0.3
    servers = []
    for number in range(3 if chance.random() < 0.2 else 2):
        witness = folder / f"witness{number}" if witnessed else None
        if witness is not None:
            witness.mkdir(parents=True)
        settings = settings_of(folder, number, witness)
        servers.append(kind(settings, times, seeded(f"server {number}", seed), trouble))
    seats = [Seat(number) for number in range(len(servers))]
    world = World(folder, chance, times, trouble, servers, seats, witnessed, windowed=WINDOWED)
    for server in servers:
        server.open()
        server.start()
    return world


# --- tasks and their clients ---------------------------------------------------------------------------------


def identities(world: World) -> list[SigningKey]:
    """Return the signing keys of all servers; attackers among them use their own."""
    keys = [server.identity for server in world.servers]
    return [key for key in keys if key is not None]


def token_keys(world: World) -> Sequence[bytes]:
    return derived_keys(bytes(32), [key.public_key for key in identities(world)])


def new_course(world: World) -> Course:
    """Make a task, its clients and their reports; nothing is sent yet. Of one with windows, return the first."""
    chance = world.chance
    servers = world.servers
    tokens = world.maybe(0.6)
    columns = COLUMNS[:2]
    capacity = chance.choice([40, 400, 400, 400])
    mechanism = MECHANISMS["sum" if STREAMED else chance.choice(["osnap", "sum", "second_moment"])]
    # A clock that runs ahead is no stranger: some clients send before their task's first unit.
    begins = int(world.times.wall) // world.precision + (1 if world.maybe(0.2) else -1)
    windows = new_windows(world)
    salt, stream = world.random_bytes("salt")(32), None
    if windows is not None and salt[0] % 2 and not STREAMED:
        windows = windows.model_copy(update={"max_merge": 2 + salt[1] % (windows.max_windows - 1)})
    elif windows is not None and (stream := STREAMS[salt[3] % len(STREAMS)]) is not None:
        windows = windows.model_copy(update={"max_windows": 2 + windows.max_windows})
    task = Task(
        salt=base64url(salt),
        purpose="a simulation",
        author_key=AUTHOR.public_key,
        servers=tuple(
            ServerEntry(url=server.settings.public_url, identity_key=key.public_key)
            for server, key in zip(servers, identities(world), strict=True)
        ),
        analyzer=AnalyzerEntry(
            identity_key=ANALYZER.public_key, sealing_key=base64url(world.analyzer_key.public_bytes)
        ),
        columns=columns,
        mechanism=calibrated_for(mechanism, len(columns), CLAIM, capacity),
        claim=CLAIM,
        max_clients=capacity,
        max_missing="0.25",
        time_precision=world.precision,
        not_before=begins,
        not_after=begins + (windows.units if windows else WINDOW),
        batches="windowed" if windows else "single",
        windows=windows,
        suite=CLASSICAL,
        client_auth="token" if tokens else "none",
        token_keys=tuple(map(key_commitment, token_keys(world))) if tokens else (),
    )
    # Merged windows have a claim that counts reports.
    if task.max_merge == 1 and (STREAMED or salt[2] % 3 < (1 if windows is None else 2)):
        task = noised_by_servers(task)
    if world.maybe(VERIFIED):
        task = verified(task)
    if windows is not None and stream is not None and task.noise == "servers" and "stream" in task.mechanism.allows:
        task = in_a_stream(task, windows, stream)
    record = sign(AUTHOR, TaskRecord(definition=task)).canonical()
    courses = [Course(task, record, batch) for batch in range(task.num_batches)]
    hostile = chance.randrange(len(servers)) if len(servers) > 1 and world.maybe(HOSTILE) else None
    if task.verified is not None:
        hostile = None  # attackers among its servers have tests of their own
    sizes = world.sizes if windows is None else world.window_sizes if windows.max_merge == 1 else SMALL_SIZES
    for course in courses:
        course.hostile = hostile
        before = courses[course.batch - 1] if course.batch and task.reports_per_source > 1 else None
        _add_clients(world, course, chance.choice(sizes), before)
    world.courses += courses
    return courses[0]


def new_windows(world: World) -> Windows | None:
    """Return the windows of a task, or None if it has a single batch."""
    if not world.windowed or not world.maybe(world.windowed):
        return None
    count = world.chance.choice([2, 2, 3])
    return Windows(
        window=world.chance.choice(world.window_units),
        grace=world.chance.choice([0, 1]),
        max_windows=count,
        reports_per_source=world.chance.choice([1, 2]),
    )


def _add_clients(world: World, course: Course, count: int, before: Course | None = None) -> None:
    # Who may answer twice answers the window before with the same token, too.
    same = list(before.reports.values()) if before else []
    task, chance = course.task, world.chance
    rng = world.random_bytes("clients")
    values = np.random.default_rng(chance.randrange(2**32)).uniform(-0.5, 0.5, (count, len(task.columns)))
    noised = task.encode(values, rng)
    for number, row in enumerate(noised):
        sent = _new_sent(world, course, row, same[number] if number < len(same) // 2 else None, rng)
        # Most clients reach everybody; an orphan's parcel to one server is never sent.
        orphaned = chance.randrange(task.num_servers) if world.maybe(0.06) else None
        for server in course.servers:
            if server != orphaned:
                course.waiting.setdefault(server, []).append(sent.report_id)
    for waiting in course.waiting.values():
        chance.shuffle(waiting)


def _new_sent(world: World, course: Course, row: np.ndarray, token_of: Sent | None, rng: RandomBytes) -> Sent:
    task = course.task
    token = None
    if task.uses_tokens:
        token = token_of.token if token_of else make_token(token_keys(world), task.id_bytes, rng)
    forged = task.verified is not None and world.maybe(FORGED)
    made = (forged_report if forged else make_report)(task, row, task.span(course.batch)[0], rng)
    sent = Sent(made, [int(word) for word in to_ring(row)], token, forged)
    course.reports[sent.report_id] = sent
    return sent


def another_with(world: World, course: Course, first: Sent) -> Sent:
    """Make a second report of somebody who uses one token twice."""
    rng = world.random_bytes("twin")
    row = course.task.encode(np.full((1, len(course.task.columns)), 0.25), rng)[0]
    return _new_sent(world, course, row, first, rng)


def registration(world: World, course: Course, server: int) -> bytes:
    """Return what the author sends to register a task at a server."""
    task = course.task
    if not task.uses_tokens:
        return course.record
    key_id, public_key = world.servers[server].sealing_key()
    sealed = seal(token_keys(world)[server], task.suite, public_key, key_context(task.id_bytes, server))
    record = sign(AUTHOR, TaskRecord(definition=task))
    return Registration(record=record, key_id=base64url(key_id), token_key=base64url(sealed)).canonical()


# --- what was edited -----------------------------------------------------------------------------------------


def mark_edited(world: World, server: int) -> None:
    """Note which batches somebody edited, also before they were opened."""
    pending = world.touched.get(server)
    if not pending:
        return
    lines = read_journal(world.servers[server].key_dir / "journal")
    batches = {line.facts["place"]: line.batches[0] for line in lines if line.state == "opened"}
    tasks = {line.facts["place"]: line.task for line in lines if line.state == "registered"}
    for table, key in list(pending):
        place = key >> 32 if table == "segments" and isinstance(key, int) else key
        if table == "tasks" and place in tasks:
            found = {course.key for course in world.courses if course.task.task_id == tasks[place]}
        elif table != "tasks" and place in batches:
            found = {batches[place]}
        else:
            continue
        world.seats[server].edited |= found
        pending.discard((table, key))


# --- what must be gone ---------------------------------------------------------------------------------------


def remember_secret(world: World, server: int, batch: str, held: Held) -> None:
    """Read a batch's key from the key folder, as a thief does who comes before its release."""
    path = key_file(world.servers[server].key_dir, held)
    if path.exists():
        world.secrets[server, batch] = path.read_bytes()


def require_gone(world: World, server: int, secrets: Sequence[bytes]) -> None:
    """(law) Nothing that a server stores holds a destroyed key, so nothing of its batch opens, in no copy."""
    folders = (world.servers[server].key_dir, world.servers[server].data_dir)
    for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        law(not any(secret in data for secret in secrets), "a destroyed key is still in a file", path.name)
