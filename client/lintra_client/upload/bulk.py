"""Many rows: read in blocks, encoded together, a few blocks under way at once, and an account of every row.

Memory holds the blocks under way and what failed, never all rows. An iterable is read only as fast as the servers
answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lintra_client.sending.connection import TRANSIENT
from lintra_client.sending.delivery import Delivery
from lintra_client.sending.sealed_reports import Parcel, spelled
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidRowError, LintraError
from lintra_protocol.fields.schema import Row, Schema

BLOCKS_UNDER_WAY = 4

Progress = Callable[[int], None]
"""Told, after every block, how many rows are done so far, failed ones included."""


@dataclass(frozen=True)
class FailedRow:
    """A row that is not stored at every server, and the first refusal.

    Attributes:
        index: counted from 0 in the order in which the rows were given.
        error: of the row itself, or of the first server that did not take its report.
        report_id: in base64url; None if the row was refused before anything of it left.
        parcel: its report, where `Client.deliver` may still succeed; sending the row anew could count it twice.
    """

    index: int
    error: LintraError
    report_id: str | None = None
    parcel: Parcel | None = field(default=None, repr=False)


@dataclass(frozen=True)
class SendSummary:
    """What became of every row that was read: it is sent, or it is in `failed`.

    Attributes:
        sent: rows whose reports are stored at every server.
        clipped: how many of these a bound moved.
        failed: in order of their index.
        stopped: why no more rows were read: one server took nothing of a whole block, the task's window is over, or the
            ledger lets no report leave.
        incomplete: in how many of the rows sent a value was missing, or outside the task's columns.
        repeated: how many of the rows sent had a report before this call, which was completed; the row itself was not
            looked at.
        joined: how many more spellings of sources than sources there were, such as 17.0 beside 17.
    """

    sent: int
    clipped: int
    failed: tuple[FailedRow, ...]
    stopped: LintraError | None = None
    incomplete: int = 0
    repeated: int = 0
    joined: int = 0

    def require_complete(self) -> None:
        """Raise the first failure unless every row was read and sent.

        Raises:
            LintraError: why sending stopped, or why the first failed row failed.
        """
        if self.stopped is not None:
            raise self.stopped
        if self.failed:
            raise self.failed[0].error


@dataclass(frozen=True)
class RowBlock:
    """Checked rows of shape `(k, d)` with their indices, and the rows refused on the way; `repr` shows no row."""

    indices: Sequence[int]
    rows: FloatArray = field(repr=False)
    refused: tuple[FailedRow, ...] = ()

    def part(self, positions: Sequence[int]) -> "RowBlock":
        """Return the block of some of its rows."""
        return RowBlock([self.indices[position] for position in positions], self.rows[list(positions)])


def blocks_of(
    schema: Schema, rows: Iterable[Row] | FloatArray, size: int, *, strict: bool = False
) -> Iterator[RowBlock]:
    """Check rows and cut them into blocks of at most `size`.

    An array of shape `(n, d)` is checked as a whole before the first block. From an iterable, a row that does not fit
    is reported in its block and the others go on. `size` is at least 1; `strict` says whether a missing value makes a
    row unfit (see `Schema.row`).
    """
    if isinstance(rows, np.ndarray):
        checked = schema.rows(rows, strict=strict)
        starts = range(0, len(checked), size)
        return (
            RowBlock(range(start, min(start + size, len(checked))), checked[start : start + size]) for start in starts
        )
    return _blocks_of_iterable(schema, iter(rows), size, strict)


def _blocks_of_iterable(schema: Schema, rows: Iterator[Row], size: int, strict: bool) -> Iterator[RowBlock]:
    index, failure, exhausted = 0, None, False
    while not exhausted:
        indices: list[int] = []
        values: list[FloatArray] = []
        refused: list[FailedRow] = []
        while len(values) + len(refused) < size:
            try:
                row = next(rows)
            except StopIteration:
                exhausted = True
                break
            except Exception as error:  # the caller's own; what was read before it is sent first
                failure, exhausted = error, True
                break
            try:
                values.append(schema.row(row, strict=strict))
                indices.append(index)
            except InvalidRowError as error:
                refused.append(FailedRow(index, error))
            index += 1
        if values or refused:
            stacked = np.stack(values) if values else np.empty((0, len(schema.names)))
            yield RowBlock(indices, stacked, tuple(refused))
    if failure is not None:
        raise failure


class BulkCount:
    """Counts what became of the rows of one call."""

    def __init__(self, progress: Progress | None) -> None:
        """Start at zero."""
        self._progress = progress
        self._sent = 0
        self._clipped = 0
        self._incomplete = 0
        self._repeated = 0
        self._failed: list[FailedRow] = []
        self.stopped: LintraError | None = None

    def refuse(self, failures: Iterable[FailedRow]) -> None:
        """Count rows that did not become reports."""
        before = len(self._failed)
        self._failed += failures
        if len(self._failed) > before:
            self._tell()

    def settle(self, block: RowBlock, parcel: Parcel, deliveries: Sequence[Delivery]) -> None:
        """Count a block that was delivered; a server that took nothing of it stops the call."""
        if not any(each.failures for each in deliveries):
            self._sent += len(parcel.reports)
            self._clipped += sum(parcel.clipped)
            self._incomplete += sum(parcel.incomplete)
            self._tell()
            return
        for position, (index, report_id) in enumerate(zip(block.indices, parcel.report_ids, strict=True)):
            errors = [each.failures[report_id] for each in deliveries if report_id in each.failures]
            if not errors:
                self._sent += 1
                self._clipped += parcel.clipped[position]
                self._incomplete += parcel.incomplete[position]
                continue
            again = parcel.single(position) if any(isinstance(error, TRANSIENT) for error in errors) else None
            self._failed.append(FailedRow(index, errors[0], spelled(report_id), again))
        for delivery in deliveries:
            if len(delivery.failures) == len(parcel.reports):
                self.stopped = self.stopped or next(iter(delivery.failures.values()))
        self._tell()

    def repeat(self, rows: Mapping[int, tuple[str, LintraError | None]]) -> None:
        """Count rows whose reports were made before this call, by index: their identifier, and what is amiss."""
        for index, (report_id, error) in rows.items():
            if error is None:
                self._sent += 1
                self._repeated += 1
            else:
                self._failed.append(FailedRow(index, error, report_id))
        self._tell()

    def summary(self) -> SendSummary:
        """Return the account so far."""
        failed = tuple(sorted(self._failed, key=lambda row: row.index))
        return SendSummary(self._sent, self._clipped, failed, self.stopped, self._incomplete, self._repeated)

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self._sent + len(self._failed))


Carry = Callable[[RowBlock, Parcel, BulkCount], Awaitable[None]]


def directly(
    charge: Callable[[Parcel], Awaitable[Mapping[bytes, LintraError]]],
    deliver: Callable[[Parcel], Awaitable[Sequence[Delivery]]],
) -> Carry:
    """Return the way of blocks that are not kept on disk.

    `charge` returns the reports that must not leave, or raises if none may. `deliver` takes a parcel to all servers.
    """

    async def carry(block: RowBlock, parcel: Parcel, tally: BulkCount) -> None:
        charged = await _charged(block, parcel, charge, tally)
        if charged is not None:
            tally.settle(*charged, await deliver(charged[1]))

    return carry


async def send_blocks(
    blocks: Iterator[RowBlock], encode: Callable[[RowBlock], Parcel], carry: Carry, tally: BulkCount
) -> SendSummary:
    """Encode, charge and deliver blocks, at most `BLOCKS_UNDER_WAY` at once, until they end or one stops the call.

    `encode` turns a block into a parcel. `carry` charges a parcel, takes it to all servers and tells the tally. Raises
    Exception if whatever the caller's iterable raised, after all rows read before it were dealt with; a note on it says
    how many were sent.
    """
    slots = asyncio.Semaphore(BLOCKS_UNDER_WAY)

    async def settle(block: RowBlock, parcel: Parcel) -> None:
        try:
            await carry(block, parcel, tally)
        finally:
            slots.release()

    failure = None
    async with asyncio.TaskGroup() as group:
        while True:
            # The slot comes first: nothing is read while all slots are taken.
            await slots.acquire()
            if tally.stopped is not None:
                break
            try:
                block = next(blocks, None)
                if block is None:
                    break
                tally.refuse(block.refused)
                parcel = _encoded(block, encode, tally)
            except Exception as error:
                failure = error
                break
            if parcel is None:
                slots.release()
                continue
            group.create_task(settle(block, parcel))
            await asyncio.sleep(0)
    if failure is not None:
        failure.add_note(f"{tally.summary().sent} rows were sent before this")
        raise failure
    return tally.summary()


def _encoded(block: RowBlock, encode: Callable[[RowBlock], Parcel], tally: BulkCount) -> Parcel | None:
    """Encode a block; None if it has no rows, or if the task's window is over, which stops the call."""
    if not block.indices:
        return None
    try:
        return encode(block)
    except LintraError as error:
        tally.stopped = error
        tally.refuse(FailedRow(index, error) for index in block.indices)
        return None


async def _charged(
    block: RowBlock,
    parcel: Parcel,
    charge: Callable[[Parcel], Awaitable[Mapping[bytes, LintraError]]],
    tally: BulkCount,
) -> tuple[RowBlock, Parcel] | None:
    """Return what may leave of a block; None if nothing may, which stops the call only if no other row could."""
    try:
        refused = await charge(parcel)
    except LintraError as error:
        tally.stopped = tally.stopped or error
        tally.refuse(FailedRow(index, error) for index in block.indices)
        return None
    if not refused:
        return block, parcel
    known = list(zip(block.indices, parcel.report_ids, strict=True))
    tally.refuse(FailedRow(index, refused[report_id]) for index, report_id in known if report_id in refused)
    left = [position for position, (_, report_id) in enumerate(known) if report_id not in refused]
    return (block.part(left), parcel.part(left)) if left else None
