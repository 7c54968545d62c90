"""The public SDK: open a task, send rows.

`Client.open` refuses a task before a row is looked at; `send` and `send_many` refuse a row before a byte leaves.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np

from lintra_client.ledger.entries import Source, Vouched
from lintra_client.ledger.ledger import (
    DEFAULT_LEDGER,
    DISTINCT_SOURCES,
    SELF,
    Distinct,
    Ledger,
    OwnLedger,
    default_path,
)
from lintra_client.ledger.outbox import Outbox
from lintra_client.organisations.mapping import AS_IT_IS, FileMapping
from lintra_client.sending.connection import Channel, Retries
from lintra_client.sending.delivery import Delivery, Destination, found_at
from lintra_client.sending.http import Http, http_of
from lintra_client.sending.sealed_reports import (
    Parcel,
    block_size,
    encode_apart,
    encode_together,
    report_time,
    spelled,
    tokens_of,
)
from lintra_client.sending.sending import Sending, SendReceipt, receipt_of
from lintra_client.task_check import ClientPolicy, Servers, addresses_of, task_identifier
from lintra_client.upload.bulk import BulkCount, Progress, RowBlock, SendSummary, blocks_of, directly, send_blocks
from lintra_protocol.crypto.randomness import RandomBytes, bulk_system_randomness, system_randomness
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import LedgerRefusedError
from lintra_protocol.fields.person_names import PersonNames, person_name
from lintra_protocol.fields.schema import Row
from lintra_protocol.messages.documents import BATCH
from lintra_protocol.task import Task

if TYPE_CHECKING:
    import httpx2

    from lintra_client.counted import Counted
    from lintra_client.organisations.contribution import Contribution
    from lintra_client.organisations.dataframes import TypedFrame
    from lintra_client.organisations.table import Rows


class Client:
    """One task as seen from one client; use it with `async with`."""

    def __init__(
        self,
        task_id: str,
        servers: Servers,
        *,
        policy: ClientPolicy | None = None,
        ledger: Ledger | OwnLedger | None = DEFAULT_LEDGER,
        token: str | None = None,
        strict: bool = False,
        retries: Retries | None = None,
        now: Callable[[], float] = time.time,
        transport: "httpx2.AsyncBaseTransport | None" = None,
    ) -> None:
        """Connect to nothing yet.

        Args:
            task_id: the identifier from whoever asks for the data; everything else is checked against it.
            servers: where the N servers are.
            policy: what this client's owner accepts; every valid task if not given.
            ledger: charged before a report leaves; the user's own, if none is given. None is a choice: the caller then
                keeps count of reports and privacy. The client does not close a ledger that it is given.
            token: admits one report, in a task that asks for tokens; from whoever invited this client.
            strict: refuse rows in which a value is missing or outside the task's columns. By default they are sent as
                the task says (docs/reference/client.md#missing-values), so that sending says nothing about a row.
            retries: how long to keep trying.
            now: the clock, in seconds since the epoch.
            transport: how HTTP requests travel, for tests and special networks; it is closed with the client.

        Raises:
            ValueError: the identifier or a URL cannot be one, or a server is named twice.
        """
        self._addresses = addresses_of(servers)
        self._task_id = task_identifier(task_id)
        self._policy = policy or ClientPolicy()
        self._ledger = ledger if isinstance(ledger, Ledger) else None
        self._owns_ledger = ledger is DEFAULT_LEDGER
        self._outbox: Outbox | None = None
        self._token = token
        self._strict = strict
        self._retries = retries or Retries()
        self._now = now
        self._transport = transport
        self._http: Http | None = None
        self._task: Task | None = None
        self._destinations: list[Destination] = []

    def __repr__(self) -> str:
        return f"Client({self._task_id!r}, {list(self._addresses)})"

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Fetch the task from all servers, check it, and fetch every server's key; nothing if that is done.

        Raises:
            LintraError: a server cannot be reached, or the task is refused (see `lintra_client.task_check`).
        """
        if self._http is not None:
            return
        self._http = http_of(self._transport, self._retries.timeout)
        try:
            await asyncio.to_thread(self._open_books)
            channels = [Channel(self._http, *each, self._retries) for each in self._addresses.items()]
            self._task, self._destinations = await found_at(channels, self._task_id, self._policy, self._now)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close all connections; nothing can be sent afterwards."""
        http, self._http, self._destinations = self._http, None, []
        outbox, self._outbox = self._outbox, None
        if outbox is not None:
            outbox.close()
        if self._owns_ledger and self._ledger is not None:
            self._ledger.close()
        if http is not None:
            await http.close()

    @property
    def task(self) -> Task:
        """Return the checked task; a `ValueError` says that the client is not open."""
        if self._task is None:
            raise ValueError("the client is not open; use `async with Client(...) as client`")
        return self._task

    # --- one row -----------------------------------------------------------------------------------------------

    async def send(self, row: Row, random_bytes: RandomBytes = system_randomness, *, source: str = SELF) -> SendReceipt:
        """Send one row, given by column name or in column order, which states the facts of `source`.

        A source has one report in a task, or in each of the windows that it answers. Sent again, after a failure, a
        crash or a success, it is the same report that goes to the servers that lack it, whatever the row is now; the
        receipt says `repeated`. Without a ledger every call makes a report of its own: `prepare` and `deliver` then
        allow to try the same one again.

        Raises:
            InvalidRowError: the row does not fit the columns; nothing has left.
            LedgerRefusedError: the source has no privacy left for this task, or its report is gone; nothing has left.
            LintraError: a server did not take the report.
        """
        if self._ledger is None or self._outbox is None:
            return await self.deliver(self.prepare(row, random_bytes, source=source))
        source, sending = person_name(source), Sending(self.task, self._open(), self._ledger, self._outbox)
        batch = self.task.batch_of(report_time(self.task, self._now()))
        kept = await sending.begun(source, batch)
        if kept is None:
            parcel = self.prepare(row, random_bytes, source=source)
            batch = parcel.batch
            sent = await sending.first(source, parcel)
            if sent is not None:
                return receipt_of(self.task, sent, parcel)
            kept = await sending.begun(source, batch)
        if kept is None:
            raise LedgerRefusedError("another process has just sent, or refused, this source's report; try again")
        return receipt_of(self.task, await sending.resumed(source, kept, batch), None)

    def prepare(self, row: Row, random_bytes: RandomBytes = system_randomness, *, source: str = SELF) -> Parcel:
        """Turn one row into a report without sending or charging it; `random_bytes` is a cryptographic source.

        Raises:
            InvalidRowError: the row does not fit.
            TaskNotStartedError: it is too early.
            TaskEndedError: it is too late.
        """
        source = person_name(source)
        values = self.task.schema_arrays.row(row, strict=self._strict)
        when = report_time(self.task, self._now())
        parcel = encode_together(self.task, values[np.newaxis], when, random_bytes)
        return replace(parcel, sources=(source,), tokens=tokens_of(self.task, [self._token]))

    async def deliver(self, parcel: Parcel) -> SendReceipt:
        """Deliver a prepared report to all servers; harmless to repeat, and charged once.

        Raises:
            ValueError: the parcel holds several reports, or none.
            LedgerRefusedError: the ledger does not let it leave; nothing has left.
            LintraError: the first refusal in the task's order; the other servers were still asked.
        """
        if len(parcel.reports) != 1:
            raise ValueError(f"deliver takes one report, got {len(parcel.reports)}")
        for refusal in (await self._charge(parcel)).values():
            raise refusal
        deliveries = await self._deliver(parcel)
        for delivery in deliveries:
            for error in delivery.failures.values():
                raise error
        return SendReceipt(
            report_id=spelled(parcel.report_ids[0]),
            clipped=parcel.clipped[0],
            incomplete=parcel.incomplete[0],
            servers=tuple(entry.url for entry in self.task.servers),
            signed=tuple(delivery.receipts[-1] for delivery in deliveries),
        )

    # --- many rows ---------------------------------------------------------------------------------------------

    async def send_many(
        self,
        rows: "Iterable[Row] | FloatArray | TypedFrame",
        *,
        source_for: Callable[[int], object] | Distinct | None = None,
        source_column: str | None = None,
        token_for: Callable[[int], str] | None = None,
        random_bytes_for: Callable[[int], RandomBytes] | None = None,
        progress: Progress | None = None,
        mapping: FileMapping = AS_IT_IS,
    ) -> SendSummary:
        """Send many rows, in blocks of up to 256.

        Args:
            rows: an array of shape `(n, d)` or a data frame with the task's columns by name, checked as a whole before
                anything leaves; or any iterable, of which a row that does not fit is reported in the summary.
            source_for: returns whose facts the row with this index states, asked after the row was read (spellings:
                docs/reference/client-ledger.md#names). Or `DISTINCT_SOURCES`: the caller vouches that no two rows are
                about one source, and all rows are one charge, which counts for every source. Needed with a ledger.
            source_column: instead, the column of a data frame that says whose facts a row states; it is not sent.
            token_for: returns the token of the row with this index, in a task that asks for tokens.
            random_bytes_for: returns the source of the row with this index; rows are then encoded one by one.
            mapping: of a data frame, what the sender says of columns and cells.
            progress: told after every block how many rows are done.

        Returns:
            What became of every row that was read. With a ledger and named sources, a repeated call completes what an
            earlier one began (`repeated`). A server that takes nothing of a block, or a ledger that lets no report
            leave, stops the call.

        Raises ValueError if the client has a ledger and nobody says whose facts the rows state; InvalidRowError, which
        names row and column, if an array or a data frame does not fit; and what the iterable raised, after all rows
        before it were dealt with.
        """
        from lintra_client.organisations.dataframes import TypedFrame, rows_of_frame, sources_of_frame
        from lintra_client.upload.bulk_send import BlockSending

        task = self.task
        if source_column is not None:
            if source_for is not None or not isinstance(rows, TypedFrame):
                raise ValueError("source_column names a column of a data frame, and takes the place of source_for")
            source_for = sources_of_frame(rows, source_column)
        if isinstance(rows, TypedFrame):
            rows = rows_of_frame(rows, task.columns, source_column, mapping)
        if self._ledger is not None and source_for is not DISTINCT_SOURCES and not callable(source_for):
            raise ValueError("with a ledger, say whose facts each row states: give source_for")
        blocks = blocks_of(task.schema_arrays, rows, block_size(task), strict=self._strict)
        vouched, names = Vouched(), PersonNames()

        def encode(block: RowBlock) -> Parcel:
            sources: list[Source] = [vouched] * len(block.indices)
            if callable(source_for):
                sources = [names.of(source_for(index)) for index in block.indices]
            when = report_time(task, self._now())
            if random_bytes_for is None:
                parcel = encode_together(task, block.rows, when, bulk_system_randomness())
            else:
                apart = [random_bytes_for(index) for index in block.indices]
                parcel = encode_apart(task, block.rows, when, apart)
            tokens = [token_for(index) if token_for else self._token for index in block.indices]
            return replace(parcel, sources=tuple(sources), tokens=tokens_of(task, tokens))

        carry = directly(self._charge, self._deliver)
        if callable(source_for) and self._ledger is not None and self._outbox is not None:
            carry = BlockSending(task, self._open(), self._ledger, self._outbox).carry
        return replace(await send_blocks(blocks, encode, carry, BulkCount(progress)), joined=names.joined)

    # --- an organisation ---------------------------------------------------------------------------------------

    async def contribute(
        self,
        rows: "Rows",
        *,
        person: str | Sequence[object] | None = None,
        keep: int | None = None,
        leave_out: bool = False,
        mapping: FileMapping = AS_IT_IS,
        random_bytes: RandomBytes = system_randomness,
    ) -> SendReceipt:
        """Send all rows of an organisation as one report, for which every person is charged; again if sent again.

        Args:
            rows: an array of shape `(n, d)`, a data frame, or columns by name.
            person: whose row each is: a column, which is not sent, or a name for each. Without it the caller vouches
                that no person appears twice, and the task must allow one row of each.
            keep: how many rows of each person are kept, the first ones; else a person with too many is refused.
            leave_out: whether persons without privacy left are left out; else the file is refused.
            mapping: what the sender says of columns and cells: other names, decimal marks, missing codes.
            random_bytes: a cryptographic source.

        Raises InvalidRowError or LedgerRefusedError if nothing could leave, LintraError if a server took no report.
        """
        if (begun := await self.finish_contribution()) is not None:
            return begun
        made = await asyncio.to_thread(
            self.contribution, rows, person=person, keep=keep, leave_out=leave_out, mapping=mapping
        )
        return await self.send_contribution(made, random_bytes)

    def contribution(
        self,
        rows: "Rows",
        *,
        person: str | Sequence[object] | None = None,
        keep: int | None = None,
        leave_out: bool = False,
        mapping: FileMapping = AS_IT_IS,
    ) -> "Contribution":
        """Encode all rows as `contribute` does, and say what is in them: nothing is charged, and nothing leaves."""
        from lintra_client.organisations.contribution import prepare

        return prepare(
            self.task, self._ledger, rows, mapping, person=person, keep=keep, leave_out=leave_out, strict=self._strict
        )

    async def finish_contribution(self) -> SendReceipt | None:
        """Send what is left of this organisation's report in this task, if one was begun; None if there is none."""
        if self._ledger is None or self._outbox is None:
            return None
        from lintra_client.organisations.contribution import finished

        sending = Sending(self.task, self._open(), self._ledger, self._outbox, ())
        sent = await finished(sending, self.task, report_time(self.task, self._now()))
        return None if sent is None else receipt_of(self.task, sent, None)

    async def send_contribution(
        self, made: "Contribution", random_bytes: RandomBytes = system_randomness
    ) -> SendReceipt:
        """Send what `contribution` has prepared."""
        when, tokens = report_time(self.task, self._now()), tokens_of(self.task, [self._token])
        if self._ledger is None or self._outbox is None:
            return await self.deliver(made.parcel(self.task, when, random_bytes, tokens))
        from lintra_client.organisations.contribution import send_once

        sending = Sending(self.task, self._open(), self._ledger, self._outbox, made.sources)
        return receipt_of(self.task, *await send_once(sending, made, self.task, when, random_bytes, tokens))

    # --- afterwards --------------------------------------------------------------------------------------------

    async def counted(self, report_id: str, *, batch: int = BATCH, certificate: str | None = None) -> "Counted":
        """Have the servers prove whether a report is in the cohort that they froze; see `counting.ask_counted`."""
        from lintra_client.counted import ask_counted

        channels = [destination.channel for destination in self._open()]
        return await ask_counted(self.task, channels, report_id, batch, certificate)

    # --- inside ------------------------------------------------------------------------------------------------

    def _open_books(self) -> None:
        """Open the ledger, if it is this client's own, and the outbox beside it."""
        if self._owns_ledger:
            self._ledger = Ledger(default_path())
        if self._ledger is not None:
            self._outbox = self._ledger.open_outbox()
            self._outbox.expire(self._now())

    def _open(self) -> list[Destination]:
        if not self._destinations:
            raise ValueError("the client is closed: use it inside its with block, or open another")
        return self._destinations

    async def _charge(self, parcel: Parcel) -> dict[bytes, LedgerRefusedError]:
        """Charge a parcel; what is not returned may leave once this is done, and not before."""
        self._open()
        if self._ledger is None:
            return {}
        reports = dict(zip(parcel.report_ids, parcel.sources, strict=True))
        # In a thread: the disk, or another process at the same ledger, may take its time.
        return await asyncio.to_thread(self._ledger.charge_task, self.task, reports, parcel.batch)

    async def _deliver(self, parcel: Parcel) -> list[Delivery]:
        return await asyncio.gather(*(destination.deliver(parcel) for destination in self._open()))
