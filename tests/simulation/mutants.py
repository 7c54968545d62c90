"""Servers without one of their rules: each must be found by the simulation, or the simulation is worth nothing."""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pytest
import structlog
from lintra_server.disk.batch_secrets import Secrets
from sqlalchemy import Connection, update

from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.messages import AggregateRequest, BatchState
from lintra_protocol.report_ids import ReportIds
from lintra_protocol.task import Task
from lintra_server import serve
from lintra_server.batches import census, group, judge, opening
from lintra_server.batches.gate import Gate
from lintra_server.batches.registry import HeldBatch, HeldTask, Registry
from lintra_server.clock import Clock
from lintra_server.disk.journal import Head
from lintra_server.operating import starting
from lintra_server.storage import store
from lintra_server.storage.database import SPAN, batches, journal, segments, tasks
from lintra_server.storage.segments import tail
from lintra_server.storage.spent import SerialSet, SpentSerials
from lintra_server.storage.states import BatchStates, Standing, _apply
from lintra_server.storage.steps import Step, StepFiles, Stepper
from lintra_server.storage.store import Store, Upload
from lintra_server.storage.writer import Tell, Writer
from lintra_service.settings import LogFormat, LogLevel
from lintra_service.supervisor import Supervisor
from simulation.faults import (
    Fault,
    back_up,
    crash,
    failover,
    from_the_start,
    full_disk,
    lost_part,
    old_copy,
    terminate,
    wrong_clock,
)

Mutant = Callable[[pytest.MonkeyPatch], None]


def no_closing(patch: pytest.MonkeyPatch) -> None:
    """Uploads go on while an inventory is made."""

    def begin(self: BatchStates, task: int, min_clients: int, others: Sequence[int] = ()) -> bool:
        return True

    def may(self: BatchStates, step: Step) -> bool:
        return True

    def apply(connection: Connection, step: Step) -> bool:
        own = batches.c.task == tasks.select().with_only_columns(tasks.c.task).where(
            tasks.c.task_id == step.task_id
        ).scalar_subquery()  # fmt: skip
        return connection.execute(update(batches).where(own).values(**step.values)).rowcount == 1

    patch.setattr(BatchStates, "begin_closing", begin)
    patch.setattr(BatchStates, "may", may)
    patch.setattr("lintra_server.storage.states._apply", apply)


def no_condition(patch: pytest.MonkeyPatch) -> None:
    """A step is committed wherever the database stands, and nobody asks who began on it last."""
    real = BatchStates.may

    def may(self: BatchStates, step: Step) -> bool:
        start, self._start = self._start, None
        try:
            return real(self, step)
        finally:
            self._start = start

    def commit(self: BatchStates, step: Step, before: Head, after: Head) -> None:
        with self._database.writing() as connection:
            connection.execute(update(journal).values(length=after.length, digest=after.digest, start=step.start))
            if step.task_id:
                _apply(connection, step)
        self._start = step.start

    patch.setattr(BatchStates, "commit_step", commit)
    patch.setattr(BatchStates, "may", may)
    patch.setattr(Stepper, "_require_known", lambda *_: None)


def no_counts(patch: pytest.MonkeyPatch) -> None:
    """A process does not compare what the database holds with what it stored."""
    patch.setattr(Store, "num_durable", lambda *_: 0)
    patch.setattr(starting, "lost_commits", lambda parts: parts.folder.noted() and 0)


def no_serials(patch: pytest.MonkeyPatch) -> None:
    """A token is good for any number of reports."""
    patch.setattr(SerialSet, "has", lambda _, serials: np.zeros(len(serials) // 16, bool))
    patch.setattr(SpentSerials, "use", lambda self, serial: self.new.append(serial))


def answer_first(patch: pytest.MonkeyPatch) -> None:
    """An upload is answered whatever becomes of its commit: also if that fails, or the process ends before it."""

    def stored(self: Writer, group: Sequence[tuple[Upload, Tell]]) -> None:
        outcomes: list[list[store.Outcome]] = [[True] * len(upload.report_ids) for upload, _ in group]
        with suppress(Exception):
            outcomes = self._commit([upload for upload, _ in group])
        for (_, tell), outcome in zip(group, outcomes, strict=True):
            tell(outcome)

    patch.setattr(Writer, "_store", stored)


def any_copy(patch: pytest.MonkeyPatch) -> None:
    """A start takes any database for the one that ran last, and secrets stay."""

    def adopt(parts: starting.Parts) -> None:
        parts.states.establish(Standing(parts.journal.head, 0, 0))

    patch.setattr(starting, "compare", adopt)
    patch.setattr(starting, "lost_commits", lambda parts: parts.folder.noted() and 0)
    patch.setattr(starting, "without_secret", lambda _: [])
    patch.setattr(Stepper, "_require_known", lambda *_: None)
    patch.setattr(Secrets, "destroy", lambda *_: None)
    patch.setattr(Secrets, "destroy_all_but", lambda *_: 0)


def counted_again(patch: pytest.MonkeyPatch) -> None:
    """A repeated report is counted, though not stored again."""
    grow = Store._add_to_batch

    def grown(self: Store, connection: Connection, batch: int, group: Sequence[Upload]):  # type: ignore[no-untyped-def]
        outcomes, stored = grow(self, connection, batch, group)
        repeated = sum(outcome is False for taken in outcomes.values() for outcome in taken)
        last = batch * SPAN + tail(connection, batch).number
        connection.execute(update(segments).where(segments.c.key == last).values(total=stored.total + repeated))
        return outcomes, replace(stored, total=stored.total + repeated)

    patch.setattr(Store, "_add_to_batch", grown)


def secrets_stay(patch: pytest.MonkeyPatch) -> None:
    """A batch's secret is not destroyed at its release."""
    patch.setattr(Store, "forget_key", lambda *_: None)


def no_step_file(patch: pytest.MonkeyPatch) -> None:
    """A step is not written down before the journal says that it happens."""
    patch.setattr(StepFiles, "write", lambda *_: None)


def no_bar(patch: pytest.MonkeyPatch) -> None:
    """After a restore tasks are registered again that may have been released."""
    patch.setattr(Registry, "_require_later", lambda *_: None)


def believes_clocks(patch: pytest.MonkeyPatch) -> None:
    """Any clock is believed."""
    patch.setattr(Clock, "_judged", lambda *_: "")
    patch.setattr(Clock, "check", lambda _: None)


def releases_again(patch: pytest.MonkeyPatch) -> None:
    """A release is computed anew each time it is asked for."""
    release, seen = Gate.release, set[bytes]()

    def again(self: Gate, held: HeldTask, request: AggregateRequest) -> bytes:
        answer = release(self, held, request)
        new = answer not in seen
        seen.add(answer)
        return answer if new else answer[:-1] + bytes([answer[-1] ^ 1])

    patch.setattr(Gate, "release", again)


def anew_after_a_start(patch: pytest.MonkeyPatch) -> None:
    """A release that an earlier start gave out is computed anew when it is asked for again."""
    release, batch, own = Gate.release, Gate.batch, set[int]()

    def again(self: Gate, held: HeldBatch, request: AggregateRequest) -> bytes:
        answer = batch(self, held).aggregate
        if answer is None:
            own.add(held.number)
        elif held.number not in own:
            return answer[:-1] + bytes([answer[-1] ^ 1])  # as other noise would make it
        return release(self, held, request)

    patch.setattr(Gate, "release", again)


def no_inventory_list(patch: pytest.MonkeyPatch) -> None:
    """An inventory forgets the last report."""
    ids = Store.report_ids
    patch.setattr(Store, "report_ids", lambda self, task: ReportIds.of(ids(self, task)[:-1]))


def wrong_share(patch: pytest.MonkeyPatch) -> None:
    """The first report of a cohort is added twice."""
    ranks = group.ranks_of

    def twice(*arguments, **options):  # type: ignore[no-untyped-def]
        found = ranks(*arguments, **options)
        last, first = found[-1].argsort()[[-1, 0]]
        found[-1][last] = found[-1][first]
        return found

    patch.setattr(group, "ranks_of", twice)


def late_reports(patch: pytest.MonkeyPatch) -> None:
    """A closed batch still takes reports."""

    def closed(state: BatchState) -> None:
        return None

    patch.setattr(store, "_closed", closed)


def unchecked_tokens(patch: pytest.MonkeyPatch) -> None:
    """Whatever stands where a token should is taken for one."""
    patch.setattr(opening.Admission, "require", lambda self, presented: presented[:16])


def never_resumed(patch: pytest.MonkeyPatch) -> None:
    """A start forgets a step that has its journal line, but never came to the database."""
    patch.setattr(starting.Stepper, "resume", lambda self, step, before: None)


def told_at_once(patch: pytest.MonkeyPatch) -> None:
    """A census counts anew whenever it is asked for."""
    last = census._last

    def old(connection: Connection, task: int) -> census._Look | None:
        look = last(connection, task)
        return None if look is None else replace(look, told_at=-1)

    patch.setattr(census, "_last", old)


def closes_early(patch: pytest.MonkeyPatch) -> None:
    """A window is closed whenever the analyst asks for it, so that it chooses who is in it."""
    patch.setattr(HeldBatch, "require_over", lambda self, now: None)


def opens_again(patch: pytest.MonkeyPatch) -> None:
    """A restored server opens windows that had begun before, and which may have been released in the lost part."""
    opened = Registry.opened

    def anew(self: Registry, held: HeldTask, batch: int) -> HeldBatch:
        barred, self._barred_before = self._barred_before, 0
        try:
            return opened(self, held, batch)
        finally:
            self._barred_before = barred

    patch.setattr(Registry, "opened", anew)


def merges_closed(patch: pytest.MonkeyPatch) -> None:
    """A window is merged into the next also when its own inventory was given out."""

    def begin(self: BatchStates, batch: int, min_clients: int, others: Sequence[int] = ()) -> bool:
        with self._database.writing() as connection:
            connection.execute(update(batches).where(batches.c.batch.in_([*others, batch])).values(state="closing"))
        return True

    known = Stepper._require_known
    patch.setattr(BatchStates, "begin_closing", begin)
    patch.setattr(Stepper, "_require_known", lambda self, step: known(self, replace(step, first=None)))


def counts_once(patch: pytest.MonkeyPatch) -> None:
    """A corrupt client is counted once where it may have several reports in a release."""
    patch.setattr(Task, "_require_mergeable", lambda _: None)


def forgets_the_last(patch: pytest.MonkeyPatch) -> None:
    """After a release only the secret of the window is destroyed that others were merged into."""
    alone = Gate._alone

    def one(self: Gate, held: HeldBatch, aggregate: bytes) -> bytes:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(self._store, "members", lambda number: [number])
            return alone(self, held, aggregate)

    patch.setattr(Gate, "_alone", one)


def silent(patch: pytest.MonkeyPatch) -> None:
    """Servers forget their noise."""
    patch.setattr(Mechanism, "add_server_noise", lambda *_: None)


def accepts_everybody(patch: pytest.MonkeyPatch) -> None:
    """A verdict rejects nobody."""
    patch.setattr(judge, "judge", lambda *_: np.zeros(0, np.int64))


def raising_log(patch: pytest.MonkeyPatch) -> None:
    """To log raises when the disk is full, as Python's own standard error does, and nobody watches the threads."""
    configure = serve.configure_logging

    def raising(level: LogLevel, log_format: LogFormat) -> None:
        configure(level, log_format)
        structlog.configure(logger_factory=structlog.WriteLoggerFactory(sys.stderr))

    patch.setattr(serve, "configure_logging", raising)
    patch.setattr(Supervisor, "start", lambda _: None)


@dataclass(frozen=True)
class Planted:
    """A server without a rule, and how the laws begin of which one must find it, all others being unheard."""

    plant: Mutant
    found_by: tuple[str, ...]
    faults: Sequence[Fault] = ()
    """What must happen for it to matter; nothing, if requests alone show it."""


LATE = "a report was acknowledged after the inventory that lacks it"
TWO = "two different documents of one name"
UNLISTED = "acknowledged reports are not in the inventory"
UNSTORED = "acknowledged reports are not stored"
NO_START = "a server does not start after a crash"

MUTANTS: dict[str, Planted] = {
    "no state `closing`": Planted(no_closing, (LATE, UNLISTED, "an inventory is not of its list")),
    "no condition on the journal's head": Planted(no_condition, (LATE, TWO), (failover,)),
    "no count of what was stored": Planted(no_counts, (UNSTORED, UNLISTED), (failover, old_copy)),
    "no serials of tokens": Planted(no_serials, ("one token was good for two reports",)),
    "tokens are not checked": Planted(unchecked_tokens, ("a receipt is not for what was sent, or junk was taken",)),
    "an answer before the commit": Planted(answer_first, (UNSTORED,), (crash, full_disk)),
    "a second release after a restore": Planted(any_copy, (TWO,), (back_up, old_copy)),
    "a repeated report counts again": Planted(counted_again, ("a report counts more than once",)),
    "a closed batch takes reports": Planted(late_reports, (LATE,)),
    "secrets stay after a release": Planted(secrets_stay, ("a destroyed secret is still in a file",)),
    "no step file": Planted(no_step_file, (NO_START,), (crash,)),
    "an interrupted step is not finished": Planted(never_resumed, (NO_START,), (crash,)),
    "restored servers register old tasks": Planted(
        no_bar, ("a batch that was given up goes on",), (back_up, old_copy, lost_part, from_the_start)
    ),
    "any clock is believed": Planted(believes_clocks, ("a wrong clock is believed",), (wrong_clock,)),
    "a release is never the same twice": Planted(releases_again, (TWO,)),
    "a release is computed anew after a start": Planted(anew_after_a_start, (TWO,), (crash, terminate)),
    "an inventory lacks a report": Planted(no_inventory_list, (UNLISTED,)),
    "a verdict rejects nobody": Planted(accepts_everybody, ("a verdict rejects others than the forged reports",)),
    "servers forget their noise": Planted(silent, ("a sum whose noise its servers add has none",)),
    "a report is added twice": Planted(wrong_share, ("a sketch share is not the reference's",)),
    "a census whenever it is asked for": Planted(told_at_once, (TWO,)),
    "a window is closed before its grace is over": Planted(
        closes_early, ("a window was closed before its grace was over",)
    ),
    "a window is merged after its close": Planted(merges_closed, ("a report is in two inventories of one server",)),
    "a corrupt client counts once": Planted(counts_once, ("a task was taken that counts a corrupt client once",)),
    "secrets of merged windows stay": Planted(forgets_the_last, ("a destroyed secret is still in a file",)),
    "a restored server opens an old window": Planted(
        opens_again, ("a window from before a restore was opened",), (back_up, old_copy, from_the_start)
    ),
}
"""By the rule that is missing."""

OF_PROCESSES: dict[str, Planted] = {"a log that raises, and no supervisor": Planted(raising_log, ("a server hangs",))}
"""Rules whose absence shows where the log is a file and threads are watched."""
