"""Servers without one of their rules: each must be found by the simulation, or the simulation is worth nothing."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import structlog
from sqlalchemy import update

from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.randomness import RandomBytes, expand
from lintra_protocol.crypto.ring import IntArray, RingArray
from lintra_protocol.encoding.canonical import JsonValue
from lintra_protocol.errors import UnavailableError
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.messages.documents import AggregateRequest
from lintra_protocol.task import Task
from lintra_server import serve
from lintra_server.batches import census, merged_batches, report_decryption, stream_rows, verification_round
from lintra_server.batches.gate import Gate
from lintra_server.batches.registry import RegisteredBatch, RegisteredTask, Registry
from lintra_server.clock import Clock
from lintra_server.durability.journal import BatchId, Head, JournalEntry
from lintra_server.durability.key_files import KeyFiles
from lintra_server.durability.notes import Notes
from lintra_server.operations import start
from lintra_server.storage import store, stream_memory
from lintra_server.storage.batch_states import BatchStates
from lintra_server.storage.chains import Chains
from lintra_server.storage.database import journal
from lintra_server.storage.history import History
from lintra_server.storage.looks import Look
from lintra_server.storage.report_index import KeyIndex
from lintra_server.storage.store import Store, StoredUpload
from lintra_server.storage.stream_memory import StreamMemory
from lintra_server.storage.transition_log import Step, StepFiles, Stepper
from lintra_server.storage.writer import Tell, Writer
from lintra_service.settings import LogFormat, LogLevel
from lintra_service.supervisor import Supervisor
from simulation import streams
from simulation.faults import (
    Fault,
    back_up,
    copied_keys,
    crash,
    failover,
    from_the_start,
    full_disk,
    lost_memory,
    lost_part,
    old_copy,
    terminate,
    wrong_clock,
)

Mutant = Callable[[pytest.MonkeyPatch], None]


def no_closing(patch: pytest.MonkeyPatch) -> None:
    """Uploads go on while an inventory is made."""
    patch.setattr(BatchStates, "begin_closing", lambda *_: True)
    patch.setattr(BatchStates, "may", lambda *_: True)


def no_condition(patch: pytest.MonkeyPatch) -> None:
    """A step is committed wherever the database stands, and nobody asks who began on it last."""

    def commit(self: BatchStates, step: Step, line: JournalEntry, before: Head, after: Head) -> None:
        with self._history.lock, self._database.writing() as connection:
            connection.execute(update(journal).values(length=after.length, digest=after.digest, start=step.start))
            if step.task_id:
                self._apply(connection, step)
            self._history.learn([line])
            self._history.closing.difference_update(place for place in self._members(step) if place is not None)
            self._history.waiting = None

    patch.setattr(BatchStates, "commit_step", commit)
    patch.setattr(BatchStates, "_require_last", lambda *_: None)
    patch.setattr(Stepper, "_require_known", lambda *_: None)


def no_notes(patch: pytest.MonkeyPatch) -> None:
    """After a start a batch ends where the database says."""

    def load(self: Chains, batch: int) -> None:
        with self._reading() as connection:
            self.reached(batch, self.whole(connection, batch))

    patch.setattr(Chains, "_load", load)


def no_serials(patch: pytest.MonkeyPatch) -> None:
    """A token is good for any number of reports."""
    among, chosen = KeyIndex.among, store._chosen

    def none_used(keys: KeyIndex, *arguments: Any) -> set[bytes]:
        return set() if keys._column == "serials" else among(keys, *arguments)

    class Forgetful(set[bytes]):
        def add(self, _: bytes) -> None:
            """Keep nothing."""

    patch.setattr(KeyIndex, "among", none_used)
    patch.setattr(
        store,
        "_chosen",
        lambda uploads, closed, stored, _, space: chosen(uploads, closed, stored, Forgetful(), space),
    )


def answer_first(patch: pytest.MonkeyPatch) -> None:
    """An upload is answered whatever becomes of its commit: also if that fails, or the process ends before it."""

    def stored(self: Writer, group: Sequence[tuple[StoredUpload, Tell]]) -> None:
        outcomes: list[list[store.Outcome]] = [[True] * len(upload.report_ids) for upload, _ in group]
        with suppress(Exception):
            outcomes = self._commit([upload for upload, _ in group])
        for (_, tell), outcome in zip(group, outcomes, strict=True):
            tell(outcome)

    patch.setattr(Writer, "_store", stored)


def any_copy(patch: pytest.MonkeyPatch) -> None:
    """A start takes any database for the one that ran last, forgets what it lacks, and keys stay."""
    learn = start.learn

    def old(parts: start.ServerResources, in_flight: None = None) -> None:
        standing = parts.states.standing()
        lines = parts.journal.lines
        parts.journal.lines = lines[: standing.head.length] if standing else []
        learn(parts, in_flight)
        parts.journal.lines = lines

    patch.setattr(start, "compare", lambda _: None)
    patch.setattr(start, "learn", old)
    patch.setattr(Stepper, "_require_known", lambda *_: None)
    patch.setattr(KeyFiles, "destroy", lambda *_: None)


def stored_again(patch: pytest.MonkeyPatch) -> None:
    """A repeated report is stored again."""
    patch.setattr(Store, "stored", lambda *_: set())
    among = KeyIndex.among

    def none_stored(keys: KeyIndex, *arguments: Any) -> set[bytes]:
        return set() if keys._column == "ids" else among(keys, *arguments)

    patch.setattr(KeyIndex, "among", none_stored)


def keys_stay(patch: pytest.MonkeyPatch) -> None:
    """A batch's key is not destroyed at its release."""
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

    def again(self: Gate, held: RegisteredTask, request: AggregateRequest, *tell: Any) -> bytes:
        answer = release(self, held, request, *tell)
        new = answer not in seen
        seen.add(answer)
        return answer if new else answer[:-1] + bytes([answer[-1] ^ 1])

    patch.setattr(Gate, "release", again)


def anew_after_a_start(patch: pytest.MonkeyPatch) -> None:
    """A release that an earlier start gave out is computed anew when it is asked for again."""
    release, batch, own = Gate.release, Gate.batch, set[tuple[Gate, int]]()

    def again(self: Gate, held: RegisteredBatch, request: AggregateRequest, *tell: Any) -> bytes:
        answer = batch(self, held).aggregate
        if answer is None:
            own.add((self, held.number))
        elif (self, held.number) not in own:
            return answer[:-1] + bytes([answer[-1] ^ 1])  # as other noise would make it
        return release(self, held, request, *tell)

    patch.setattr(Gate, "release", again)


def no_inventory_list(patch: pytest.MonkeyPatch) -> None:
    """An inventory forgets the last report."""
    ids = Store.report_ids
    patch.setattr(Store, "report_ids", lambda self, *places: ReportIds.of(ids(self, *places)[:-1]))


def wrong_share(patch: pytest.MonkeyPatch) -> None:
    """The first report of a cohort is added twice."""
    ranked = merged_batches.ranked

    def twice(*arguments, **options):  # type: ignore[no-untyped-def]
        found = ranked(*arguments, **options)
        ranks = found[-1][0]
        last, first = ranks.argsort()[[-1, 0]]
        ranks[last] = ranks[first]
        return found

    patch.setattr(merged_batches, "ranked", twice)


def late_reports(patch: pytest.MonkeyPatch) -> None:
    """A closed batch still takes reports."""
    refusal = Store._refusal

    def closing(self: Store, batch: int):  # type: ignore[no-untyped-def]
        return refusal(self, batch) if batch in self.history.closing else None

    patch.setattr(Store, "_refusal", closing)
    patch.setattr(Store, "_require_state", lambda *_: None)


def unchecked_tokens(patch: pytest.MonkeyPatch) -> None:
    """Whatever stands where a token should is taken for one."""
    patch.setattr(report_decryption.Admission, "require", lambda self, presented: presented[:16])


def never_resumed(patch: pytest.MonkeyPatch) -> None:
    """A start forgets a step that has its journal line, but never came to the database."""
    patch.setattr(start.Stepper, "resume", lambda *_: None)


def told_at_once(patch: pytest.MonkeyPatch) -> None:
    """A census counts anew whenever it is asked for."""
    last = census.CensusTaker._last

    def old(self: census.CensusTaker, held: RegisteredBatch) -> Look | None:
        look = last(self, held)
        return None if look is None else replace(look, told_at=-1)

    patch.setattr(census.CensusTaker, "_last", old)
    patch.setattr(Notes, "tell", lambda *_: None)


def closes_early(patch: pytest.MonkeyPatch) -> None:
    """A window is closed whenever the analyst asks for it, so that it chooses who is in it."""
    patch.setattr(RegisteredBatch, "require_over", lambda self, now: None)


def opens_again(patch: pytest.MonkeyPatch) -> None:
    """A restored server opens windows that had begun before, and which may have been released in the lost part."""
    opened = Registry.opened

    def anew(self: Registry, held: RegisteredTask, batch: int) -> int:
        history = self._store.history
        barred, history.barred_before = history.barred_before, 0
        try:
            return opened(self, held, batch)
        finally:
            history.barred_before = barred

    patch.setattr(Registry, "opened", anew)


def merges_closed(patch: pytest.MonkeyPatch) -> None:
    """A window is merged into the next also when its own inventory was given out."""

    real = BatchStates.begin_closing

    def begin(self: BatchStates, batch: int, counts: Store, min_clients: int, others: Sequence[int] = ()) -> bool:
        self._history.closing.update(others)
        return real(self, batch, counts, min_clients)

    known = Stepper._require_known
    for name, share in (("WINDOWED", 1.0), ("VERIFIED", 0.0), ("HOSTILE", 1.0)):
        patch.setattr(f"simulation.world.{name}", share)  # attackers who merge windows are few
    patch.setattr(BatchStates, "begin_closing", begin)
    patch.setattr(BatchStates, "may", lambda *_: True)
    patch.setattr(Stepper, "_require_known", lambda self, step: known(self, replace(step, first=None)))


def counts_once(patch: pytest.MonkeyPatch) -> None:
    """A corrupt client is counted once where it may have several reports in a release."""
    patch.setattr(Task, "_require_mergeable", lambda _: None)


def forgets_the_last(patch: pytest.MonkeyPatch) -> None:
    """After a release only the key of the window is destroyed that others were merged into."""
    alone = Gate._alone

    def one(self: Gate, held: RegisteredBatch, aggregate: bytes) -> bytes:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(History, "members", lambda _, number: [number])
            return alone(self, held, aggregate)

    patch.setattr(Gate, "_alone", one)


def silent(patch: pytest.MonkeyPatch) -> None:
    """Servers forget their noise."""
    patch.setattr(Mechanism, "add_server_noise", lambda *_: None)


def accepts_everybody(patch: pytest.MonkeyPatch) -> None:
    """A verdict rejects nobody."""
    patch.setattr(verification_round, "judge", lambda *_: np.zeros(0, np.int64))


def raising_log(patch: pytest.MonkeyPatch) -> None:
    """To log raises when the disk is full, as Python's own standard error does, and nobody watches the threads."""
    configure = serve.configure_logging

    def raising(level: LogLevel, log_format: LogFormat) -> None:
        configure(level, log_format)
        structlog.configure(logger_factory=structlog.WriteLoggerFactory(sys.stderr))

    patch.setattr(serve, "configure_logging", raising)
    patch.setattr(Supervisor, "start", lambda _: None)


def streaming(patch: pytest.MonkeyPatch, *, every: bool = True) -> None:
    """Let all tasks have windows, and every one of them be a stream, or some."""
    for name, share in (("WINDOWED", 1.0), ("VERIFIED", 0.0), ("HOSTILE", 0.0)):
        patch.setattr(f"simulation.world.{name}", share)
    patch.setattr("simulation.world.STREAMED", every)
    patch.setattr("simulation.world.STREAMS", streams.STREAMS[1:2])


def fresh_noise_again(patch: pytest.MonkeyPatch) -> None:
    """All windows of all streams get one draw of fresh noise."""
    streaming(patch)
    draw = stream_rows.stream_noise

    def again(measurement: Measurement, row: int, memories: Mapping[int, IntArray], _: RandomBytes) -> Any:
        return draw(measurement, row, memories, expand(bytes(32), "one draw"))

    patch.setattr(stream_rows, "stream_noise", again)


def any_order(patch: pytest.MonkeyPatch) -> None:
    """A window of a stream is released also after later ones."""
    streaming(patch)
    patch.setattr(stream_rows.StreamRows, "turn", lambda *_: nullcontext())


def any_memory(patch: pytest.MonkeyPatch) -> None:
    """What is remembered of a window enters whatever was released of it."""
    streaming(patch, every=False)  # an attempt must have ended between its memory and its line: a rare history
    patch.setattr(stream_memory, "_digest", lambda _: bytes(32))


def needs_memory(patch: pytest.MonkeyPatch) -> None:
    """A server that lost its memory of a window releases no later one."""
    streaming(patch)
    read = StreamMemory.read

    def require(self: StreamMemory, batch: BatchId, released: JsonValue) -> IntArray:
        found = read(self, batch, released)
        if found is None:
            raise UnavailableError("the memory of this window is lost")
        return found

    patch.setattr(StreamMemory, "read", require)


def names_all(patch: pytest.MonkeyPatch) -> None:
    """A share names all earlier windows that should have entered."""
    streaming(patch)
    add = stream_rows.StreamRows.add_noise

    def added(self: stream_rows.StreamRows, held: RegisteredBatch, share: RingArray) -> stream_rows.DrawnNoise:
        drawn = add(self, held, share)
        wanted = held.task.stream
        return drawn if wanted is None else replace(drawn, remembered=tuple(wanted.remembered_by(held.batch)))

    patch.setattr(stream_rows.StreamRows, "add_noise", added)


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
SILENT = "reports were lost in silence"
COPIED = "a server started whose database belongs to a copy of its key folder"
NO_START = "a server does not start after a crash"

MUTANTS: dict[str, Planted] = {
    "no state `closing`": Planted(no_closing, (LATE, UNLISTED, "an inventory is not of its list")),
    "no condition on the journal's head": Planted(no_condition, (COPIED,), (copied_keys,)),
    "no notes of where batches end": Planted(no_notes, (SILENT, UNSTORED, UNLISTED), (failover, old_copy)),
    "no serials of tokens": Planted(no_serials, ("one token was good for two reports",)),
    "tokens are not checked": Planted(unchecked_tokens, ("a receipt is not for what was sent, or junk was taken",)),
    "an answer before the commit": Planted(answer_first, (UNSTORED,), (crash, full_disk)),
    "a second release after a restore": Planted(any_copy, (TWO,), (back_up, old_copy)),
    "a repeated report is stored again": Planted(stored_again, ("a report counts more than once",)),
    "a closed batch takes reports": Planted(late_reports, (LATE,)),
    "keys stay after a release": Planted(keys_stay, ("a destroyed key is still in a file",)),
    "no step file": Planted(no_step_file, (NO_START,), (crash,)),
    "an interrupted step is not finished": Planted(never_resumed, (NO_START,), (crash,)),
    "restored servers register old tasks": Planted(
        no_bar, ("a batch that was given up goes on",), (lost_part, copied_keys, from_the_start)
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
    "keys of merged windows stay": Planted(forgets_the_last, ("a destroyed key is still in a file",)),
    "a restored server opens an old window": Planted(
        opens_again, ("a window from before a restore was opened",), (back_up, old_copy, from_the_start)
    ),
    "(R-S1) fresh noise of a stream is drawn once": Planted(fresh_noise_again, (streams.FRESH_TWICE,)),
    "(R-S2) windows of a stream in any order": Planted(any_order, (streams.DESCENDING,)),
    "(R-S3) a memory of whatever release": Planted(any_memory, (streams.OF_ANOTHER,), (crash, lost_memory)),
    "(R-S4) no release without memory": Planted(needs_memory, ("a step of the release was refused",), (lost_memory,)),
    "(R-S5) a share names all windows": Planted(names_all, (streams.NAMES_OTHERS,)),
}
"""By the rule that is missing."""

OF_PROCESSES: dict[str, Planted] = {"a log that raises, and no supervisor": Planted(raising_log, ("a server hangs",))}
"""Rules whose absence shows where the log is a file and threads are watched."""
