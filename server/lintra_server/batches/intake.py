"""The only way in: an upload is cut into blocks, what is new is opened and checked, and what is good stored (R2-R4).

An answer is given only after the commit that holds its reports is durable.
"""

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.crypto.tokens import SERIAL_BYTES
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import (
    BatchClosedError,
    LintraError,
    ReportTooEarlyError,
    TaskEndedError,
    TaskNotStartedError,
    TokenInvalidError,
    UnavailableError,
)
from lintra_protocol.messages.documents import Counters, Failure, receipt_hash
from lintra_protocol.messages.receipts import KIND, answer_bytes, receipt_bytes, signed_bytes
from lintra_protocol.report.upload import SealedBlock, decode_count, decode_passes, decode_upload, passes_bytes
from lintra_protocol.task import Task
from lintra_server.batches.backlog import Backlog
from lintra_server.batches.registry import SKEW_UNITS, RegisteredBatch, RegisteredTask
from lintra_server.batches.report_decryption import FindKey, Opened, is_admitted, open_blocks
from lintra_server.batches.write_queue import Lookups, ReportWriter, WriteQueue
from lintra_server.storage.store import Outcome, StoredUpload

NumberOf = Callable[[RegisteredTask, int], int | None]
OpenBatch = Callable[[RegisteredTask, int], int]
FindStored = Callable[[int, Sequence[bytes]], set[bytes]]
AreNew = Callable[[RegisteredTask, int, Sequence[bytes]], bool]
HasKeys = Callable[[Sequence[bytes]], bool]

OPENERS = 2

SMALL = 1 << 16
"""Bytes of sealed blocks that are opened in the event loop; they take about a millisecond at most.

The interpreter's lock is held as long in any thread: the loop would wait for it all the same, and be woken.
"""


@dataclass
class IntakeCount:
    """What became of the reports of one task that were not stored, since this process started.

    How many were stored the store knows, whatever process stored them. What the analyst was told of the others before
    this process began the store knows too.
    """

    repeated: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def message(self, stored: int, before: Counters | None) -> Counters:
        """Return it with what was told before; the parts add up because nothing is counted apart from them."""
        counted = Counter(before.refused if before else {}) + self.refused
        repeated = self.repeated + (before.repeated if before else 0)
        received = stored + repeated + counted.total()
        return Counters(received=received, accepted=stored, repeated=repeated, refused=dict(sorted(counted.items())))


class Intake:
    """Takes uploads of all tasks."""

    def __init__(
        self,
        writer: ReportWriter,
        find_key: FindKey,
        find_stored: FindStored,
        are_new: AreNew,
        has_keys: HasKeys,
        identity: SigningKey,
        max_wait_seconds: float,
        now: Callable[[], float],
        observe: Callable[[str, int], None],
        number_of: NumberOf,
        open_batch: OpenBatch,
    ) -> None:
        """Take uploads.

        `find_key` returns the private key with an identifier, or raises `OutdatedKeyError`. `find_stored` returns which
        of some reports of a batch, given by its number, are stored durably. `are_new` returns, without waiting, whether
        memory shows that none of some reports of a batch is stored. `has_keys` returns, without waiting, whether the
        private keys with some identifiers are in memory. `max_wait_seconds` limits the work that may be ahead of an
        upload. `now` is the clock, in seconds since the epoch; `observe` is told outcomes and their numbers.
        `number_of` returns the number of a batch of a task, or None if it was not opened yet. `open_batch` returns the
        number of a batch of a task, and opens it if need be.
        """
        self._writer = writer
        self._handover = WriteQueue(writer)
        self._find_key = find_key
        self._find_stored = find_stored
        self._are_new = are_new
        self._has_keys = has_keys
        self._lookups = Lookups(lambda: self._openers, self._stored_among)
        self._identity = identity
        self._backlog = Backlog(max_wait_seconds)
        self._now = now
        self._observe = observe
        self._number_of = number_of
        self._open_batch = open_batch
        self._openers = ThreadPoolExecutor(OPENERS, thread_name_prefix="lintra-opener")
        self._tallies: defaultdict[tuple[int, int], IntakeCount] = defaultdict(IntakeCount)
        self._counting = threading.Lock()

    def counters(self, held: RegisteredBatch, stored: int, before: Counters | None) -> Counters:
        """Return what became of a task's reports: `stored` ones, and the rest with what was told `before`."""
        return self._tallies[held.key, held.batch].message(stored, before)

    async def accept(self, held: RegisteredTask, body: bytes) -> bytes:
        """Store the good reports of an upload durably; return the encoded `UploadAnswer`, which says which failed."""
        blocks = decode_upload(body, held.task, held.server)
        report_ids = [report_id for block in blocks for report_id in block.report_ids]
        batches = _batches_of(held.task, blocks)
        try:
            with self._backlog.of(len(body)):
                outcomes = await self._outcomes(held, blocks, report_ids, batches)
        except LintraError as error:
            self._count(held, [error] * len(report_ids), batches)
            raise
        self._count(held, outcomes, batches)
        return self._answer(held, report_ids, outcomes)

    async def _outcomes(
        self, held: RegisteredTask, blocks: Sequence[SealedBlock], report_ids: Sequence[bytes], batches: Sequence[int]
    ) -> list[bool | LintraError]:
        try:
            opened = await self._opened(held, blocks, report_ids, batches)
        except UnavailableError:
            # As after a commit that failed, readiness finds out why.
            self._writer.failed = True
            raise
        serials = [each[:SERIAL_BYTES] for block in blocks for each in block.passes]
        payloads = [each for each in opened if type(each) is bytes]
        # Nearly every upload: all of it opened, and of one batch, so the store gets its lists as they are.
        if len(payloads) == len(opened) and _are_alike(batches):
            return list(await self._stored(held, batches[0], report_ids, payloads, serials))
        outcomes: list[bool | LintraError] = [each if isinstance(each, LintraError) else False for each in opened]
        good: dict[int, dict[int, bytes]] = {}
        for place, each in enumerate(opened):
            if isinstance(each, bytes):
                good.setdefault(batches[place], {})[place] = each
        for batch, own in good.items():
            used = [serials[place] for place in own] if serials else ()
            names = [report_ids[place] for place in own]
            stored = await self._stored(held, batch, names, list(own.values()), used)
            for place, outcome in zip(own, stored, strict=True):
                outcomes[place] = outcome
        return outcomes

    async def _stored(
        self, held: RegisteredTask, batch: int, report_ids: Sequence[bytes], payloads: Sequence[bytes],
        serials: Sequence[bytes],
    ) -> Sequence[Outcome]:  # fmt: skip
        """Store the opened reports of one batch, which is opened for the first of them if it takes any now."""
        refusal = clock_refusal(held.task, batch, self._now())
        number = self._number_of(held, batch)
        if number is None:
            # No batch is opened for reports that come at a time when it takes none.
            if refusal is not None:
                return [refusal] * len(report_ids)
            try:
                number = await asyncio.get_running_loop().run_in_executor(self._openers, self._open_batch, held, batch)
            except BatchClosedError as error:
                return [error] * len(report_ids)
        # The refusal goes along: a report that is stored already is acknowledged at any time.
        upload = StoredUpload(number, report_ids, payloads, held.task.max_clients, refusal, serials)
        return await self._handover.submit(upload)

    async def _opened(
        self, held: RegisteredTask, blocks: Sequence[SealedBlock], report_ids: Sequence[bytes], batches: Sequence[int]
    ) -> "list[Opened]":
        """Look up what is stored, and open the rest: what takes long or may wait in another thread.

        To open a small upload takes no longer than to hand it over, and holds the interpreter's lock in any thread.
        """
        loop = asyncio.get_running_loop()
        if not is_small(blocks, batches, SMALL):
            return await loop.run_in_executor(self._openers, self._open_new, held, blocks, report_ids, batches)
        known = set[bytes]()
        if not self._are_new(held, batches[0], report_ids):
            known = await self._lookups.find(held, batches[0], report_ids)
        # A key that is not in memory is read from a file, and the loop must not wait for a disk.
        if known.issuperset(report_ids) or self._has_keys([block.key_id for block in blocks]):
            return open_blocks(held, blocks, self._find_key, known)
        return await loop.run_in_executor(self._openers, open_blocks, held, blocks, self._find_key, known)

    def _open_new(
        self, held: RegisteredTask, blocks: Sequence[SealedBlock], report_ids: Sequence[bytes], batches: Sequence[int]
    ) -> "list[Opened]":
        """Look up what is stored, batch by batch, and open the rest."""
        known = set[bytes]()
        for batch in set(batches):
            ids = [report_id for report_id, own in zip(report_ids, batches, strict=True) if own == batch]
            known |= self._stored_among(held, batch, ids)
        return open_blocks(held, blocks, self._find_key, known)

    def _stored_among(self, held: RegisteredTask, batch: int, report_ids: Sequence[bytes]) -> set[bytes]:
        number = self._number_of(held, batch)
        return set() if number is None else self._find_stored(number, report_ids)

    def _count(self, held: RegisteredTask, outcomes: Sequence[bool | LintraError], batches: Sequence[int]) -> None:
        # Mostly all are of one batch and have one outcome, which an error that refuses all is, too.
        if _are_alike(outcomes) and _are_alike(batches):
            self.note(held.key, batches[0], _token(outcomes[0]), len(outcomes))
            return
        for (batch, token), count in Counter(zip(batches, map(_token, outcomes), strict=True)).items():
            self.note(held.key, batch, token, count)

    def note(self, key: int, batch: int, token: str, count: int) -> None:
        """Count what became of some reports of a batch: `accepted`, `repeated` or an error's token; in any thread.

        `key` is the number of their task in the store.
        """
        self._observe(token, count)
        with self._counting:
            tally = self._tallies[key, batch]
            if token == "repeated":
                tally.repeated += count
            elif token != "accepted":
                tally.refused[token] += count

    def _answer(
        self, held: RegisteredTask, report_ids: Sequence[bytes], outcomes: Sequence[bool | LintraError]
    ) -> bytes:
        failures, stored = list[bytes](), report_ids
        if set(map(type, outcomes)) != {bool}:
            told = list(zip(report_ids, outcomes, strict=True))
            failures = [_failure(name, outcome) for name, outcome in told if isinstance(outcome, LintraError)]
            stored = [name for name, outcome in told if not isinstance(outcome, LintraError)]
        receipt = receipt_bytes(held.task.task_id, held.server, len(stored), receipt_hash(stored))
        return answer_bytes(failures, signed_bytes(receipt, self._identity.sign(KIND, receipt)))

    def close(self) -> None:
        """Stop opening reports."""
        self._openers.shutdown()


def is_small(blocks: Sequence[SealedBlock], batches: Sequence[int], most: int) -> bool:
    """Return whether an upload is of one batch and so short that it is opened where it came in.

    `most` is bytes of its sealed messages.
    """
    return _are_alike(batches) and sum([len(block.sealed) for block in blocks]) <= most


def _are_alike(values: Sequence[object]) -> bool:
    """Return whether there is one value for all reports of an upload, of which there is at least one."""
    return values.count(values[0]) == len(values)


def _token(outcome: bool | LintraError) -> str:
    return outcome.token if isinstance(outcome, LintraError) else ("repeated", "accepted")[outcome]


def _failure(report_id: bytes, error: LintraError) -> bytes:
    name = base64url(report_id)
    return Failure(report_id=name, type=error.token, detail=error.detail, retryable=error.retryable).canonical()


def screening(held: RegisteredTask) -> Callable[[bytes], bool] | None:
    """Return what looks at the tokens of an upload before the rest of it is read; None in an open task.

    It is given what has arrived so far, and returns whether it has seen enough. It raises `TokenInvalidError` if none
    of the tokens is this task's, and `InvalidMessageError` if the upload does not even begin like one.
    """
    admission = held.admission
    if admission is None:
        return None

    def screen(arrived: bytes) -> bool:
        if len(arrived) < passes_bytes(0) or len(arrived) < passes_bytes(decode_count(arrived)):
            return False
        passes = decode_passes(arrived[: passes_bytes(decode_count(arrived))])
        if not any(is_admitted(admission, each) for each in passes):
            raise TokenInvalidError
        return True

    return screen


def nearest_batch(task: Task, time: int) -> int:
    """Return the batch of a time, or the one that is nearest to a time outside the task."""
    return task.batch_of(min(max(time, task.not_before), task.not_after - 1))


def _batches_of(task: Task, blocks: Sequence[SealedBlock]) -> list[int]:
    """Return the batch of each report; those of an upload have few times."""
    times = blocks[0].times if len(blocks) == 1 else [time for block in blocks for time in block.times]
    if _are_alike(times):
        return [nearest_batch(task, times[0])] * len(times)
    nearest = {time: nearest_batch(task, time) for time in set(times)}
    return [nearest[time] for time in times]


def clock_refusal(task: Task, batch: int, now: float) -> LintraError | None:
    """Return why a batch of a task takes no new reports at this moment, or None."""
    unit = now // task.time_precision
    if task.windows is not None:
        begins, ends = task.span(batch)
        if unit < begins - SKEW_UNITS:
            return ReportTooEarlyError(f"window {batch} begins at {begins} and this server's clock is at {unit:.0f}")
        if unit >= ends + task.windows.grace:
            return BatchClosedError(
                f"window {batch} ended at {ends}, its grace {task.windows.grace} later, and this server's clock is at "
                f"{unit:.0f}"
            )
        return None
    if unit < task.not_before - SKEW_UNITS:
        return TaskNotStartedError(f"it begins at {task.not_before} and this server's clock is at {unit:.0f}")
    if unit >= task.not_after + SKEW_UNITS:
        return TaskEndedError(f"it ended at {task.not_after} and this server's clock is at {unit:.0f}")
    return None
