"""The only way out: the inventory, the frozen cohort and the release of one batch, each given once.

A step that was done before answers with the same bytes. Its result, drawn values included, is durable before the
journal says that it happens (see `steps`). So a crash, or a restored copy of the database, leads to the same bytes or
to none. Rule numbers are those of docs/reference/protocol-rules.md#rules.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from lintra_protocol.cohort.report_ids import ReportIds, encode_positions
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import ring_bytes
from lintra_protocol.crypto.sealing import seal
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.encoding.canonical import base64url, domain_hash, parse_base64url
from lintra_protocol.errors import BatchClosedError, CohortConflictError, InvalidMessageError, InventoryMismatchError
from lintra_protocol.messages.documents import (
    AggregateRequest,
    BatchState,
    Cohort,
    CohortRequest,
    Inventory,
    Signed,
    SketchShareRecord,
    inventories_hash,
    inventory_of,
    sign,
)
from lintra_protocol.messages.verification import MATRIX_NONCE, Verdict
from lintra_protocol.report.wire import encode_sealed_document
from lintra_protocol.rules.release import (
    ReleaseMatrix,
    aggregate_context,
    check_cohort,
    draw_matrix,
    fewest_reports,
    missing_elsewhere,
    verify_cohorts,
    verify_inventories,
)
from lintra_protocol.rules.verification import VerifiedAggregateRequest, check_accepted, verify_verdicts
from lintra_server.batches.batch_step import BatchSteps
from lintra_server.batches.closing import Closing
from lintra_server.batches.executor import Executor, InProcessExecutor, Tell
from lintra_server.batches.id_lists import BatchLists
from lintra_server.batches.merged_batches import share_of
from lintra_server.batches.reasons import lost, not_open, not_yet, require_own, same_request, same_windows
from lintra_server.batches.registry import RegisteredBatch
from lintra_server.batches.stream_rows import StreamRows
from lintra_server.durability.disk_reserve import is_full
from lintra_server.durability.journal import BatchId
from lintra_server.storage.batch_states import BatchStates
from lintra_server.storage.store import Batch, Store
from lintra_server.storage.transition_log import Stepper, Values

NONCE_BYTES = 32


@dataclass(frozen=True)
class _Agreed:
    """What all servers add up: the root of its identifiers, their number, and the nonces that make the late seed.

    `before` is the state of a batch that this is released of.
    """

    before: BatchState
    root: bytes
    count: int
    nonces: Sequence[bytes] = field(repr=False)


MERGING_SECONDS = 2.0
"""How long small segments are rewritten into larger ones when a batch is closed: whatever follows reads them faster."""


class Gate(BatchSteps):
    """Guards what leaves; thread-safe. `closing` is the batches that are being closed."""

    def __init__(
        self,
        store: Store,
        states: BatchStates,
        stepper: Stepper,
        identity: SigningKey,
        random_bytes: RandomBytes,
        now: Callable[[], float],
        lists: BatchLists,
        executor: Executor | None = None,
    ) -> None:
        """Guard one store.

        `store` says where reports and documents are kept; `stepper` makes every change of state durable before it is
        told. `now` is the clock, in seconds since the epoch; `lists` are the sorted identifiers of batches that are
        closed. `executor` adds up the shares of a release; this process, if not given.
        """
        super().__init__(store, stepper)
        self._executor = executor or InProcessExecutor()
        self.closing = Closing(store, states, stepper)
        self._lists = lists
        self._identity = identity
        self._random_bytes = random_bytes
        self._streams = StreamRows(store.history, stepper, store.stream_memory, random_bytes)
        self._now = now

    # --- (R6) inventory ----------------------------------------------------------------------------------------

    def close(self, held: RegisteredBatch, first: int | None = None) -> bytes:
        """Close the batch, once, and return the signed inventory; from window `first` on, if some are merged into it.

        Raises:
            BatchOpenError: it is a window that is not over yet, its grace included, by this server's clock.
            CohortTooSmallError: too few reports; the batch stays open.
            InvalidMessageError, BatchClosedError: the task does not merge these windows, or one of them is not open.
            CohortConflictError: the batch was closed with other windows.
            AbandonedError: the batch was given up, or merged.
            UnknownResourceError: it was released, and the database was restored since, with the release alone.
        """
        # An inventory leaves this server only if
        #   (1) none left before;
        #   (2) no report can be stored any more that it does not list: uploads were stopped before it was computed;
        #   (3) its nonce and its list were written down first, so that no other inventory can ever follow;
        #   (4) a window is over: whoever closes it early chooses who is in it;
        #   (5) windows that are merged were all open until this very step, which takes them all: each report of this
        #       server is in one inventory at most, so in one release at most, whatever the other servers do.
        wanted = held.task.group(held.batch, first)
        found = [self._store.history.place(BatchId(held.task.id_bytes, number)) for number in wanted]
        members = [place for place in found if place is not None]
        if len(members) < len(wanted):
            raise BatchClosedError("a window that is to be merged was never opened here")  # (5)
        with ExitStack() as busy, self._stepper.guarded():
            for number in members:
                busy.enter_context(self.busy[number])
            self._stepper.settle()
            batch = self._batch(held)
            if batch.inventory is not None:
                return same_windows(batch, first)  # (1)
            held.require_over(self._now())  # (4)
            with self.closing.stopped(members, fewest_reports(held.task)) as stopped:  # (2), (5)
                if not stopped:
                    raise not_open(batch)
                self._stepper.with_room(lambda: self._rewrite(members))
                self._store.notes.sync()  # from here on nothing may follow what is noted
                inventory, values = self._new_inventory(held, first, members)
                self._perform(held, "closed", "closing", values, first)  # (3)
            return inventory

    def inventory(self, held: RegisteredBatch) -> bytes:
        """Return the signed inventory of a closed batch."""
        batch = self._batch(held)
        return batch.inventory or not_yet(batch, "inventory")

    def inventory_ids(self, held: RegisteredBatch) -> ReportIds:
        """Return the sorted identifiers that the inventory describes (see `inventory` for errors)."""
        inventory = Signed[Inventory].from_canonical(self.inventory(held)).message
        return self._lists.inventory(held.number, parse_base64url(inventory.root), inventory.count)

    # --- (R7) cohort -------------------------------------------------------------------------------------------

    def freeze(self, held: RegisteredBatch, request: CohortRequest) -> bytes:
        """Freeze the cohort of all inventories, once and for ever, and return it signed with the nonce.

        Raises:
            BatchOpenError: this server's batch was not closed yet.
            AbandonedError: the batch was given up.
            InventoryMismatchError, UnauthorizedError, InvalidMessageError: the inventories or lists are not right.
                CohortTooSmallError, TooManyMissingError, RowUnderfilledError, FalseClaimError: nothing was frozen.
            CohortConflictError: another cohort was frozen here before.
            UnknownResourceError: it was released, and the database was restored since, with the release alone.
        """
        # A cohort is frozen, and the nonce revealed, only if
        #   (1) every server signed its inventory, and this server's is the one it gave out;
        #   (2) every list is the one its server signed;
        #   (3) it is their intersection, computed here;
        #   (4) it may be released, as far as numbers tell: otherwise the batch would be lost for nothing;
        #   (5) no other one was frozen before: two cohorts that differ by a few reports show those reports.
        with self.busy[held.number]:
            self._stepper.settle()
            batch = self._batch(held)
            inventories = verify_inventories(held.task, held.batch, request.inventories)  # (1)
            if request.inventories[held.server].canonical() != self.inventory(held):
                raise InventoryMismatchError("this server gave out another inventory")  # (1)
            if batch.cohort is not None:
                # The inventories determine the cohort; so a repeated request is answered without its lists.
                return self._same_cohort(batch.cohort, request.inventories)  # (5)
            if batch.state != "closed":
                raise lost(batch, "cohort")
            own = self.inventory_ids(held)
            # What came in pieces is read from there, one server's list after the other.
            read = partial(self._lists.pieces.read, held.number, len(own))
            missing = missing_elsewhere(held.task, held.server, request, inventories, own, read)  # (2)
            cohort_ids = own.without(missing)  # (3)
            check_cohort(held.task, len(cohort_ids), _once_held(inventories[held.server]))  # (4)
            cohort = self._cohort(held, request.inventories, cohort_ids)
            values: Values = {
                "state": "frozen",
                "cohort": cohort,
                "inventories": CohortRequest(inventories=request.inventories, differences=()).canonical(),
                "missing": encode_positions(missing),
            }
            self._lists.keep_tree(cohort_ids.tree)
            self._perform(held, "frozen", "closed", values, batch.first)  # (5)
            self._lists.pieces.forget(held.number)
            return cohort

    def cohort(self, held: RegisteredBatch) -> bytes:
        """Return the signed frozen cohort."""
        batch = self._batch(held)
        return batch.cohort or not_yet(batch, "cohort")

    # --- (R8-R11) release --------------------------------------------------------------------------------------

    def release(
        self, held: RegisteredBatch, request: AggregateRequest | VerifiedAggregateRequest, tell: Tell = lambda _: None
    ) -> bytes:
        """Return this server's sealed sketch share of the frozen cohort, the only one there will ever be.

        `request` has the cohorts that all servers froze; of a verified task with their verdicts. `tell` is told now and
        then how much of the sum is done.

        Raises:
            BatchOpenError, UnknownResourceError: no cohort was frozen here yet.
            AbandonedError: the batch was given up.
            AlreadyReleasedError: it was released for another request.
            InvalidMessageError, UnauthorizedError: the cohorts are not one of each server.
            CohortConflictError, NonceMismatchError, ChecksMismatchError: the servers do not agree. CohortTooSmallError,
                TooManyMissingError, RowUnderfilledError, FalseClaimError: the gate stays shut.
        """
        # A sketch share leaves this server only if
        #   (1) nothing left before: the noise is in the reports, every further sketch of them reuses it;
        #   (2) every server froze the same cohort, so that all add the same reports, and it is the one frozen here; of
        #       a verified task, every server came to the verdict that was come to here, and adds what it accepted;
        #   (3) it is large enough for the promise, and few reports of this server are missing from it;
        #   (4) the seed follows from that cohort and from every server's nonce, each fixed before the cohort was known;
        #   (5) the exact privacy under the matrix that was actually drawn keeps the promise;
        #   (6) it carries this server's noise, drawn here and never again, where the mechanism or the task needs it;
        #   (7) it is sealed to the task's analyzer, in a context nobody can mistake for another;
        #   (8) the reports were consumed, for good, where these very bytes were stored: in the journal, then here;
        #   (9) what it was computed from opens no more, unless the task retains it.
        request_hash = domain_hash("aggregate request", request.canonical())
        with self.busy[held.number]:
            self._stepper.settle()
            batch = self._batch(held)
            if batch.aggregate is not None:
                return self._alone(held, same_request(batch, request_hash))  # (1), (9)
            agreed = self._agreed(held, request, batch)  # (2), (3)
            drawn = draw_matrix(
                held.task, held.batch, agreed.root, agreed.nonces, agreed.count, batch.first
            )  # (4), (5)
            with self._streams.turn(held):
                aggregate = self._sealed(held, drawn, agreed.root, batch.first, tell)  # (6), (7)
                values: Values = {
                    "state": "released",
                    "request_hash": request_hash,
                    "aggregate": aggregate,
                    "released_at": int(self._now()),
                }
                self._perform(held, "released", agreed.before, values, batch.first)  # (8)
                self._streams.forget_used(held)
            return self._alone(held, aggregate)  # (9)

    def aggregate(self, held: RegisteredBatch) -> bytes:
        """Return the sealed sketch share that was released (see `cohort` for errors)."""
        batch = self._batch(held)
        return self._alone(held, batch.aggregate or not_yet(batch, "aggregate"))

    # --- what the steps are made of ----------------------------------------------------------------------------

    def _rewrite(self, members: Sequence[int]) -> None:
        try:
            for number in members:
                self._store.merge_segments(number, MERGING_SECONDS / len(members))
        except Exception as error:
            if not is_full(error):  # it can wait, and the room that is kept is for the release
                raise

    def _new_inventory(self, held: RegisteredBatch, first: int | None, members: Sequence[int]) -> tuple[bytes, Values]:
        nonce = self._random_bytes(NONCE_BYTES)
        matrix_nonce = None if held.task.verified is None else self._random_bytes(NONCE_BYTES)
        closed_at = int(self._now()) // held.task.time_precision
        report_ids = self._lists.write(held.number, members)
        lost = sum(self._store.history.batches[place].lost for place in members)
        inventory = inventory_of(
            held.task, held.batch, held.server, report_ids, nonce, closed_at, self._stepper.start, first, matrix_nonce,
            lost, witnessed=self._stepper.witnessed,
        )  # fmt: skip
        signed = sign(self._identity, inventory).canonical()
        return signed, {
            "state": "closed",
            "inventory": signed,
            "wrapped_nonce": self._store.wrapped_nonce(held.number, nonce),
            "closed_at": closed_at,
            **({} if first is None else {"first": first}),
            **({} if matrix_nonce is None else self._wrapped(held, matrix_nonce)),
        }

    def _wrapped(self, held: RegisteredBatch, nonce: bytes) -> Values:
        return {"wrapped_matrix_nonce": self._store.wrapped_nonce(held.number, nonce, MATRIX_NONCE)}

    @staticmethod
    def _same_cohort(frozen: bytes, inventories: tuple[Signed[Inventory], ...]) -> bytes:
        if Signed[Cohort].from_canonical(frozen).message.inventories != inventories_hash(inventories):
            raise CohortConflictError("another cohort was frozen here before")
        return frozen

    def _cohort(
        self, held: RegisteredBatch, inventories: tuple[Signed[Inventory], ...], cohort_ids: ReportIds
    ) -> bytes:
        cohort = Cohort(
            task_id=held.task.task_id,
            batch=held.batch,
            server=held.server,
            count=len(cohort_ids),
            root=base64url(cohort_ids.root),
            inventories=inventories_hash(inventories),
            nonce=base64url(self._store.nonce(held.number)),
            start=self._stepper.start,
        )
        return sign(self._identity, cohort).canonical()

    def _agreed(
        self, held: RegisteredBatch, request: AggregateRequest | VerifiedAggregateRequest, batch: Batch
    ) -> "_Agreed":
        if (held.task.verified is None) != isinstance(request, AggregateRequest):
            raise InvalidMessageError("cohorts are shown for a task without verification, verdicts for a verified one")
        if isinstance(request, VerifiedAggregateRequest):
            return self._accepted(held, request, batch.verdict or not_yet(batch, "verdict"))
        frozen = batch.cohort or not_yet(batch, "cohort")
        require_own(held, request.cohorts, frozen)
        inventories = self._inventories(held)
        cohort = verify_cohorts(held.task, held.batch, request.cohorts, inventories)  # (2)
        check_cohort(held.task, cohort.count, _once_held(inventories[held.server].message))  # (3)
        nonces = [parse_base64url(signed.message.nonce) for signed in request.cohorts]
        return _Agreed("frozen", parse_base64url(cohort.root), cohort.count, nonces)

    def _accepted(self, held: RegisteredBatch, request: VerifiedAggregateRequest, own: bytes) -> "_Agreed":
        verdict = Signed[Verdict].from_canonical(own).message
        nonces = verify_verdicts(held.task, held.batch, request.verdicts, self._inventories(held), verdict)  # (2)
        check_accepted(held.task, verdict.count + verdict.rejected, verdict.rejected)  # (3)
        return _Agreed("judged", parse_base64url(verdict.root), verdict.count, nonces)

    def _alone(self, held: RegisteredBatch, aggregate: bytes) -> bytes:
        """Return a share that may leave: the secret of its reports is gone, also if a full disk came before that."""
        if not held.task.retention:
            for number in self._store.history.members(held.number):
                self._store.forget_key(number)
        return aggregate

    def _sealed(self, held: RegisteredBatch, drawn: ReleaseMatrix, root: bytes, first: int | None, tell: Tell) -> bytes:
        task, matrix = held.task, drawn.matrix
        members = self._store.history.members(held.number)
        share = share_of(self._store, self._executor, task, held.server, drawn, members, tell)
        noise = self._streams.add_noise(held, share)
        context = aggregate_context(task, held.batch, held.server, root, drawn.seed, first)
        sealed = seal(ring_bytes(share), task.suite, parse_base64url(task.analyzer.sealing_key), context)
        record = SketchShareRecord(
            task_id=task.task_id,
            batch=held.batch,
            server=held.server,
            cohort_root=base64url(root),
            num_clients=matrix.num_clients,
            seed=base64url(drawn.seed),
            rows=matrix.rows,
            words=task.sketch_words,
            remembered=noise.remembered,
            sealed=base64url(domain_hash("sealed sketch share", sealed)),
        )
        released = encode_sealed_document(sign(self._identity, record).canonical(), sealed)
        self._streams.remember(held, noise, released)
        return released


def _once_held(own: Inventory) -> int:
    """Return how many reports count as this server's: also those that it lost, which so count as missing.

    Otherwise somebody who deletes most of its reports would leave out all clients but one.
    """
    return own.count + own.lost
