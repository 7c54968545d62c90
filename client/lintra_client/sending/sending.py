"""One row of one source: sent once, and after any interruption sent again as it was, never made again.

The order is: the sealed messages on disk, the charge on disk, the first byte. Whatever a server answers, and however
often the program calls, there is one report of a source in a window of a task.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from lintra_client.ledger.entries import Vouched
from lintra_client.ledger.ledger import Ledger
from lintra_client.ledger.outbox import Outbox, OutboxEntry
from lintra_client.sending.delivery import Delivery, Destination
from lintra_client.sending.sealed_reports import Parcel, spelled
from lintra_protocol.errors import LedgerRefusedError, LintraError
from lintra_protocol.messages.documents import Receipt, Signed
from lintra_protocol.report.upload import decode_upload, encode_upload
from lintra_protocol.task import Task

_SKEW_UNITS = 1
"""After the window servers still take a report for so many of the task's units (docs/reference/protocol.md#task)."""

GIVEN_UP = "its report was given up: a server has another key than it was sealed to"
"""What is said of a report that can never be complete."""


def expiry_of(task: Task, batch: int) -> int:
    """Return when no server takes a report of a batch any more, in seconds since the epoch."""
    after = _SKEW_UNITS if task.windows is None else task.windows.grace
    return (task.span(batch)[1] + after) * task.time_precision


@dataclass(frozen=True)
class Sent:
    """What became of a source's report: a receipt of each server, in the task's order."""

    report_id: bytes
    receipts: tuple[Signed[Receipt], ...]


@dataclass(frozen=True)
class SendReceipt:
    """A report is stored at every server.

    Attributes:
        report_id: in base64url.
        clipped: whether a bound of a column or of the norm moved the row; None if it is repeated: that row is gone.
        incomplete: whether a value was missing or outside the task's columns; None if it is repeated.
        servers: the servers' URLs, in the task's order.
        signed: each server's signed word for it, in the same order.
        repeated: whether the source had a report in this task already: that one was completed, and no other was made.
    """

    report_id: str
    clipped: bool | None
    incomplete: bool | None
    servers: tuple[str, ...]
    signed: tuple[Signed[Receipt], ...] = field(repr=False)
    repeated: bool = False


class Sending:
    """Sends the reports of one task through an outbox, charged to a ledger."""

    def __init__(
        self,
        task: Task,
        destinations: Sequence[Destination],
        ledger: Ledger,
        outbox: Outbox,
        persons: Sequence[str] | Vouched | None = None,
    ) -> None:
        """Send to the servers of a task, in its order.

        `ledger` is charged before anything leaves; `outbox` keeps what was sealed. `persons` are charged for an
        organisation's contribution; without them the source is charged.
        """
        self._persons = persons
        self._task = task
        self._destinations = destinations
        self._ledger = ledger
        self._outbox = outbox

    async def begun(self, source: str, batch: int) -> OutboxEntry | None:
        """Return what is here of an earlier report of a source in a batch, or None.

        A contribution that was kept and not charged has never left, and is forgotten: whose rows are in it only its
        charge would say.
        """
        kept = await asyncio.to_thread(self._outbox.find, self._task.task_id, batch, source)
        if kept is None or self._persons is None:
            return kept
        if await asyncio.to_thread(self._ledger.is_charged, self._task, kept.report_id, batch):
            return kept
        await asyncio.to_thread(self._outbox.forget, kept.report_id)
        return None

    async def first(self, source: str, parcel: Parcel) -> Sent | None:
        """Send a report for the first time; None if another process was faster, whose report is then to be resumed."""
        report_id, task = parcel.report_ids[0], self._task
        sealed = {
            destination.index: encode_upload(await parcel.sealed(task, destination.index, await destination.key()))
            for destination in self._destinations
        }
        expires, batch = expiry_of(task, parcel.batch), parcel.batch
        if not await asyncio.to_thread(self._outbox.keep, task.task_id, batch, source, report_id, sealed, expires):
            return None
        await self._charge(source, report_id, batch)
        deliveries = await asyncio.gather(*(destination.deliver(parcel) for destination in self._destinations))
        for destination, delivery in zip(self._destinations, deliveries, strict=True):
            if delivery.failures:
                # With a newer key the same shares were sealed anew.
                now = encode_upload([parcel.sealed_before(destination.index, report_id)])
                await asyncio.to_thread(self._outbox.replace, report_id, destination.index, now)
        return await self._settle(report_id, deliveries, {})

    async def resumed(self, source: str, kept: OutboxEntry, batch: int) -> Sent:
        """Send what is left of an earlier report; nothing, if every server has it."""
        await self._charge(source, kept.report_id, batch)
        waiting = [each for each in self._destinations if each.index in kept.sealed]
        deliveries = await asyncio.gather(*(self._again(each, kept.sealed[each.index]) for each in waiting))
        by_index = {each.index: found for each, found in zip(waiting, deliveries, strict=True)}
        for index, found in by_index.items():
            if any(error.token == "outdated_key" for error in found.failures.values()):
                await asyncio.to_thread(self._outbox.replace, kept.report_id, index, None)
        nothing = Delivery({}, ())
        given_up = LedgerRefusedError(GIVEN_UP)
        ordered = [
            by_index.get(each.index) or (nothing if each.index in kept.receipts else Delivery({b"": given_up}, ()))
            for each in self._destinations
        ]
        words = {index: Signed[Receipt].from_canonical(word) for index, word in kept.receipts.items()}
        return await self._settle(kept.report_id, ordered, words)

    async def _again(self, destination: Destination, upload: bytes) -> Delivery:
        return await destination.upload_again(decode_upload(upload, self._task, destination.index))

    async def _charge(self, source: str, report_id: bytes, batch: int) -> None:
        if self._persons is not None:
            try:
                await asyncio.to_thread(self._ledger.charge_contribution, self._task, report_id, self._persons, batch)
            except LedgerRefusedError:
                await asyncio.to_thread(self._outbox.forget, report_id)
                raise
            return
        refused = await asyncio.to_thread(self._ledger.charge_task, self._task, {report_id: source}, batch)
        for error in refused.values():
            await asyncio.to_thread(self._outbox.forget, report_id)
            raise error

    async def _settle(
        self, report_id: bytes, deliveries: Sequence[Delivery], known: dict[int, Signed[Receipt]]
    ) -> Sent:
        receipts, new = dict(known), dict[int, bytes]()
        first: LintraError | None = None
        for destination, delivery in zip(self._destinations, deliveries, strict=True):
            if delivery.receipts and not delivery.failures:
                receipts[destination.index] = delivery.receipts[-1]
                new[destination.index] = delivery.receipts[-1].canonical()
            for error in delivery.failures.values():
                first = first or error
        if new:
            # All in one transaction: until it is on disk, these messages would be sent again, which harms nobody.
            await asyncio.to_thread(self._outbox.acknowledge_all, report_id, new)
        if first is not None:
            raise first
        return Sent(report_id, tuple(receipts[destination.index] for destination in self._destinations))


def receipt_of(task: Task, sent: Sent, parcel: Parcel | None) -> SendReceipt:
    """Return the receipt of a report that was made just now, from its parcel, or before."""
    return SendReceipt(
        report_id=spelled(sent.report_id),
        clipped=None if parcel is None else parcel.clipped[0],
        incomplete=None if parcel is None else parcel.incomplete[0],
        servers=tuple(entry.url for entry in task.servers),
        signed=sent.receipts,
        repeated=parcel is None,
    )
