"""Many rows of named sources through the outbox: what an interrupted call began is completed, and never made again.

A block is kept on disk, then charged, then sent, as one row is (`lintra_client.sending.sending`). Rows for which the
caller only vouches have no name under which they could be found again; they take the direct way.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lintra_client.ledger.ledger import Ledger
from lintra_client.ledger.outbox import Outbox, OutboxEntry
from lintra_client.sending.delivery import Delivery, Destination
from lintra_client.sending.sealed_reports import Parcel, spelled
from lintra_client.sending.sending import GIVEN_UP, expiry_of
from lintra_client.upload.bulk import BulkCount, FailedRow, RowBlock
from lintra_protocol.errors import LedgerRefusedError, LintraError
from lintra_protocol.report.upload import decode_upload, encode_upload
from lintra_protocol.task import Task


class BlockSending:
    """Sends the blocks of one call of `send_many`, whose sources all have names."""

    def __init__(self, task: Task, destinations: Sequence[Destination], ledger: Ledger, outbox: Outbox) -> None:
        """Send to the servers of a task, in its order."""
        self._task = task
        self._destinations = destinations
        self._ledger = ledger
        self._outbox = outbox
        self._begun: set[str] = set()

    async def carry(self, block: RowBlock, parcel: Parcel, tally: BulkCount) -> None:
        """Send what is new of a block, and complete what an earlier call began of it."""
        names = [str(source) for source in parcel.sources]
        first = [position for position, name in enumerate(names) if self._is_first(name)]
        twice = LedgerRefusedError("its source has a row in this call already")
        tally.refuse(FailedRow(block.indices[p], twice) for p in range(len(names)) if p not in set(first))
        try:
            kept = await asyncio.to_thread(self._outbox.find_many, self._task.task_id, parcel.batch, names)
        except LintraError as error:
            _stop(tally, block.part(first), error)
            return
        await self._new(block, parcel, [position for position in first if names[position] not in kept], tally)
        before = {block.indices[position]: (names[position], kept[names[position]]) for position in first
                  if names[position] in kept}  # fmt: skip
        await self._begun_before(before, parcel.batch, tally)

    def _is_first(self, name: str) -> bool:
        """Return whether this is the call's first row of a source."""
        known = name in self._begun
        self._begun.add(name)
        return not known

    # --- new reports -------------------------------------------------------------------------------------------

    async def _new(self, block: RowBlock, parcel: Parcel, positions: Sequence[int], tally: BulkCount) -> None:
        """Keep, charge and send the reports at some positions of a block."""
        if not positions:
            return
        # Each report in a block of its own: what is kept of one must go, or be given up, without the others.
        block, parcel = block.part(positions), replace(parcel.part(positions), apart=True)
        try:
            refused = await self._kept_and_charged(parcel)
        except LintraError as error:
            _stop(tally, block, error)
            return
        known = list(zip(block.indices, parcel.report_ids, strict=True))
        tally.refuse(FailedRow(index, refused[report_id]) for index, report_id in known if report_id in refused)
        left = [position for position, (_, report_id) in enumerate(known) if report_id not in refused]
        if not left:
            return
        block, parcel = block.part(left), parcel.part(left)
        deliveries = await asyncio.gather(*(destination.deliver(parcel) for destination in self._destinations))
        for destination, delivery in zip(self._destinations, deliveries, strict=True):
            # With a newer key the same shares were sealed anew.
            anew: dict[bytes, bytes | None] = {
                known: encode_upload([parcel.sealed_before(destination.index, known)]) for known in delivery.failures
            }
            await self._settled(destination, delivery, parcel.report_ids, anew)
        tally.settle(block, parcel, deliveries)

    async def _kept_and_charged(self, parcel: Parcel) -> dict[bytes, LintraError]:
        """Return the reports that must not leave; the others are on disk, and then charged."""
        messages: dict[bytes, dict[int, bytes]] = {report_id: {} for report_id in parcel.report_ids}
        for destination in self._destinations:
            for block in await parcel.sealed(self._task, destination.index, await destination.key()):
                messages[block.report_ids[0]][destination.index] = encode_upload([block])
        sources = dict(zip(parcel.report_ids, map(str, parcel.sources), strict=True))
        expires, batch = expiry_of(self._task, parcel.batch), parcel.batch
        taken = await asyncio.to_thread(self._outbox.keep_many, self._task.task_id, batch, sources, messages, expires)
        faster = LedgerRefusedError("another process has just sent this source's report; try again")
        refused: dict[bytes, LintraError] = {known: faster for known in parcel.report_ids if known not in taken}
        return refused | await self._charged({known: sources[known] for known in taken}, batch)

    async def _charged(self, sources: Mapping[bytes, str], batch: int) -> dict[bytes, LedgerRefusedError]:
        """Charge reports that are kept; those that must not leave are forgotten, too."""
        try:
            refused = await asyncio.to_thread(self._ledger.charge_task, self._task, sources, batch)
        except LintraError:
            await asyncio.to_thread(self._outbox.forget, *sources)
            raise
        await asyncio.to_thread(self._outbox.forget, *refused)
        return refused

    # --- reports of an earlier call ----------------------------------------------------------------------------

    async def _begun_before(self, rows: Mapping[int, tuple[str, OutboxEntry]], batch: int, tally: BulkCount) -> None:
        """Complete reports, by the index of their row, at the servers that lack them."""
        if not rows:
            return
        try:
            refused = await self._charged({kept.report_id: name for name, kept in rows.values()}, batch)
        except LintraError as error:
            tally.stopped = tally.stopped or error
            tally.refuse(FailedRow(index, error) for index in rows)
            return
        waiting = [kept for _, kept in rows.values() if kept.report_id not in refused]
        errors: dict[bytes, LintraError] = dict(refused)
        for destination, delivery in zip(
            self._destinations,
            await asyncio.gather(*(self._again(destination, waiting) for destination in self._destinations)),
            strict=True,
        ):
            for known, failure in delivery.failures.items():
                errors.setdefault(known, failure)
            sent = [kept.report_id for kept in waiting if destination.index in kept.sealed]
            outdated: dict[bytes, bytes | None] = {
                known: None for known, failure in delivery.failures.items() if failure.token == "outdated_key"
            }
            await self._settled(destination, delivery, sent, outdated)
        for kept in waiting:
            if len(kept.sealed) + len(kept.receipts) < len(self._destinations):
                errors.setdefault(kept.report_id, LedgerRefusedError(GIVEN_UP))
        tally.repeat(
            {index: (spelled(kept.report_id), errors.get(kept.report_id)) for index, (_, kept) in rows.items()}
        )

    async def _again(self, destination: Destination, waiting: Sequence[OutboxEntry]) -> Delivery:
        sealed = [
            form
            for kept in waiting
            if destination.index in kept.sealed
            for form in decode_upload(kept.sealed[destination.index], self._task, destination.index)
        ]
        return await destination.upload_again(sealed) if sealed else Delivery({}, ())

    # --- both --------------------------------------------------------------------------------------------------

    async def _settled(
        self,
        destination: Destination,
        delivery: Delivery,
        sent: Sequence[bytes],
        replaced: Mapping[bytes, bytes | None],
    ) -> None:
        """Keep a server's receipt in place of what it took, and what was sealed anew, or given up, of the rest."""
        taken = [known for known in sent if known not in delivery.failures]
        if taken and delivery.receipts:
            word = delivery.receipts[-1].canonical()
            await asyncio.to_thread(self._outbox.acknowledge, taken, destination.index, word)
        for known, sealed in replaced.items():
            await asyncio.to_thread(self._outbox.replace, known, destination.index, sealed)


def _stop(tally: BulkCount, block: RowBlock, error: LintraError) -> None:
    """Count a block that may not leave, and read no further row."""
    tally.stopped = tally.stopped or error
    tally.refuse(FailedRow(index, error) for index in block.indices)
