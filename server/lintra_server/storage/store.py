"""A server's store: tasks, batches and the shares of its reports. How batches change their state is in `states`.

Shares are stored under their batch's keys, which lie in the key folder. A batch is named by its place, a number that
the journal gave to it and to no other.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Literal, TypeVar

from sqlalchemy import Connection, bindparam, select, update
from sqlalchemy.exc import DatabaseError

from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.encoding.canonical import HASH_BYTES
from lintra_protocol.errors import BatchClosedError, LintraError, TokenSpentError, UnavailableError
from lintra_protocol.messages.documents import BatchState
from lintra_server.durability.encryption_at_rest import Vault
from lintra_server.durability.key_files import KeyFiles
from lintra_server.durability.notes import Notes
from lintra_server.storage.batch_reader import BatchReader
from lintra_server.storage.database import AnyDatabase, batches
from lintra_server.storage.history import History, edited
from lintra_server.storage.marks import BEGIN, BrokenChainError, End
from lintra_server.storage.raw_statement import Direct
from lintra_server.storage.report_index import KeyIndex
from lintra_server.storage.segments import Written, drop_some, empty_some, merge_some, new_segments, write_segments
from lintra_server.storage.stream_memory import StreamMemory
from lintra_server.storage.tasks import enter
from lintra_server.storage.transition_log import SET_BACK, ForkedError

# The statement of an upload, built once: building one costs more than running it.
_STATE = Direct(select(batches.c.state).where(batches.c.batch == bindparam("of_batch")).with_for_update())

NonceLabel = Literal["nonce", "matrix nonce"]
_NONCE_COLUMNS: Mapping[NonceLabel, str] = {"nonce": "wrapped_nonce", "matrix nonce": "wrapped_matrix_nonce"}


@dataclass(frozen=True)
class Batch:
    """The state of a task's batch; documents are the exact bytes that were, or will be, sent."""

    state: BatchState
    first: int | None
    inventory: bytes | None = field(repr=False)
    cohort: bytes | None = field(repr=False)
    check_share: bytes | None = field(repr=False)
    verdict: bytes | None = field(repr=False)
    ended_by: str | None
    request_hash: bytes | None = field(repr=False)
    aggregate: bytes | None = field(repr=False)


_MOST_LISTED = 4
"""Batches without keys whose lists of identifiers are kept in memory, for those who send a report once more."""

_OF_BATCH = ("first", "inventory", "cohort", "check_share", "verdict", "ended_by", "request_hash", "aggregate")


@dataclass(frozen=True)
class StoredUpload:
    """Opened reports of one batch that wait to be stored."""

    batch: int
    report_ids: Sequence[bytes]
    payloads: Sequence[bytes] = field(repr=False)
    capacity: int  #: most reports that it may hold
    refusal: LintraError | None = None  #: why reports that are not stored yet are not taken, if they are not
    #: of the reports' tokens, in their order, in a task that has tokens; each is good for one report
    serials: Sequence[bytes] = field(default=(), repr=False)

    @property
    def size(self) -> int:
        """Return its bytes in memory, nearly."""
        return sum(map(len, self.payloads)) + HASH_BYTES * len(self.report_ids)


Outcome = bool | LintraError
"""What became of one report: stored now (True), stored before (False), or refused."""

Add = Callable[[int, Sequence[StoredUpload]], dict[int, list[Outcome]]]


class Store(BatchReader):
    """The server's memory; thread-safe."""

    def __init__(
        self,
        database: AnyDatabase,
        vault: Vault,
        key_files: KeyFiles,
        notes: Notes,
        history: History,
        random_bytes: RandomBytes,
        stream_memory: StreamMemory,
    ) -> None:
        """Keep everything in one database (see `Tasks`), and beside it what is remembered of noise in streams."""
        self.stream_memory = stream_memory
        super().__init__(database, vault, key_files, notes, history, random_bytes)
        self._spent = KeyIndex(self.chains, random_bytes, "serials")
        self._known = KeyIndex(self.chains, random_bytes, "ids")
        self._listed: dict[int, ReportIds | None] = {}
        database.expect(self._require_ends)

    def check_ends(self) -> list[str]:
        """Look where every open batch ends; return what is wrong with those that lost reports."""
        wrong = list[str]()
        for place, history in list(self.history.batches.items()):
            if history.state == "open":
                try:
                    self.chains.end(place)
                except UnavailableError as error:
                    wrong.append(error.detail)
        return wrong

    def _require_ends(self, connection: Connection) -> None:
        """Refuse a database in which a batch ends before the place that this process left it at."""
        # Before the look: what is stored meanwhile is no loss, and what is deleted meanwhile is known no more.
        known = {batch: self.chains.durable(batch) for batch in list(self.history.batches)}
        for batch, end in known.items():
            if end is not None and self.chains.lacks(connection, batch, end) and self.chains.durable(batch) is not None:
                raise ForkedError(f"{SET_BACK} ({self.history.batches[batch].batch})")

    # --- reports -----------------------------------------------------------------------------------------------

    def add_reports(self, uploads: Sequence[StoredUpload]) -> list[list[Outcome]]:
        """Store the new reports of some uploads in one transaction; return what became of each report."""
        by_batch: defaultdict[int, list[StoredUpload]] = defaultdict(list)
        for upload in uploads:
            by_batch[upload.batch].append(upload)
        with self.history.adding:
            try:
                outcomes = self._add(by_batch)
            except BaseException:
                # Whatever became of the commit, the disk knows; a table that lacks a report or a used token would let
                # it in again.
                for number in by_batch:
                    self._spent.forget(number)
                    self._known.forget(number)
                raise
        return [outcomes[id(upload)] for upload in uploads]

    def _add(self, by_batch: Mapping[int, Sequence[StoredUpload]]) -> dict[int, list[Outcome]]:
        """Store new reports; return what became of each upload's, by its `id`."""
        # Before the transaction: who reads what these held may wait for a step, and a step for a transaction.
        over = {number: group for number, group in by_batch.items() if self.history.batches[number].is_destroyed}
        outcomes, stored = self._each(over, self._add_to_none), dict[int, Sequence[Written]]()
        if others := {number: group for number, group in by_batch.items() if number not in over}:
            with self.database.appending() as connection:
                outcomes |= self._each(others, partial(self._add_to_batch, connection, stored))
        for number, written in stored.items():
            self.chains.reached(number, written[-1].end)
            self._spent.add(number, written)
            self._known.add(number, written)
        return outcomes

    def _each(self, by_batch: Mapping[int, Sequence[StoredUpload]], add: Add) -> dict[int, list[Outcome]]:
        """Add to one batch after the other; what is wrong with one is what becomes of its own reports only."""
        outcomes: dict[int, list[Outcome]] = {}
        for number, group in sorted(by_batch.items()):  # in one order, so that nobody waits for another in turn
            try:
                outcomes |= add(number, group)
            except (BrokenChainError, UnavailableError) as error:
                refusal = self.chains.damage(number) if isinstance(error, BrokenChainError) else error
                outcomes |= {id(upload): [refusal] * len(upload.report_ids) for upload in group}
        return outcomes

    def _add_to_none(self, number: int, group: Sequence[StoredUpload]) -> dict[int, list[Outcome]]:
        """Return what becomes of each upload's reports in a batch whose keys were destroyed: it takes no new ones."""
        stored = self._once_stored(number, _joined([upload.report_ids for upload in group]))
        return _chosen(group, self._refusal(number), stored, set(), 0)[2]

    def _add_to_batch(
        self,
        connection: Connection,
        stored_now: dict[int, Sequence[Written]],
        number: int,
        group: Sequence[StoredUpload],
    ) -> dict[int, list[Outcome]]:
        closed, asked = self._refusal(number), _joined([upload.report_ids for upload in group])
        self._require_state(connection, number, closed)
        end = self.chains.end(number) if closed else self.chains.confirmed(connection, number)
        stored = self._known.among(connection, number, asked, end)
        serials = () if closed else _joined([upload.serials for upload in group])
        if serials and stored:  # a token is good for a report that is stored
            serials = [serial for one, serial in zip(asked, serials, strict=True) if one not in stored]
        used = self._spent.among(connection, number, serials, end)
        new = dict(zip(asked, _joined([upload.payloads for upload in group]), strict=True))
        are_apart = len(new) == len(asked) and len(set(serials)) == len(serials)
        is_refused = closed or stored or used or any(upload.refusal for upload in group)
        if are_apart and not is_refused and end.total + len(new) <= group[0].capacity:
            outcomes: dict[int, list[Outcome]] = {id(upload): [True] * len(upload.report_ids) for upload in group}
        else:
            new, serials, outcomes = _chosen(group, closed, stored, used, group[0].capacity - end.total)
        if new:
            written = new_segments(number, end, new, serials, self._key(number), self.chains.marks(number))
            self.chains.attempt(number, written[-1].end)
            write_segments(connection, written)
            stored_now[number] = written
        return outcomes

    def _refusal(self, batch: int) -> LintraError | None:
        """Return why a batch takes no new reports, as the journal and memory have it, or None."""
        if batch in self.history.closing:  # it may become open again
            return UnavailableError("its batch is just being closed")
        state = self.history.batches[batch].state
        return None if state == "open" else BatchClosedError(f"it is {state}")

    def _require_state(self, connection: Connection, batch: int, closed: LintraError | None) -> None:
        """Lock the row of a batch, which is made if a crash came before it, and compare its state."""
        row = _STATE.run(connection, {"of_batch": batch})
        if closed is not None or (row is not None and row[0] == "open"):
            return
        if row is None:  # it holds nothing of an open batch but where its reports lie, which the journal knows
            enter(connection, self.history, batch)
            return
        named = self.history.batches[batch].batch
        raise edited(f"{named}: table batches, row {batch}, column state is not that of the journal, open")

    def are_new(self, batch: int, report_ids: Sequence[bytes]) -> bool:
        """Return whether memory alone shows that none of some reports is stored (see `KeyIndex.are_new`)."""
        return self._known.are_new(batch, report_ids)

    def stored(self, batch: int, report_ids: Sequence[bytes]) -> set[bytes]:
        """Return which of some reports of a batch are stored, or were before its shares were destroyed.

        Raises UnavailableError if some stored ones are gone, or if nobody can tell now.
        """
        self.chains.require(batch)
        try:
            known = self._known.remembered(self.database.reading, batch, report_ids)
            if known is not None:
                return known
            if self.history.batches[batch].is_destroyed:
                return self._once_stored(batch, report_ids)
            end = self.chains.end(batch)
            with self.database.reading() as connection:
                return self._known.among(connection, batch, report_ids, end)
        except BrokenChainError:
            raise self.chains.damage(batch) from None
        except DatabaseError as error:
            raise UnavailableError(f"the database cannot be read: {type(error).__name__}") from None

    def _once_stored(self, batch: int, report_ids: Sequence[bytes]) -> set[bytes]:
        """Return which of some reports a batch held whose keys were destroyed."""
        if batch not in self._listed:
            while len(self._listed) >= _MOST_LISTED:
                self._listed.pop(next(iter(self._listed)), None)
            self._listed[batch] = self.listed(batch)
        listed = self._listed.get(batch)
        return set() if listed is None else {one for one in report_ids if one in listed}

    def merge_segments(self, batch: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> bool:
        """Rewrite small segments into larger ones; return whether all is done that can be in so many seconds.

        No report may be added meanwhile, and nobody read by segments: the caller sees to it. A chain
        that does not fit raises `BrokenChainError`.
        """
        until, before, merged = clock() + seconds, BEGIN, False
        self.notes.sync()
        end = self.chains.end(batch)
        while clock() < until:
            try:
                done = self._merge_some(batch, before, end)
            except BrokenChainError:
                raise self.chains.damage(batch) from None
            if done is None and not merged:
                return True
            before, merged = (BEGIN, False) if done is None else (done[0], merged or done[1])
            if done is not None and done[1]:
                self._known.forget(batch)
        return False

    def _merge_some(self, batch: int, before: End, end: End) -> tuple[End, bool] | None:
        with self.history.adding:
            with self.database.writing() as connection:
                done = merge_some(connection, batch, before, self._key(batch), self.chains.marks(batch))
                if done is not None and done[0].number >= end.number:
                    if (done[0].total, done[0].chain) != (end.total, end.chain):
                        raise BrokenChainError(batch)
                    self.chains.attempt(batch, done[0])
            if done is not None and done[0].number == end.number:
                self.chains.reached(batch, done[0])
        return done

    # --- what a batch keeps ------------------------------------------------------------------------------------

    def batch(self, batch: int) -> Batch:
        """Return the state of a batch, as the journal has it, and its documents (see `columns` for errors)."""
        history = self.history.batches[batch]
        while True:
            line = history.line
            row: dict[str, Any] = self.columns(batch, *_OF_BATCH)
            state = history.state
            if history.line is line:  # else the row may be of before it
                break
        return Batch("closing" if state == "open" and batch in self.history.closing else state, **row)

    def wrapped_nonce(self, batch: int, nonce: bytes, label: NonceLabel = "nonce") -> bytes:
        """Return a batch's nonce encrypted, as it is stored until it is revealed."""
        return self._key(batch).nonces.wrap(nonce, label, *self.history.batches[batch].batch.bound)

    def nonce(self, batch: int, label: NonceLabel = "nonce") -> bytes:
        """Return a nonce that was fixed when the batch was closed.

        Raises UnavailableError if it is not the one that was stored, or if the batch's keys were destroyed.
        """
        name = _NONCE_COLUMNS[label]
        wrapped = self.columns(batch, name)[name]
        if not isinstance(wrapped, bytes):
            raise UnavailableError("the nonce of this batch is not in the database")
        return self._key(batch).nonces.unwrap(wrapped, label, *self.history.batches[batch].batch.bound)

    # --- destruction -------------------------------------------------------------------------------------------

    def forget_key(self, batch: int) -> None:
        """Destroy a batch's keys: nothing that was stored under them opens again, in no copy either.

        Its note stays until its shares are deleted, too.
        """
        known = self.history.batches[batch]
        if not known.is_destroyed:
            self._keys.pop(batch, None)
            self._key_files.destroy(known.name)
            known.is_destroyed = True
            self._spent.forget(batch)
            self._known.forget(batch)
            self.chains.forget(batch)

    def delete_shares(self, batch: int) -> None:
        """Delete the stored shares of a batch, a few at a time so that uploads to others go on between."""
        self._spent.forget(batch)
        first: int | None = 0
        while first is not None:
            with self.database.writing() as connection:
                first = empty_some(connection, batch, first)

    def delete_ids(self, batch: int) -> None:
        """Delete what is left of a batch's reports, a few at a time; only their number stays."""
        self._known.forget(batch)
        self._listed.pop(batch, None)
        count = self.num_reports(batch)
        with self.database.writing() as connection:
            connection.execute(update(batches).where(batches.c.batch == batch).values(num_reports=count))
        left = True
        while left:
            with self.database.writing() as connection:
                left = drop_some(connection, batch)


T = TypeVar("T")


def _joined(parts: Sequence[Sequence[T]]) -> Sequence[T]:
    return parts[0] if len(parts) == 1 else list(chain.from_iterable(parts))


def _chosen(
    group: Sequence[StoredUpload], closed: LintraError | None, stored: set[bytes], used: set[bytes], space: int
) -> tuple[dict[bytes, bytes], Sequence[bytes], dict[int, list[Outcome]]]:
    """Return which reports of some uploads are to be stored, their serials, and what becomes of each upload's.

    `closed` is why the batch takes no new reports, if it does not; `space` is how many it takes at most. `stored` are
    those that it holds, and `used` the serials of its tokens that were used; those of the chosen reports are added.
    """
    full = BatchClosedError(f"it holds the task's maximum of {group[0].capacity} reports")
    new, serials, outcomes = dict[bytes, bytes](), list[bytes](), dict[int, list[Outcome]]()
    for upload in group:
        refusal, taken = upload.refusal or closed, outcomes.setdefault(id(upload), [])
        own: Sequence[bytes | None] = upload.serials or [None] * len(upload.report_ids)
        for report_id, payload, serial in zip(upload.report_ids, upload.payloads, own, strict=True):
            if report_id in stored or report_id in new:
                taken.append(False)
            elif refusal or len(new) >= space:
                taken.append(refusal or full)
            elif serial in used:
                taken.append(TokenSpentError())
            else:
                if serial is not None:
                    used.add(serial)
                    serials.append(serial)
                new[report_id] = payload
                taken.append(True)
    return new, serials, outcomes
