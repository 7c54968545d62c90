"""What there is in the model: the database, the key folder, the memory of the process, and what left the server."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

Ids = tuple[str, ...]
"""Reports, each named by a letter."""

Name = tuple[str, int]
"""A batch as the outside names it: task id and number."""


def text_of(name: Name) -> str:
    """Return how the way to a breach names a batch."""
    return f"{name[0]}{name[1]}"


Breach = Literal[
    "another promise", "second release", "second check", "silent loss", "false word", "other cohort",
    "too many left out", "token spent twice", "second look",
]  # fmt: skip
"""What must never be; `laws.breaches` says when each is."""

BREACHES: frozenset[Breach] = frozenset(get_args(Breach))


@dataclass(frozen=True)
class Rules:
    """Which rules hold. Each one that is off is a server that an edit breaks.

    Attributes:
        definition_hash: a definition is used only if its hash is the task id that was asked for.
        registered_line: and only if the journal says that this task was registered.
        associated_data: the key file of a batch, and all that is encrypted or marked under its key, name task id and
            batch. Off: they name the store number.
        caches: what memory holds of a batch is found by task id and batch. Off: by the store number.
        columns: state and columns of a batch are those of its journal lines. Off: those of its row.
        opened_once: a batch has one line `opened` and one key, also if its row is missing.
        merged_state: a window that was merged into another one is `merged` by that one's line, also after a start.
        marks: whoever uses ids has checked the mark of their row.
        chain: a mark covers the chain value before it.
        marks_kept: who opens payloads has the marks from the pass that was checked. Off: those that are there now.
        joined_marks: whoever joins segments has checked their marks.
        pass_ends: a pass that fills a cache or that a look is made of ends where memory says that the batch ends.
        whole_lookups: that a report is not here is believed of such a pass only. Off: of the one row that a table in
            memory leads to, behind a row that it fits.
        notes: the key folder says where each open batch ends.
        note_values: a note, and memory, hold the chain value at the end. Off: the number of reports alone.
        noted_start: a start notes the end that it found, before anything is answered.
        migrated_line: a database that is older than the line `migrated` is not started.
        lost_counted: lost reports count as this server's own and as missing.
        forked_loss: a loss counts at least one report, whatever the totals say.
        barred_line: which tasks are too old to be registered is read from the journal.
        look_after_start: no look is told in the time unit in which the process began.
    """

    definition_hash: bool = True
    registered_line: bool = True
    associated_data: bool = True
    caches: bool = True
    columns: bool = True
    opened_once: bool = True
    merged_state: bool = True
    marks: bool = True
    chain: bool = True
    marks_kept: bool = True
    joined_marks: bool = True
    pass_ends: bool = True
    whole_lookups: bool = True
    notes: bool = True
    note_values: bool = True
    noted_start: bool = True
    migrated_line: bool = True
    lost_counted: bool = True
    forked_loss: bool = True
    barred_line: bool = True
    look_after_start: bool = True


@dataclass(frozen=True)
class Bounds:
    """How much happens in a run.

    Attributes:
        sent: the reports that clients send, in this order, each with its batch.
        refused: tasks that the operator's policy refuses. Clients may be less strict.
        verified: tasks whose reports are checked before a release.
        merged: whether window 1 of a task may be closed together with window 0.
        same_token: two reports that come with the same token.
        max_missing: most of this server's own reports that a cohort may lack.
        edits: most edits.
        restarts: most starts after the first one.
        failures: most commits that fail after the adversary saw their rows.
        deaths: most processes that die between a commit and its note.
        joins: whether the server joins segments.
        losses: most uses of `accept-loss`.
        pauses: whether an edit may fall between the reading of marks and the reading of payloads of a release.
        old_schema: whether a migration from an older schema exists, and the column that says so may be edited.
        backups: most copies of the database that are put back.
        journal_lost: whether the journal may be lost, and the database restored without it.
        looks: whether the analyst asks how many reports there are.
        power_cuts: most power cuts, each of which takes the last note back.
        late_windows: whether a batch may be opened later than its task is registered.
    """

    sent: tuple[tuple[str, Name], ...] = (("a", ("A", 0)), ("b", ("A", 0)), ("c", ("B", 0)))
    refused: frozenset[str] = frozenset({"F"})
    verified: frozenset[str] = frozenset()
    merged: bool = False
    same_token: frozenset[str] = frozenset()
    max_missing: int = 1
    edits: int = 1
    restarts: int = 1
    failures: int = 0
    deaths: int = 0
    joins: bool = False
    losses: int = 0
    pauses: bool = False
    old_schema: bool = False
    backups: int = 0
    journal_lost: bool = False
    looks: bool = False
    power_cuts: int = 0
    late_windows: bool = False


class Symbols:
    """Numbers for tags, keys and ciphertexts: equal if and only if what went into them is."""

    def __init__(self) -> None:
        """Know none; 0 is nobody's number."""
        self._numbers: dict[Hashable, int] = {}
        self._contents: list[Hashable] = [None]

    def make(self, content: Hashable) -> int:
        """Return the number of some content, a new one if it has none."""
        number = self._numbers.get(content)
        if number is None:
            number = self._numbers[content] = len(self._contents)
            self._contents.append(content)
        return number

    def known(self, content: Hashable) -> int:
        """Return the number of some content; 0 if nobody made one."""
        return self._numbers.get(content, 0)

    def content(self, number: int) -> Hashable:
        """Return what a number stands for."""
        return self._contents[number]


class TaskRow(NamedTuple):
    """A row of `tasks`; where it stands is its store number. A definition is written as the id that is its hash."""

    task_id: str
    definition: str


class BatchRow(NamedTuple):
    """A row of `batches`, with the columns that steps set; where it stands is its store number."""

    task: int
    number: int
    state: str = "open"
    inventory: Ids | None = None
    cohort: Ids | None = None
    rejected: Ids | None = None


class Segment(NamedTuple):
    """A row of `segments`. `last` is in its key; `end` is 0 unless it was joined of several."""

    last: int
    ids: Ids
    mark: int
    end: int
    payloads: int


class Database(NamedTuple):
    """All that the adversary edits. A row that was deleted is None, so that no store number is used again."""

    tasks: tuple[TaskRow | None, ...] = ()
    batches: tuple[BatchRow | None, ...] = ()
    segments: tuple[tuple[Segment, ...], ...] = ()
    is_old: bool = False
    is_barred: bool = False
    look: int = -1


class End(NamedTuple):
    """Where a batch ends: how many reports, the chain value, and the number of the last segment."""

    total: int = 0
    value: int = 0
    last: int = -1


EMPTY = End()
CUT = End(-1, -1, -1)
"""Of a batch that takes and gives nothing: its chain is not the noted one, and nobody accepted that."""


class Pass(NamedTuple):
    """A reading of all segments of a batch, up to the first row that does not fit.

    Attributes:
        rows: those that fit.
        ids: all their reports.
        ends: where each row ends.
        is_whole: whether all rows fit.
    """

    rows: tuple[Segment, ...]
    ids: Ids
    ends: tuple[End, ...]
    is_whole: bool

    @property
    def end(self) -> End:
        """Return where the last row ends."""
        return self.ends[-1] if self.ends else EMPTY


class Record(NamedTuple):
    """What journal and notes say of a batch.

    Attributes:
        keys: how many keys were made for it; 0 if it was never opened.
        state: of its last line.
        first: of the windows that were closed with it.
        lost: how many reports the lines `lost` name.
        note: where the notes say that it ends.
        earlier: where they said so when they were synced last.
    """

    keys: int = 0
    state: str = "open"
    first: int = 0
    inventory: Ids | None = None
    cohort: Ids | None = None
    rejected: Ids | None = None
    lost: int = 0
    note: End = EMPTY
    earlier: End = EMPTY


class Held(NamedTuple):
    """What memory holds of an open batch, under its name or its store number.

    Attributes:
        table: reports and the segments that hold them, if lookups rest on it.
    """

    of: Name | int
    end: End
    table: tuple[tuple[str, int], ...] = ()


class Begun(NamedTuple):
    """A release whose marks were checked, with the rows of each batch as they were then; the payloads were not read."""

    name: Name
    rows: tuple[tuple[Segment, ...], ...]


class State(NamedTuple):
    """Everything.

    Attributes:
        memory: of the process; None while it stands still.
        files: key files, each with what it is named by.
        came: reports that reached the server, also those whose commit failed.
        acknowledged: reports whose clients have a receipt and were not told of a loss since.
        ever: all reports that were ever acknowledged.
        told: what left the server.
        begun: a release between its two readings.
        backup: an older database.
        unit: the time unit that it is now.
        looked: units of the looks that were told, and the one in which the process began.
    """

    database: Database = Database()
    records: tuple[Record, ...] = ()
    registered: frozenset[str] = frozenset()
    files: tuple[tuple[Name | int, int], ...] = ()
    is_barred: bool = False
    memory: tuple[Held, ...] | None = ()
    came: frozenset[str] = frozenset()
    acknowledged: frozenset[str] = frozenset()
    ever: frozenset[str] = frozenset()
    seen: frozenset[Segment] = frozenset()
    told: frozenset[tuple[Hashable, ...]] = frozenset()
    begun: Begun | None = None
    backup: Database | None = None
    unit: int = 0
    looked: tuple[int, int] = (-1, -1)
    edits: int = 0
    restarts: int = 0
    failures: int = 0
    deaths: int = 0
    losses: int = 0
    backups: int = 0
    power_cuts: int = 0


@dataclass
class Model:
    """Rules, bounds, and the symbols that were made so far."""

    rules: Rules
    bounds: Bounds
    symbols: Symbols = field(default_factory=Symbols)
    passes: dict[Hashable, Pass] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Number the batches."""
        self.names = tuple(dict.fromkeys(name for _, name in self.bounds.sent))
        self.tasks = tuple(dict.fromkeys(task for task, _ in self.names))
        self.places = {name: place for place, name in enumerate(self.names)}
        self.batch_of = dict(self.bounds.sent)
        self.alike_before = dict(self._alike_before())

    def _alike_before(self) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield of each report the others that only their letter tells from it: they come first, and no way is lost."""
        tokens = self.bounds.same_token
        for place, (report, name) in enumerate(self.bounds.sent):
            earlier = self.bounds.sent[:place]
            alike = (each for each, of in earlier if of == name and (each in tokens) == (report in tokens))
            yield report, frozenset(alike)

    def first(self) -> State:
        """Return a new server that runs."""
        return State(records=(Record(),) * len(self.names))
