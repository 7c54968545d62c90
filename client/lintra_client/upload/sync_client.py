"""The client for programs without an event loop, and for those that have one and still want to block.

Requests run on a loop of their own in a thread of their own, so it works in scripts, threads and notebooks alike.
"""

import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, Unpack

from lintra_client.ledger.ledger import SELF, Distinct, Ledger, OwnLedger
from lintra_client.organisations.mapping import AS_IT_IS, FileMapping
from lintra_client.sending.connection import Retries
from lintra_client.sending.sealed_reports import Parcel
from lintra_client.sending.sending import SendReceipt
from lintra_client.task_check import ClientPolicy, Servers
from lintra_client.upload.bulk import Progress, SendSummary
from lintra_client.upload.client import Client
from lintra_protocol.crypto.randomness import RandomBytes, system_randomness
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.fields.schema import Row
from lintra_protocol.messages.documents import BATCH
from lintra_protocol.task import Task

if TYPE_CHECKING:
    import httpx2

    from lintra_client.counted import Counted
    from lintra_client.organisations.contribution import Contribution
    from lintra_client.organisations.dataframes import TypedFrame
    from lintra_client.organisations.table import Rows

T = TypeVar("T")


class ClientOptions(TypedDict, total=False):
    """The keyword arguments of `Client`."""

    policy: ClientPolicy | None
    ledger: Ledger | OwnLedger | None
    token: str | None
    strict: bool
    retries: Retries | None
    now: Callable[[], float]
    transport: "httpx2.AsyncBaseTransport | None"


class BlockingClient:
    """`Client` without `await`; it opens with the first use, and closes with `close` or at the end of `with`."""

    def __init__(self, task_id: str, servers: Servers, **options: Unpack[ClientOptions]) -> None:
        """Connect to nothing yet; the arguments are those of `Client`."""
        self._client = Client(task_id, servers, **options)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: Callable[[], object] | None = None
        self._open = False

    def __repr__(self) -> str:
        return f"Blocking{self._client!r}"

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Fetch and check the task, unless that is done; see `Client.open`."""
        with self._lock:
            if self._open:
                return
            try:
                self._run(self._client.open())
                self._open = True
            finally:
                if not self._open:
                    self._end()

    def close(self) -> None:
        """Close all connections and end the thread; the next use opens the client again."""
        with self._lock:
            if self._open:
                self._run(self._client.close())
            self._end()

    @property
    def task(self) -> Task:
        """Return the checked task."""
        self.open()
        return self._client.task

    def send(self, row: Row, random_bytes: RandomBytes = system_randomness, *, source: str = SELF) -> SendReceipt:
        """Send one row; see `Client.send`."""
        self.open()
        return self._run(self._client.send(row, random_bytes, source=source))

    def prepare(self, row: Row, random_bytes: RandomBytes = system_randomness, *, source: str = SELF) -> Parcel:
        """Turn one row into a report without sending it; see `Client.prepare`."""
        self.open()
        return self._client.prepare(row, random_bytes, source=source)

    def deliver(self, parcel: Parcel) -> SendReceipt:
        """Deliver a prepared report; see `Client.deliver`."""
        self.open()
        return self._run(self._client.deliver(parcel))

    def send_many(
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
        """Send many rows; see `Client.send_many`, also for their shapes.

        The callables and the iterable run in the client's thread.
        """
        self.open()
        return self._run(
            self._client.send_many(
                rows,
                source_for=source_for,
                source_column=source_column,
                token_for=token_for,
                random_bytes_for=random_bytes_for,
                progress=progress,
                mapping=mapping,
            )
        )

    def counted(self, report_id: str, *, batch: int = BATCH, certificate: str | None = None) -> "Counted":
        """Have the servers prove whether a report was counted; see `Client.counted`."""
        self.open()
        return self._run(self._client.counted(report_id, batch=batch, certificate=certificate))

    def contribution(
        self,
        rows: "Rows",
        *,
        person: str | Sequence[object] | None = None,
        keep: int | None = None,
        leave_out: bool = False,
        mapping: FileMapping = AS_IT_IS,
    ) -> "Contribution":
        """Encode all rows of an organisation; see `Client.contribution`."""
        self.open()
        return self._client.contribution(rows, person=person, keep=keep, leave_out=leave_out, mapping=mapping)

    def send_contribution(self, made: "Contribution", random_bytes: RandomBytes = system_randomness) -> SendReceipt:
        """Send what `contribution` has prepared; see `Client.send_contribution`."""
        self.open()
        return self._run(self._client.send_contribution(made, random_bytes))

    def contribute(
        self,
        rows: "Rows",
        *,
        person: str | Sequence[object] | None = None,
        keep: int | None = None,
        leave_out: bool = False,
        mapping: FileMapping = AS_IT_IS,
        random_bytes: RandomBytes = system_randomness,
    ) -> SendReceipt:
        """Send all rows of an organisation as one report; see `Client.contribute`."""
        self.open()
        return self._run(
            self._client.contribute(
                rows, person=person, keep=keep, leave_out=leave_out, mapping=mapping, random_bytes=random_bytes
            )
        )

    def _end(self) -> None:
        if self._stop is not None:
            self._stop()
        self._loop, self._stop, self._open = None, None, False

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            thread = threading.Thread(target=self._loop.run_forever, name="lintra-client", daemon=True)
            thread.start()
            # Also when the caller forgets `close`: neither thread nor loop outlives the client.
            self._stop = weakref.finalize(self, _end_thread, self._loop, thread)
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # A keyboard interrupt ends the wait only; the work must not go on unseen.
            future.cancel()
            raise


def _end_thread(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    loop.call_soon_threadsafe(loop.stop)
    if thread is not threading.current_thread():
        thread.join()
        loop.close()
