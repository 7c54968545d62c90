"""The frame of a batch's steps: a step takes the batch's lock, and its result is durable before it is answered."""

from collections import defaultdict
from threading import Lock

from lintra_protocol.errors import AbandonedError, TooManyRejectedError, UnavailableError
from lintra_protocol.messages.documents import CohortRequest, Inventory, Signed
from lintra_server.batches.registry import RegisteredBatch
from lintra_server.durability.journal import JournalState
from lintra_server.storage.store import Batch, Store
from lintra_server.storage.transition_log import Step, Stepper, Values

Busy = defaultdict[int, Lock]


class BatchSteps:
    """The steps of one server's batches; thread-safe."""

    def __init__(self, store: Store, stepper: Stepper, busy: Busy | None = None) -> None:
        """Take turns.

        `store` says where documents are kept; `stepper` makes every change of state durable before it is told. `busy`
        is that of others who take turns with this one, if there are any.
        """
        self._store = store
        self._stepper = stepper
        # Not for safety, which is the store's: so that a repeated request waits for the first one's work.
        self.busy: Busy = defaultdict(Lock) if busy is None else busy

    def batch(self, held: RegisteredBatch) -> Batch:
        """Return a batch as it is stored, or `UnavailableError` if the database was set back: the process ends."""
        with self._stepper.guarded():
            return self._store.batch(held.number)

    def _batch(self, held: RegisteredBatch) -> Batch:
        batch = self.batch(held)
        if batch.state == "abandoned" and batch.ended_by == TooManyRejectedError.token:
            raise TooManyRejectedError("this was decided when they were checked, and is final")
        if batch.state == "abandoned":
            raise AbandonedError(
                "its task ended long ago and nobody released it, or a later window of "
                "its stream was released, or the server's disk was restored"
            )
        if batch.state == "merged":
            raise AbandonedError(f"window {held.batch} was merged into a later one, and is never released alone")
        return batch

    def _perform(
        self, held: RegisteredBatch, state: JournalState, before: str, values: Values, first: int | None
    ) -> None:
        step = Step(self._stepper.start, state, held.task.id_bytes, before, values, held.batch, first)
        if not self._stepper.perform(step):
            # Only destruction can have come between: whatever else changes this batch waits for `busy`.
            raise UnavailableError(f"the batch is {self._batch(held).state}")

    def _inventories(self, held: RegisteredBatch) -> tuple[Signed[Inventory], ...]:
        """Return the inventories that the frozen cohort comes from."""
        return CohortRequest.from_canonical(self._store.inventories(held.number)).inventories
