"""What is known outside the servers, and the laws it must obey whatever happens inside.

The books are kept from answers alone, and from plain reading of the files; nothing here asks the code under test what
would be right. The reference sketch is the plain implementation of tests/vectors.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from lintra_protocol.crypto.tokens import Token
from lintra_protocol.report.report import Report
from lintra_protocol.task import Task
from vectors import plain

ONCE = ("opened", "closed", "frozen", "checked", "judged", "released")
"""Lines that a journal has once for a task or a batch."""


class ViolationError(AssertionError):
    """A law was broken; the message says which, and what broke it."""


Words = Callable[[Task, bytes], list[int]]

HEARD: tuple[str, ...] = ("",)
"""How the names of the laws begin that are listened to: all, but where a planted fault must be found by its own law."""


def law(holds: bool, name: str, *facts: object) -> None:
    """Raise unless a law holds."""
    if not holds and name.startswith(HEARD):
        raise ViolationError(": ".join([name, *map(str, facts)]))


def batch_key(task_id: str, batch: int) -> str:
    """Return what a batch is called in these books: as its task, and every later window by its number, too."""
    return f"{task_id}/{batch}" if batch else task_id


@dataclass(frozen=True)
class Answer:
    """What a server said: an HTTP status, the token of its problem if it has one, and the body."""

    status: int
    problem: str = ""
    body: bytes = field(default=b"", repr=False)

    @property
    def good(self) -> bool:
        return self.status in (200, 201)


LOST = Answer(0, "no answer")
"""The connection broke, or the process died, before there was one."""


@dataclass(frozen=True)
class Sent:
    """One report of a client, with all that only the client knows."""

    report: Report
    words: list[int] = field(repr=False)
    token: Token | None = field(default=None, repr=False)
    forged: bool = False
    """Whether its proof is of another row."""

    @property
    def report_id(self) -> bytes:
        return self.report.report_id


@dataclass
class Course:
    """A batch of a task, its clients, and what its servers said: the only one, or that of one window.

    Attributes:
        batch: its number in the task.
        reports: every report that was ever made for it.
        waiting: reports that their clients have heard no last word about, by server.
        claims: cohorts that attackers asked for.
        hostile: the number of the one honest server, if the analyst and the other servers are attackers.
        documents: the first bytes of every document, by server and name.
        lists: identifiers that an inventory describes, by server.
        censuses: identifiers that a census describes, by server.
        bodies: of check shares, by server.
        parts: the windows that are merged into this one, the first one first.
    """

    task: Task
    record: bytes
    batch: int = 0
    reports: dict[bytes, Sent] = field(default_factory=dict)
    waiting: dict[int, list[bytes]] = field(default_factory=dict)
    hostile: int | None = None
    documents: dict[tuple[int, str], bytes] = field(default_factory=dict)
    lists: dict[int, list[bytes]] = field(default_factory=dict)
    censuses: dict[int, list[bytes]] = field(default_factory=dict)
    requests: list[tuple[int, str, bytes]] = field(default_factory=list)
    bodies: dict[int, bytes] = field(default_factory=dict, repr=False)
    shares: dict[int, list[list[int]]] = field(default_factory=dict)
    claims: list[list[bytes]] = field(default_factory=list)
    attempts: int = 0
    over: bool = False
    parts: list["Course"] = field(default_factory=list)

    @property
    def first(self) -> int | None:
        """Return the number of the first window that is merged into this one."""
        return self.parts[0].batch if self.parts else None

    @property
    def keys(self) -> list[str]:
        """Return what the batches are called whose reports are released together."""
        return [each.key for each in (*self.parts, self)]

    @property
    def all_reports(self) -> dict[bytes, Sent]:
        """Return every report that was ever made for it, or for a window that is merged into it."""
        return {report_id: sent for each in (*self.parts, self) for report_id, sent in each.reports.items()}

    @property
    def num_waiting(self) -> int:
        return sum(map(len, self.waiting.values()))

    @property
    def servers(self) -> range:
        return range(self.task.num_servers)

    @property
    def key(self) -> str:
        """Return what the batch is called in these books."""
        return batch_key(self.task.task_id, self.batch)

    @property
    def begins(self) -> int:
        """Return when its reports are taken first, in seconds since the epoch: one unit before its first one."""
        return (self.task.span(self.batch)[0] - 1) * self.task.time_precision

    @property
    def closes(self) -> int:
        """Return when it may be closed, in seconds since the epoch: of a window, when its grace is over."""
        windows = self.task.windows
        return 0 if windows is None else (self.task.span(self.batch)[1] + windows.grace) * self.task.time_precision

    def said(self, server: int, name: str, body: bytes) -> bool:
        """Note a document that a server gave out; return whether it is the first of its name.

        (law) One inventory, one cohort, one release of every server, for ever: the same bytes.
        """
        first = self.documents.setdefault((server, name), body)
        law(first == body, f"two different documents of one name: {name}", f"server {server}", self.key)
        return first is body


@dataclass
class Seat:
    """What the outside world knows of one server.

    Attributes:
        must: acknowledged reports that no announced restore lost, by batch.
        may: reports that ever reached it, by batch.
        tasks: registered here, as far as was acknowledged.
        maybe_tasks: sent to be registered, by whatever answer.
        given_up: batches that an announced restore gave up, or which it does not know any more.
        closing: batches that somebody tried to close here.
        lost: acknowledged reports that an announced restore lost.
        bare: batches of which a restore brought back the release and nothing else.
        never: windows that had begun before the last restore, and which it did not know.
        barred: until when a window may begin for a restored server to refuse it, in seconds since the epoch.
        merging: windows that somebody tried to merge into later ones here.
        damaged: batches of which the server said that reports are gone; they wait for the operator.
        cut: acknowledged reports whose loss the operator accepted, by batch.
        edited: batches of which somebody edited a row, so that the server may refuse whatever they are asked for.
        listed: the inventory that a report is in, by its identifier.
    """

    number: int
    must: dict[str, set[bytes]] = field(default_factory=dict)
    may: dict[str, set[bytes]] = field(default_factory=dict)
    tasks: set[str] = field(default_factory=set)
    maybe_tasks: set[str] = field(default_factory=set)
    given_up: set[str] = field(default_factory=set)
    closing: set[str] = field(default_factory=set)
    lost: dict[str, set[bytes]] = field(default_factory=dict)
    bare: set[str] = field(default_factory=set)
    never: set[str] = field(default_factory=set)
    barred: float = 0.0
    merging: set[str] = field(default_factory=set)
    damaged: set[str] = field(default_factory=set)
    cut: dict[str, set[bytes]] = field(default_factory=dict)
    edited: set[str] = field(default_factory=set)
    listed: dict[bytes, str] = field(default_factory=dict)

    def reached(self, task: str, report_ids: Iterable[bytes]) -> None:
        """Note reports that arrived, whatever became of them."""
        self.may.setdefault(task, set()).update(report_ids)

    def acknowledge(self, course: Course, report_id: bytes) -> None:
        """Note that the server said that it holds a report.

        (law) One token, one report. (law) What is acknowledged after an inventory is in it.
        """
        task = course.key
        held = self.must.setdefault(task, set())
        sent = course.reports[report_id]
        if sent.token is not None:
            rivals = [other for other in held if _serial(course, other) == sent.token.serial and other != report_id]
            law(not rivals, "one token was good for two reports", f"server {self.number}", task)
        if self.number in course.lists:
            known = course.lists[self.number]
            law(report_id in known, "a report was acknowledged after the inventory that lacks it", task)
        held.add(report_id)

    def inventory(self, course: Course, listed: Sequence[bytes]) -> None:
        """Note the list of an inventory. (law) Every acknowledged report is in it. (law) It is in no other one."""
        task = course.key
        missing = _of_all(self.must, course).difference(listed)
        law(not missing, "acknowledged reports are not in the inventory", len(missing), f"server {self.number}", task)
        law(list(listed) == sorted(set(listed)), "an inventory's list is not sorted, or repeats a report", task)
        twice = [report_id for report_id in listed if self.listed.setdefault(report_id, task) != task]
        law(not twice, "a report is in two inventories of one server", len(twice), f"server {self.number}", task)
        strangers = set(listed).difference(_of_all(self.may, course))
        law(not strangers, "an inventory lists reports that never arrived", len(strangers), task)
        counted = {each for one in (*course.parts, course) for each in one.censuses.get(self.number, ())}
        hidden = counted - set(listed) - _of_all(self.lost, course)
        law(not hidden, "an inventory lacks a report of its server's own census", len(hidden), task)
        for each in (*course.parts, course):
            each.lists[self.number] = list(listed)

    def stored(self, course: Course, report_ids: Sequence[bytes], counted: int) -> None:
        """Compare with what is in the database. (law) What was acknowledged is stored, once."""
        task = course.key
        if self.hurt(course):
            return  # what the server says of it is looked at, not what lies in its database
        held = set(report_ids)
        law(len(held) == len(report_ids) == counted, "a report counts more than once", len(held), counted, task)
        missing = self.must.get(task, set()) - held
        law(not missing, "acknowledged reports are not stored", len(missing), f"server {self.number}", task)
        law(held <= self.may.get(task, set()), "reports are stored that never arrived", task)
        if course.task.uses_tokens:
            serials = Counter(_serial(course, report_id) for report_id in held)
            law(not serials or max(serials.values()) == 1, "two stored reports have one token", task)

    def hurt(self, course: Course) -> bool:
        """Return whether a batch may be refused because somebody edited it, or reports of it are gone."""
        return bool((self.damaged | self.edited).intersection(course.keys))

    def stops(self, course: Course, problem: str) -> bool:
        """Return whether a batch is hurt, and may be refused in these words: that it is unknown only after a restore.

        Whoever hears that a task is unknown does not come again.
        """
        words = ("unavailable", "unrecognized_task") if self.barred else ("unavailable",)
        return problem in words and self.hurt(course)

    def journal(self, lines: Iterable[tuple[Sequence[str], str]]) -> None:
        """Hold a journal against the laws. (law) No batch, of whatever window, is closed, frozen or released twice.

        (law) Nor is it opened twice. A task is registered again only after it was cut, once all its batches ended.

        Args:
            lines: batches and state of each, in their order.
        """
        lines = list(lines)
        registered, going = set[str](), set[str]()
        for batches, state in lines:
            if state == "registered":
                law(batches[0] not in registered, "a task is registered twice", f"server {self.number}", *batches)
                registered.update(batches)
            elif state == "cut":
                left = [each for each in going if each.split("/")[0] == batches[0]]
                law(not left, "a task is cut that goes on", f"server {self.number}", *left)
                registered.difference_update(batches)
            elif state == "opened":
                going.update(batches)
            elif state in ("released", "abandoned"):
                going.difference_update(batches)
        said_of_each = Counter((batch, state) for batches, state in lines for batch in batches)
        twice = [said for said, times in said_of_each.items() if times > 1 and said[0] and said[1] in ONCE]
        law(not twice, "a step of one batch is in the journal twice", f"server {self.number}", *twice)


def cohort_of(course: Course) -> list[bytes]:
    """Return what the inventories have in common."""
    return sorted(set.intersection(*(set(listed) for listed in course.lists.values())))


def _of_all(known: dict[str, set[bytes]], course: Course) -> set[bytes]:
    return set().union(*(known.get(key, set()) for key in course.keys))


def _serial(course: Course, report_id: bytes) -> bytes:
    token = course.reports[report_id].token
    return b"" if token is None else token.serial


# --- the reference -------------------------------------------------------------------------------------------


def plain_matrix(task: Task, count: int, seed: bytes) -> tuple[int, list[plain.Entries]]:
    """Return the rows of the public matrix and its entries, by the plain implementation."""
    if task.mechanism.kind == "osnap":
        rows = task.mechanism.rows  # type: ignore[attr-defined]
        return rows, plain.balanced_matrix(rows, count, seed)
    return 1, [[(0, 1)]] * count


def plain_share(course: Course, server: int, cohort: Sequence[bytes], seed: bytes, words_of: Words) -> list[list[int]]:
    """Return the sketch share that one server must release, from the shares that its clients made.

    `words_of` reads the ring words of a share.
    """
    rows, columns = plain_matrix(course.task, len(cohort), seed)
    reports = course.all_reports
    shares = [words_of(course.task, reports[report_id].report.shares[server]) for report_id in cohort]
    return plain.sketch(rows, columns, shares)


def plain_total(course: Course, cohort: Sequence[bytes], seed: bytes) -> list[list[int]]:
    """Return the sketch that the shares of all servers must add up to, from the clients' noised rows."""
    rows, columns = plain_matrix(course.task, len(cohort), seed)
    reports = course.all_reports
    return plain.sketch(rows, columns, [reports[report_id].words for report_id in cohort])
