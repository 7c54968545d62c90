"""The only way out: the inventory, the frozen cohort and the release of one batch, each given once.

Each step first looks whether it was done before, and then answers with the same bytes. What it computes is written down
whole, drawn values too, before the journal says that it happens (see `steps`); so a crash, or a copy of the database
that is restored later, leads to the same bytes or to none. Rule numbers are those of docs/protocol.md#rules.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from threading import Lock

from lintra_protocol.canonical import base64url, domain_hash, parse_base64url
from lintra_protocol.errors import (
    AbandonedError,
    BatchClosedError,
    CohortConflictError,
    InvalidMessageError,
    InventoryMismatchError,
    UnavailableError,
)
from lintra_protocol.messages import (
    AggregateRequest,
    Cohort,
    CohortRequest,
    Inventory,
    Signed,
    SketchShareRecord,
    inventories_hash,
    inventory_of,
    sign,
)
from lintra_protocol.proofs import Absence, Inclusion
from lintra_protocol.randomness import RandomBytes
from lintra_protocol.report_ids import ReportIds, encode_positions
from lintra_protocol.ring import ring_bytes
from lintra_protocol.rules import (
    Drawn,
    aggregate_context,
    check_cohort,
    draw_matrix,
    missing_elsewhere,
    verify_cohorts,
    verify_inventories,
)
from lintra_protocol.sealing import seal
from lintra_protocol.signing import SigningKey
from lintra_protocol.wire import encode_sealed_document
from lintra_server.batches.batch_lists import BatchLists, FrozenList, shows
from lintra_server.batches.closing import Closing
from lintra_server.batches.executor import Executor, InProcess, Tell
from lintra_server.batches.group import share_of
from lintra_server.batches.refusals import not_open, not_yet, same_request, same_windows
from lintra_server.batches.registry import HeldBatch
from lintra_server.disk.journal import JournalState
from lintra_server.disk.reserve import is_full
from lintra_server.storage.states import BatchStates
from lintra_server.storage.steps import Step, Stepper, Values
from lintra_server.storage.store import Batch, Store

NONCE_BYTES = 32

MERGING_SECONDS = 2.0
"""How long small segments are rewritten into larger ones when a batch is closed: whatever follows reads them faster."""


class Gate:
    """Guards what leaves; thread-safe.

    Attributes:
        closing: the batches that are being closed.
    """

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

        Args:
            store: where reports and documents are kept.
            states: closes batches to uploads.
            stepper: makes every change of state durable before it is told.
            identity: signs what leaves.
            random_bytes: a cryptographic source, for nonces and smoothing noise.
            now: the clock, in seconds since the epoch.
            lists: the sorted identifiers of batches that are closed.
            executor: adds up the shares of a release; this process, if not given.
        """
        self._store = store
        self._executor = executor or InProcess()
        self.closing = Closing(states, stepper)
        self._lists = lists
        self._stepper = stepper
        self._identity = identity
        self._random_bytes = random_bytes
        self._now = now
        # Not for safety, which is the store's: so that a repeated request waits for the first one's work.
        self._busy: defaultdict[int, Lock] = defaultdict(Lock)

    # --- (R6) inventory ----------------------------------------------------------------------------------------

    def close(self, held: HeldBatch, first: int | None = None) -> bytes:
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
        members = self._store.batch_numbers(held.key, held.task.group(held.batch, first)[0], held.batch)
        if first is not None and len(members) <= held.batch - first:
            raise BatchClosedError("a window that is to be merged was never opened here")  # (5)
        with ExitStack() as busy, self._stepper.guarded():
            for number in members:
                busy.enter_context(self._busy[number])
            self._stepper.settle()
            batch = self._batch(held)
            if batch.inventory is not None:
                return same_windows(batch, first)  # (1)
            held.require_over(self._now())  # (4)
            with self.closing.stopped(members, held.task.claim.min_clients) as stopped:  # (2), (5)
                if not stopped:
                    raise not_open(batch)
                self._stepper.with_room(lambda: self._rewrite(members))
                inventory, values = self._new_inventory(held, first, members)
                self._perform(held, "closed", "closing", values, first)  # (3)
                for number in members:
                    self._store.note_closed(number)
            return inventory

    def inventory(self, held: HeldBatch) -> bytes:
        """Return the signed inventory of a closed batch.

        Raises:
            BatchOpenError: it was not closed yet.
            AbandonedError: the batch was given up.
        """
        batch = self._batch(held)
        return batch.inventory or not_yet(batch, "inventory")

    def inventory_ids(self, held: HeldBatch) -> ReportIds:
        """Return the sorted identifiers that the inventory describes (see `inventory` for errors)."""
        inventory = Signed[Inventory].from_canonical(self.inventory(held)).message
        return self._lists.inventory(held.number, parse_base64url(inventory.root))

    # --- (R7) cohort -------------------------------------------------------------------------------------------

    def freeze(self, held: HeldBatch, request: CohortRequest) -> bytes:
        """Freeze the cohort of all inventories, once and for ever, and return it signed with the nonce.

        Raises:
            BatchOpenError: this server's batch was not closed yet.
            AbandonedError: the batch was given up.
            InventoryMismatchError, UnauthorizedError, InvalidMessageError: the inventories or lists are not right.
            CohortTooSmallError, TooManyMissingError, RowUnderfilledError, FalseClaimError: nothing was frozen.
            CohortConflictError: another cohort was frozen here before.
        """
        # A cohort is frozen, and the nonce revealed, only if
        #   (1) every server signed its inventory, and this server's is the one it gave out;
        #   (2) every list is the one its server signed;
        #   (3) it is their intersection, computed here;
        #   (4) it may be released, as far as numbers tell: otherwise the batch would be lost for nothing;
        #   (5) no other one was frozen before: two cohorts that differ by a few reports show those reports.
        with self._busy[held.number]:
            self._stepper.settle()
            batch = self._batch(held)
            inventories = verify_inventories(held.task, held.batch, request.inventories)  # (1)
            if request.inventories[held.server].canonical() != self.inventory(held):
                raise InventoryMismatchError("this server gave out another inventory")  # (1)
            if batch.cohort is not None:
                # The inventories determine the cohort; so a repeated request is answered without its lists.
                return self._same_cohort(batch.cohort, request.inventories)  # (5)
            own = self.inventory_ids(held)
            # What came in pieces is read from there, one server's list after the other.
            read = partial(self._lists.pieces.read, held.number, len(own))
            missing = missing_elsewhere(held.task, held.server, request, inventories, own, read)  # (2)
            cohort_ids = own.without(missing)  # (3)
            check_cohort(held.task, len(cohort_ids), len(own))  # (4)
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

    def cohort(self, held: HeldBatch) -> bytes:
        """Return the signed frozen cohort.

        Raises:
            BatchOpenError, UnknownResourceError: there is none yet.
            AbandonedError: the batch was given up.
        """
        batch = self._batch(held)
        return batch.cohort or not_yet(batch, "cohort")

    def inclusion(self, held: HeldBatch, report_id: bytes) -> Inclusion | Absence:
        """Prove that a report is in the frozen cohort, or that it is not.

        Raises:
            BatchOpenError, UnknownResourceError: there is no cohort yet.
            AbandonedError: the batch was given up.
        """
        cohort = Signed[Cohort].from_canonical(self.cohort(held)).message
        inventory = Signed[Inventory].from_canonical(self.inventory(held)).message
        roots = parse_base64url(inventory.root), parse_base64url(cohort.root)
        proofs = self._lists.prove(FrozenList(held.number, *roots, cohort.count), report_id)
        if shows(proofs, report_id):
            return Inclusion.of(cohort, proofs[0])
        return Absence.of(cohort, proofs)

    # --- (R8-R11) release --------------------------------------------------------------------------------------

    def release(self, held: HeldBatch, request: AggregateRequest, tell: Tell = lambda _: None) -> bytes:
        """Return this server's sealed sketch share of the frozen cohort, the only one there will ever be.

        Args:
            held: the batch.
            request: with the cohorts that all servers froze.
            tell: is told now and then how much of the sum is done.

        Raises:
            BatchOpenError, UnknownResourceError: no cohort was frozen here yet.
            AbandonedError: the batch was given up.
            AlreadyReleasedError: it was released for another request.
            InvalidMessageError, UnauthorizedError: the cohorts are not one of each server.
            CohortConflictError, NonceMismatchError: the servers do not agree.
            CohortTooSmallError, TooManyMissingError, RowUnderfilledError, FalseClaimError: the gate stays shut.
        """
        # A sketch share leaves this server only if
        #   (1) nothing left before: the noise is in the reports, every further sketch of them reuses it;
        #   (2) every server froze the same cohort, so that all add the same reports, and it is the one frozen here;
        #   (3) it is large enough for the promise, and few reports of this server are missing from it;
        #   (4) the seed follows from that cohort and from every server's nonce, each fixed before the cohort was known;
        #   (5) the exact privacy under the matrix that was actually drawn keeps the promise;
        #   (6) it carries this server's smoothing noise, drawn here and never again, where the mechanism needs it;
        #   (7) it is sealed to the task's analyzer, in a context nobody can mistake for another;
        #   (8) the reports were consumed, for good, where these very bytes were stored: in the journal, then here;
        #   (9) what it was computed from opens no more, unless the task retains it.
        request_hash = domain_hash("aggregate request", request.canonical())
        with self._busy[held.number]:
            self._stepper.settle()
            batch = self._batch(held)
            if batch.aggregate is not None:
                return self._alone(held, same_request(batch, request_hash))  # (1), (9)
            frozen = batch.cohort or not_yet(batch, "cohort")
            inventories = self._frozen_inventories(held, request, frozen)
            cohort = verify_cohorts(held.task, held.batch, request.cohorts, inventories)  # (2)
            check_cohort(held.task, cohort.count, inventories[held.server].message.count)  # (3)
            root = parse_base64url(cohort.root)
            nonces = [parse_base64url(signed.message.nonce) for signed in request.cohorts]
            drawn = draw_matrix(held.task, held.batch, root, nonces, cohort.count, batch.first)  # (4), (5)
            aggregate = self._sealed(held, drawn, root, batch.first, tell)  # (6), (7)
            values: Values = {
                "state": "released",
                "request_hash": request_hash,
                "aggregate": aggregate,
                "released_at": int(self._now()),
            }
            self._perform(held, "released", "frozen", values, batch.first)  # (8)
            return self._alone(held, aggregate)  # (9)

    def aggregate(self, held: HeldBatch) -> bytes:
        """Return the sealed sketch share that was released (see `cohort` for errors)."""
        batch = self._batch(held)
        return self._alone(held, batch.aggregate or not_yet(batch, "aggregate"))

    # --- what the steps are made of ----------------------------------------------------------------------------

    def batch(self, held: HeldBatch) -> Batch:
        """Return a batch as it is stored, or `UnavailableError` if the database was set back: the process ends."""
        with self._stepper.guarded():
            return self._store.batch(held.number)

    def _batch(self, held: HeldBatch) -> Batch:
        batch = self.batch(held)
        if batch.state == "abandoned":
            raise AbandonedError("its task ended long ago and nobody released it, or the server's disk was restored")
        if batch.state == "merged":
            raise AbandonedError(f"window {held.batch} was merged into a later one, and is never released alone")
        return batch

    def _rewrite(self, members: Sequence[int]) -> None:
        try:
            for number in members:
                self._store.merge_segments(number, MERGING_SECONDS / len(members))
        except Exception as error:
            if not is_full(error):  # it can wait, and the room that is kept is for the release
                raise

    def _perform(self, held: HeldBatch, state: JournalState, before: str, values: Values, first: int | None) -> None:
        step = Step(self._stepper.start, state, held.task.id_bytes, before, values, held.batch, first)
        if not self._stepper.perform(step):
            # Only destruction can have come between: whatever else changes this batch waits for `_busy`.
            raise UnavailableError(f"the batch is {self._batch(held).state}")

    def _new_inventory(self, held: HeldBatch, first: int | None, members: Sequence[int]) -> tuple[bytes, Values]:
        nonce = self._random_bytes(NONCE_BYTES)
        closed_at = int(self._now()) // held.task.time_precision
        report_ids = self._lists.write(held.number, members)
        inventory = inventory_of(
            held.task, held.batch, held.server, report_ids, nonce, closed_at, self._stepper.start, first
        )
        signed = sign(self._identity, inventory).canonical()
        return signed, {
            "state": "closed",
            "inventory": signed,
            "wrapped_nonce": self._store.wrapped_nonce(held.number, nonce),
            "closed_at": closed_at,
            **({} if first is None else {"first": first}),
        }

    @staticmethod
    def _same_cohort(frozen: bytes, inventories: tuple[Signed[Inventory], ...]) -> bytes:
        if Signed[Cohort].from_canonical(frozen).message.inventories != inventories_hash(inventories):
            raise CohortConflictError("another cohort was frozen here before")
        return frozen

    def _cohort(self, held: HeldBatch, inventories: tuple[Signed[Inventory], ...], cohort_ids: ReportIds) -> bytes:
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

    def _frozen_inventories(
        self, held: HeldBatch, request: AggregateRequest, frozen: bytes
    ) -> tuple[Signed[Inventory], ...]:
        if len(request.cohorts) != held.task.num_servers:
            raise InvalidMessageError(f"expected {held.task.num_servers} cohorts, got {len(request.cohorts)}")
        if request.cohorts[held.server].canonical() != frozen:
            raise CohortConflictError("this server froze another cohort")
        return CohortRequest.from_canonical(self._store.inventories(held.number)).inventories

    def _alone(self, held: HeldBatch, aggregate: bytes) -> bytes:
        """Return a share that may leave: the secret of its reports is gone, also if a full disk came before that."""
        if not held.task.retention:
            for number in self._store.members(held.number):
                self._store.forget_key(number)
        return aggregate

    def _sealed(self, held: HeldBatch, drawn: Drawn, root: bytes, first: int | None, tell: Tell) -> bytes:
        task, matrix = held.task, drawn.matrix
        members = self._store.members(held.number)
        share = share_of(self._store, self._executor, task, held.server, drawn, members, tell)
        task.mechanism.smooth(share, self._random_bytes)
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
            sealed=base64url(domain_hash("sealed sketch share", sealed)),
        )
        return encode_sealed_document(sign(self._identity, record).canonical(), sealed)
