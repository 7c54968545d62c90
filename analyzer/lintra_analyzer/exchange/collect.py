"""The exchange with the N servers, one step after the other; every answer is checked, then stored, then built upon.

A step asks only those servers whose answer is not stored yet. So a job that was interrupted anywhere goes on where it
stood, and a server that answered badly can be asked again.

What a server does not hold goes to it as differences to what it holds itself, when it is asked to freeze. Short ones
stand in the request. Long ones are sent before it, in pieces, so that no message grows with the lists.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from lintra_analyzer.exchange.census import require_honest_inventory, watch_start
from lintra_analyzer.exchange.merged_windows import Merging, batch_status
from lintra_analyzer.exchange.reconstruct import (
    FrozenCohort,
    common_reports,
    compare_lists,
    open_sketch_share,
    verify_frozen,
    verify_judged,
)
from lintra_analyzer.exchange.servers import MAX_DOCUMENT_BYTES, Server
from lintra_analyzer.exchange.verification import Checking
from lintra_analyzer.storage.rows import DocumentKind
from lintra_analyzer.storage.store import Store
from lintra_protocol.cohort.differences import POSITION_BYTES, ListDifference, piece_hash, pieces_of
from lintra_protocol.cohort.report_ids import ComparedLists, ReportIds
from lintra_protocol.crypto.sealing import SealingKey
from lintra_protocol.encoding.canonical import HASH_BYTES, base64url, parse_base64url
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import (
    AbandonedError,
    CohortConflictError,
    CohortTooSmallError,
    InventoryMismatchError,
    NonceMismatchError,
    TooManyRejectedError,
    UnknownResourceError,
)
from lintra_protocol.fields.missing_reports import most_reports
from lintra_protocol.http.requests import MessageName
from lintra_protocol.messages.documents import (
    AggregateRequest,
    Cohort,
    CohortRequest,
    Difference,
    DifferenceInPieces,
    Inventory,
    Signed,
    inventories_hash,
    nonce_commitment,
)
from lintra_protocol.messages.verification import Verdict
from lintra_protocol.rules.release import fewest_reports, verify_inventories
from lintra_protocol.rules.verification import FrozenBatch, Judgement, VerifiedAggregateRequest, require_frozen
from lintra_protocol.task import Task


class ServerExchange:
    """The exchange of one batch of a task with its servers."""

    def __init__(self, task: Task, number: int, servers: Sequence[Server], store: Store) -> None:
        """Talk to `servers`, in the task's order, about the batch of this number."""
        self._task = task
        self._number = number
        self._servers = servers
        self._store = store
        # Checked once and carried on: what was read from the disk again would have to be checked again.
        self._held: dict[int, ReportIds] = {}
        self._compared: ComparedLists | None = None
        self._cohort_ids: ReportIds | None = None
        self._frozen: FrozenCohort | None = None
        self._merges = task.max_merge > 1
        self._batch = f"/v1/tasks/{task.task_id}/batches/{number}"

    # --- the steps -----------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Have every server close the batch and sign what it holds, and fetch the lists (R6)."""
        missing = self._missing("inventory")
        first = await Merging(self._task, self._number, self._servers, self._store).decide() if self._merges else None
        if self._task.windows is None and len(missing) == len(self._servers):
            # A closed batch takes no more reports, so none is closed before all servers hold enough.
            await self._each(missing, self._require_enough)
        await self._each(missing, lambda server: self._close_one(server, first))
        # One after the other: each is large.
        for server in self._servers:
            if not self._store.lists.has(self._task.task_id, self._number, "ids", server.index):
                await self._fetch_ids(server)

    async def freeze(self) -> None:
        """Have every server freeze the cohort, and reveal its nonce (R7).

        Raises AbandonedError if too few reports are at every server, and closed batches take no more.
        """
        inventories, lists = self.inventories(), await asyncio.to_thread(self._lists)
        try:
            report_ids = await asyncio.to_thread(self._kept_cohort, lists)
        except CohortTooSmallError as error:
            raise AbandonedError(f"the batch is closed: {error.detail}") from None
        root = base64url(report_ids.root)

        async def freeze_one(server: Server) -> None:
            body = await ask_to_freeze(server, f"{self._batch}/cohort", inventories, lists)
            with server.blame():
                cohort = self._check_cohort(server.index, body, inventories, root, len(report_ids))
            await asyncio.to_thread(watch_start, self._task, server.index, cohort.start, self._store)
            await self._keep("cohort", body, server.index)

        await self._each(self._missing("cohort"), freeze_one)

    async def check(self) -> None:
        """Have every server give out its check share of a verified task's cohort (R14)."""
        checking, cohorts = await asyncio.to_thread(self._checking), self.cohorts()
        await self._each(self._servers, lambda server: checking.check(cohorts, server))

    async def judge(self) -> None:
        """Have every server come to its verdict, and find the same here (R15)."""
        checking = await asyncio.to_thread(self._checking)
        try:
            judgement = await asyncio.to_thread(checking.judgement)
        except TooManyRejectedError:
            # The servers find the same, give the batch up, and destroy what they hold of it.
            await self._each(self._servers, checking.ask_to_judge)
            raise
        await asyncio.to_thread(self._keep_accepted, judgement)
        await self._each(self._missing("verdict"), lambda server: checking.judge(judgement, server))

    async def aggregate(self, sealing_key: SealingKey) -> None:
        """Have every server release its share of the sketch (R8 to R11)."""
        cohort = await self.frozen()
        request = AggregateRequest(cohorts=tuple(self.cohorts())).canonical()
        message: MessageName = "aggregate-request"
        if cohort.judgement is not None:
            request = VerifiedAggregateRequest(verdicts=tuple(self.verdicts())).canonical()
            message = "verified-aggregate-request"
        limit = MAX_DOCUMENT_BYTES + 8 * self._task.mechanism.num_rows * self._task.sketch_words

        async def aggregate_one(server: Server) -> None:
            body = await server.ask(
                "PUT", f"{self._batch}/aggregate", "sketch-share", body=request, message=message, limit=limit
            )
            with server.blame():
                await asyncio.to_thread(
                    open_sketch_share, self._task, self._number, server.index, body, cohort, sealing_key
                )
            await self._keep("sketch_share", body, server.index)

        await self._each(self._missing("sketch_share"), aggregate_one)

    # --- what the steps gathered ---------------------------------------------------------------------------------

    def inventories(self) -> list[Signed[Inventory]]:
        """Return the signed inventories, in server order."""
        return [Signed[Inventory].from_canonical(body) for body in self._documents("inventory")]

    def cohorts(self) -> list[Signed[Cohort]]:
        """Return the signed cohorts, in server order."""
        return [Signed[Cohort].from_canonical(body) for body in self._documents("cohort")]

    def verdicts(self) -> list[Signed[Verdict]]:
        """Return the signed verdicts of a verified task, in server order; none of another."""
        if self._task.verified is None:
            return []
        return [Signed[Verdict].from_canonical(body) for body in self._documents("verdict")]

    def sketch_shares(self) -> list[bytes]:
        """Return the servers' answers with the sealed sketch shares, in server order."""
        return self._documents("sketch_share")

    async def frozen(self) -> FrozenCohort:
        """Check and return the frozen cohort."""
        return await asyncio.to_thread(self._verified_cohort)

    def _verified_cohort(self) -> FrozenCohort:
        if self._frozen is None:
            if self._task.verified is None:
                report_ids = self._cohort_ids or self._common(self._lists())
                self._frozen = verify_frozen(self._task, self._number, self.inventories(), report_ids, self.cohorts())
            else:
                checking = self._checking()
                self._frozen = verify_judged(checking.judgement(), self.verdicts())
            self._compared = self._cohort_ids = None
            self._held.clear()
        return self._frozen

    def _keep_accepted(self, judgement: Judgement) -> None:
        """Keep with the release what it is of."""
        lists = self._store.lists
        if not lists.has(self._task.task_id, self._number, "accepted_ids"):
            lists.put(self._task.task_id, self._number, "accepted_ids", lists.files.write(judgement.accepted))

    def _checking(self) -> Checking:
        report_ids = self._cohort_ids or self._common(self._lists())
        frozen = FrozenBatch.of(self._task, self._number, self.inventories(), self.cohorts(), report_ids)
        require_frozen(frozen.cohort, report_ids)
        return Checking(frozen, self._servers, self._store)

    def _kept_cohort(self, lists: ComparedLists) -> ReportIds:
        """Return what the lists have in common, and keep it with the release."""
        if self._cohort_ids is None:
            found, store = self._common(lists), self._store
            if store.lists.has(self._task.task_id, self._number, "cohort_ids"):
                return found
            self._cohort_ids = store.lists.files.write(found)
            store.lists.put(self._task.task_id, self._number, "cohort_ids", self._cohort_ids)
        return self._cohort_ids

    # --- one server ----------------------------------------------------------------------------------------------

    async def _require_enough(self, server: Server) -> None:
        body = await server.ask("GET", f"/v1/tasks/{self._task.task_id}/batches", "batches")
        needed = fewest_reports(self._task)
        with server.blame():
            status = batch_status(body, self._number)
            if status.state == "open" and not status.enough:
                raise CohortTooSmallError(
                    f"fewer than {needed} reports were here when they were counted, which is once in "
                    f"{self._task.time_precision} s; the batch stays open"
                )

    async def _close_one(self, server: Server, first: int | None) -> None:
        merged = "" if first is None else f"?first={first}"
        try:
            body = await server.ask("POST", f"{self._batch}/inventory{merged}", "inventory")
        except CohortTooSmallError as error:
            if self._task.windows is None:
                raise
            # A server counts only after the window's end, so no more reports can come.
            raise AbandonedError(f"window {self._number} is a gap: {error.detail}") from None
        with server.blame():
            signed = Signed[Inventory].from_canonical(body)
            inventory = signed.verified(self._task.servers[server.index].identity_key)
            if (inventory.task_id, inventory.batch, inventory.server, inventory.first) != (
                self._task.task_id,
                self._number,
                server.index,
                first,
            ):
                raise InventoryMismatchError("of another task, batch or server, or of other windows")
            # With more, too many would be missing elsewhere even from the largest cohort (R9).
            if inventory.count > most_reports(self._task.max_clients, fraction(self._task.max_missing)):
                raise InventoryMismatchError(f"{inventory.count} reports are more than this task can release")
        await asyncio.to_thread(watch_start, self._task, server.index, inventory.start, self._store)
        await self._keep("inventory", body, server.index)

    async def _fetch_ids(self, server: Server) -> None:
        inventory = self.inventories()[server.index].message
        wrong = f"the list of server {inventory.server} is not the one it signed"
        path = f"{self._batch}/inventory/ids"
        report_ids = await server.fetch_list(path, self._store.lists.files, inventory.count, inventory.root, wrong)
        with server.blame():
            signed = self.inventories()[server.index]
            await asyncio.to_thread(require_honest_inventory, self._task, server.index, signed, report_ids, self._store)
        put = self._store.lists.put
        await asyncio.to_thread(put, self._task.task_id, self._number, "ids", report_ids, server.index)
        self._held[server.index] = report_ids

    def _check_cohort(
        self, index: int, body: bytes, inventories: Sequence[Signed[Inventory]], root: str, count: int
    ) -> Cohort:
        cohort = Signed[Cohort].from_canonical(body).verified(self._task.servers[index].identity_key)
        expected = (self._task.task_id, self._number, index, root, count, inventories_hash(tuple(inventories)))
        found = (cohort.task_id, cohort.batch, cohort.server, cohort.root, cohort.count, cohort.inventories)
        if found != expected:
            raise CohortConflictError("it froze another cohort than the inventories have in common")
        inventory = inventories[index].message
        nonce = parse_base64url(cohort.nonce)
        commitment = base64url(nonce_commitment(self._task, self._number, nonce, inventory.first))
        if commitment != inventory.nonce_commitment:
            raise NonceMismatchError
        return cohort

    # --- storage -------------------------------------------------------------------------------------------------

    def _missing(self, kind: DocumentKind) -> list[Server]:
        return [
            s for s in self._servers if not self._store.has_document(self._task.task_id, self._number, kind, s.index)
        ]

    def _documents(self, kind: DocumentKind) -> list[bytes]:
        bodies = [
            self._store.document(self._task.task_id, self._number, kind, server.index) for server in self._servers
        ]
        found = [body for body in bodies if body is not None]
        if len(found) < len(bodies):
            raise ValueError(f"the exchange has no {kind} of every server yet")
        return found

    def _lists(self) -> ComparedLists:
        """Return the lists of all servers, each checked against its inventory."""
        if self._compared is None:
            messages = verify_inventories(self._task, self._number, self.inventories())
            self._compared = compare_lists(messages, self._list)
        return self._compared

    def _list(self, server: int) -> ReportIds:
        found = self._held.get(server) or self._store.lists.get(self._task.task_id, self._number, "ids", server)
        if found is None:
            raise ValueError(f"the exchange has no list of server {server} yet")
        return found

    def _common(self, lists: ComparedLists) -> ReportIds:
        return common_reports(self._task, [signed.message for signed in self.inventories()], lists)

    async def _keep(self, kind: DocumentKind, body: bytes, server: int | None = None) -> None:
        where = {} if server is None else {"server": server}
        await asyncio.to_thread(self._store.put_document, self._task.task_id, self._number, kind, body, **where)

    async def _each(self, servers: Sequence[Server], step: Callable[[Server], Awaitable[object]]) -> None:
        """Take a step with several servers at once; all of them finish before the first refusal is raised."""
        outcomes = await asyncio.gather(*(step(server) for server in servers), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome


INLINE_BYTES = 1 << 20
"""What all differences may have together that stand in a request."""

ATTEMPTS = 3
"""How often pieces are sent to a server that began anew before it was asked to use them."""


async def ask_to_freeze(
    server: Server, path: str, inventories: Sequence[Signed[Inventory]], lists: ComparedLists
) -> bytes:
    """Send a server the inventories and how the others' lists differ from its own; return its signed cohort."""
    attempt = 0
    while True:
        attempt += 1
        differences = await _sent(server, path, len(inventories), lists)
        request = CohortRequest(inventories=tuple(inventories), differences=differences).canonical()
        try:
            return await server.ask("PUT", path, "cohort", body=request, message="cohort-request")
        except UnknownResourceError:
            if attempt == ATTEMPTS or all(isinstance(difference, Difference) for difference in differences):
                raise


async def _sent(
    server: Server, path: str, num_servers: int, lists: ComparedLists
) -> tuple[Difference | DifferenceInPieces, ...]:
    """Return what stands in the request, when the pieces of what does not are at the server."""
    left = INLINE_BYTES
    sent: list[Difference | DifferenceInPieces] = []
    for other in (other for other in range(num_servers) if other != server.index):
        difference = ListDifference(other, *await asyncio.to_thread(lists.difference, server.index, other))
        left -= POSITION_BYTES * len(difference.missing) + HASH_BYTES * len(difference.extra)
        if left >= 0:
            sent.append(Difference.spelled(other, difference.missing, difference.extra))
        else:
            sent.append(await _send_pieces(server, path, difference))
    return tuple(sent)


async def _send_pieces(server: Server, path: str, difference: ListDifference) -> DifferenceInPieces:
    missing_bytes, pieces = await asyncio.to_thread(pieces_of, difference)
    names: list[str] = []
    for piece in pieces:
        name = piece_hash(piece)
        await server.ask("PUT", f"{path}/pieces/{name}", "piece", body=piece, message="piece")
        names.append(name)
    return DifferenceInPieces(server=difference.server, missing_bytes=missing_bytes, pieces=tuple(names))
