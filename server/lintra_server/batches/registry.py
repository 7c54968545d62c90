"""The tasks this server takes part in: registered by their author if the operator's policy allows, then immutable."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from lintra_protocol.crypto.sealing import SealingKey
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.crypto.tokens import KEY_BYTES, Admission, key_commitment, key_context
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import (
    BatchClosedError,
    BatchOpenError,
    CohortTooSmallError,
    InvalidMessageError,
    InvalidTaskError,
    LintraError,
    PolicyRefusedError,
    UnavailableError,
    UnknownBatchError,
    UnknownTaskError,
)
from lintra_protocol.messages.documents import BATCH, Signed, TaskRecord, sign
from lintra_protocol.report.upload import MAX_REPORTS, upload_bytes
from lintra_protocol.task import Task
from lintra_server.durability.journal import BatchId
from lintra_server.settings import Settings
from lintra_server.storage.history import edited
from lintra_server.storage.store import Store
from lintra_server.storage.tasks import TaskRow

SKEW_UNITS = 1
"""By how many of a task's time units a client's clock may differ from this server's."""

MOST_HELD, MOST_HELD_BYTES = 64, 4 << 20
"""Tasks that are kept in memory, and the bytes of their definitions; others are read again when they are asked for."""


@dataclass(frozen=True)
class RegisteredTask:
    """A task as this server holds it."""

    key: int  #: its number in the store, which the journal gave to it
    task: Task  #: the checked definition
    server: int  #: this server's index in it
    record: bytes = field(repr=False)  #: the definition signed by this server, canonical
    admission: Admission | None = None  #: checks the tokens of its reports; None in an open task
    token_key: bytes | None = field(default=None, repr=False)

    @cached_property
    def max_upload_bytes(self) -> int:
        """Return the length of the largest upload of the task."""
        return upload_bytes(self.task, self.server, MAX_REPORTS, 1)

    def seconds(self, unit: int) -> int:
        """Return a time in the task's units as seconds since the epoch."""
        return unit * self.task.time_precision

    def ends_of(self, batch: int) -> int:
        """Return when a batch takes no more reports, in seconds since the epoch; of a window, grace included."""
        return self.seconds(self.task.span(batch)[1] + (self.task.windows.grace if self.task.windows else 0))


@dataclass(frozen=True)
class RegisteredBatch(RegisteredTask):
    """One batch of a task as this server holds it.

    `number` is its number in the store, over all tasks. `batch` is its number in the task: 0, or that of its window.
    """

    number: int = field(kw_only=True)
    batch: int = field(kw_only=True)

    def require_over(self, now: float) -> None:
        """Check that a window takes no more reports, its grace included; the batch of another task always passes.

        `now` is in seconds since the epoch. Raises BatchOpenError if it still takes reports.
        """
        left = self.ends_of(self.batch) - now
        if self.task.windows is not None and left > 0:
            raise BatchOpenError(f"window {self.batch} takes reports for {left:.0f} s more, grace included")


class Registry:
    """All registered tasks; definitions never change, so they are kept in memory once read."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        identity: SigningKey,
        now: Callable[[], float],
        find_key: Callable[[bytes], SealingKey],
    ) -> None:
        """Serve the tasks of one store under one operator's policy.

        `store` says where tasks are kept; `settings` have the operator's policy. `now` is the clock, in seconds since
        the epoch; `find_key` returns this server's sealing keys.
        """
        self._find_key = find_key
        self._store = store
        self._settings = settings
        self._identity = identity
        self._now = now
        self._held: dict[str, RegisteredTask] = {}

    def find(self, task_id: str) -> RegisteredTask:
        """Return a registered task; raise UnknownTaskError if it is not registered here."""
        if task_id not in self._held:
            try:
                row = self._store.task(parse_base64url(task_id, 32))
            except InvalidMessageError:
                row = None
            if row is None:
                raise UnknownTaskError(self._what_is_known(task_id))
            self._make_room(len(row.definition))
            self._held[task_id] = self._loaded(task_id, row)
        else:
            # Asked for last, so that it stays the longest.
            with suppress(KeyError):
                self._held[task_id] = self._held.pop(task_id)
        return self._held.get(task_id) or self.find(task_id)

    def _loaded(self, task_id: str, row: TaskRow) -> RegisteredTask:
        """Return a task as it was registered, from what the database has of it."""
        # A definition is believed only if
        #   (1) it hashes to the identifier that was asked for, under which the journal says that it was registered;
        #   (2) its promise holds, recomputed here;
        #   (3) the key of its tokens is the one that it names.
        where = f"task {task_id}: table tasks, row {row.task}, column"
        try:
            task = Task.from_canonical(row.definition)
            if task.task_id != task_id:
                raise InvalidMessageError("it is another task's")  # (1)
            task.check()  # (2)
            server = next(i for i, each in enumerate(task.servers) if each.identity_key == self._identity.public_key)
        except (LintraError, StopIteration):
            raise edited(f"{where} definition was changed") from None
        if task.uses_tokens and (row.token_key is None or key_commitment(row.token_key) != task.token_keys[server]):
            raise edited(f"{where} wrapped_token_key was changed")  # (3)
        record = sign(self._identity, TaskRecord(definition=task)).canonical()
        admission = Admission(row.token_key, task.id_bytes) if task.uses_tokens and row.token_key else None
        return RegisteredTask(row.task, task, server, record, admission, row.token_key)

    def find_batch(self, task_id: str, batch: int = BATCH) -> RegisteredBatch:
        """Return a batch of a registered task.

        Raises:
            UnknownTaskError: the task is not registered here.
            UnknownBatchError: it has no such batch.
            BatchOpenError: it is a window of which no report came yet.
            CohortTooSmallError: it is a window of which none came, and it is over.
        """
        held = self.find(task_id)
        if not 0 <= batch < held.task.num_batches:
            raise UnknownBatchError(f"this task has batches 0 to {held.task.num_batches - 1}")
        found = self.batch_of(held, batch)
        if found is None and self._now() >= held.ends_of(batch):
            raise CohortTooSmallError(f"no report of window {batch} came, and it is over")
        if found is None:
            raise BatchOpenError(f"no report of window {batch} came yet")
        return found

    def batch_of(self, held: RegisteredTask, batch: int) -> RegisteredBatch | None:
        """Return a batch of a task, or None if it was not opened yet."""
        number = self.number_of(held, batch)
        if number is None:
            return None
        return RegisteredBatch(
            held.key, held.task, held.server, held.record, held.admission, held.token_key, number=number, batch=batch
        )

    def number_of(self, held: RegisteredTask, batch: int) -> int | None:
        """Return the number in the store of a batch of a task, or None if it was not opened yet; waits for nothing."""
        return self._store.history.place(BatchId(held.task.id_bytes, batch))

    def opened(self, held: RegisteredTask, batch: int) -> int:
        """Return the number in the store of a batch of a task, which is opened if that was not done yet.

        Raises BatchClosedError if this server was restored after it could first take reports of this window: it may
        have been released in the part that was lost.
        """
        found = self.number_of(held, batch)
        if found is not None:
            return found
        begins = held.seconds(held.task.span(batch)[0] - SKEW_UNITS)
        if held.task.windows is not None and begins < self._store.history.barred_before:
            raise BatchClosedError(f"this server was restored; windows that began before then are over, as {batch} is")
        return self._store.open_batch(held.task.id_bytes, batch, held.ends_of(batch))

    def open_group(self, held: RegisteredTask, batch: int, first: int) -> None:
        """Open the windows of a group in which nobody answered here, so that they can be closed with the others."""
        if self._now() >= held.ends_of(batch):
            for number in held.task.group(batch, first):
                self.opened(held, number)

    def _what_is_known(self, task_id: str) -> str:
        with suppress(InvalidMessageError):
            for first in self._store.history.of_task(parse_base64url(task_id, 32)):
                return f"it ended long ago, or this server was restored; all that is left: its batch is {first.state}"
        return "it was never registered at this server"

    def _make_room(self, size: int) -> None:
        """Forget the tasks that were not asked for the longest, until there is room for one with `size` bytes."""
        while self._held and (
            len(self._held) >= MOST_HELD
            or size + sum(len(held.record) for held in list(self._held.values())) > MOST_HELD_BYTES
        ):
            self._held.pop(next(iter(self._held)), None)

    def forget(self, task_id: str) -> None:
        """Read a task again when it is asked for."""
        self._held.pop(task_id, None)

    def register(
        self, task_id: str, signed: Signed[TaskRecord], sealed_key: tuple[bytes, bytes] | None = None
    ) -> tuple[RegisteredTask, bool]:
        """Take part in a task (R1); return it, and whether it is new here.

        `task_id` is in base64url. `sealed_key` is for a task with tokens: the key that checks them, sealed, after the
        identifier of the sealing key.

        Raises:
            InvalidMessageError: the definition does not hash to `task_id`.
            UnauthorizedError: it is not signed by its author. InvalidTaskError, UnsupportedFeatureError,
                FalseClaimError, RowUnderfilledError: see `Task.check`.
            PolicyRefusedError: it does not name this server, or the operator does not allow it.
        """
        # A server takes part in a task only if
        #   (1) the name is the hash of the definition, so that it means the same everywhere;
        #   (2) its author signed it;
        #   (3) its promise holds, recomputed here;
        #   (4) it names this server's key and address;
        #   (5) the operator allows it;
        #   (6) it begins after this server's disk was restored, or its end state is known: it may have been released in
        #       the part that was lost, and a second sketch of the same reports would show rows behind too little noise;
        #   (7) it has no tokens, or the key that checks them came with it.
        task = signed.message.definition
        if task.task_id != task_id:
            raise InvalidMessageError(f"the definition's identifier is {task.task_id}")  # (1)
        signed.verified(task.author_key)  # (2)
        with suppress(UnknownTaskError, UnavailableError):
            held, row = self.find(task_id), self._store.task(task.id_bytes)
            if row is not None and (row.definition, row.token_key) == (task.canonical(), held.token_key):
                return held, False
        # Also if its row is gone or was changed: the definition speaks for itself, and is stored once more.
        task.check()  # (3)
        server = self._own_index(task)  # (4)
        known = self._store.history.tasks.get(task.id_bytes)
        if known is None or known.is_cut:  # else its row is gone from the database, and it was allowed before
            self._require_allowed(task)  # (5)
            self._require_later(task)  # (6)
        token_key = self._token_key(task, server, sealed_key)  # (7)
        first_end = task.span(BATCH)[1] + (task.windows.grace if task.windows else 0)
        created = self._store.add_task(
            task.id_bytes,
            task.canonical(),
            author=task.author_key,
            ends=(task.not_after + (task.windows.grace if task.windows else 0)) * task.time_precision,
            batch_ends=first_end * task.time_precision,
            retention=task.retention,
            token_key=token_key,
            policy=self._settings.policy.model_dump_json().encode(),
        )
        return self.find(task_id), created

    def _token_key(self, task: Task, server: int, sealed_key: tuple[bytes, bytes] | None) -> bytes | None:
        """Open the key of a task with tokens, and check it against the task."""
        if not task.uses_tokens:
            return None
        if sealed_key is None:
            raise InvalidTaskError("it has tokens, and came without this server's key for them")
        key_id, sealed = sealed_key
        key = self._find_key(key_id).open(sealed, key_context(task.id_bytes, server))
        if len(key) != KEY_BYTES or key_commitment(key) != task.token_keys[server]:
            raise InvalidTaskError("the key for its tokens is not the one that the task names")
        return key

    def _own_index(self, task: Task) -> int:
        for index, entry in enumerate(task.servers):
            if entry.identity_key == self._identity.public_key:
                if entry.url != self._settings.public_url:
                    raise PolicyRefusedError(f"this server's address is {self._settings.public_url}, not {entry.url}")
                return index
        raise PolicyRefusedError(f"the task does not name this server, {self._identity.public_key}")

    def _require_later(self, task: Task) -> None:
        # From the first moment at which this server would take a report: clocks of clients may run ahead.
        begins = (task.not_before - SKEW_UNITS) * task.time_precision
        barred_before = self._store.history.barred_before
        if begins < barred_before:
            raise PolicyRefusedError(
                f"this server was restored; tasks that take reports before {barred_before} (seconds since the "
                f"epoch) are not registered any more, this one does from {begins} on: make it anew, to begin later"
            )

    def _require_allowed(self, task: Task) -> None:
        policy = self._settings.policy
        limits = (
            (
                policy.allowed_authors == "any" or task.author_key in policy.allowed_authors,
                "this author may not register tasks here",
            ),
            (
                task.uses_tokens or policy.open,
                "without tokens strangers can fill the task; this operator does not take open tasks",
            ),
            (
                task.claim.min_clients >= policy.min_clients,
                f"a cohort of {task.claim.min_clients} is below {policy.min_clients}",
            ),
            (task.max_clients <= policy.max_clients, f"max_clients {task.max_clients} exceeds {policy.max_clients}"),
            (
                task.not_after * task.time_precision <= self._now() + policy.max_days * 86_400,
                f"it ends more than {policy.max_days} days from now",
            ),
            (
                len(task.canonical()) <= policy.max_definition_bytes,
                f"its definition has more than {policy.max_definition_bytes} bytes",
            ),
            (
                # One that is registered once more, since its row is gone, was counted before.
                self._store.history.unended(task.author_key, int(self._now())) < policy.max_tasks
                or task.id_bytes in self._store.history.tasks,
                f"this author has {policy.max_tasks} tasks here that have not ended",
            ),
            (
                not task.uses_tokens or fraction(task.max_missing) <= Fraction(policy.max_missing),
                f"max_missing {task.max_missing} exceeds {policy.max_missing}: servers could leave out most clients",
            ),
            (
                task.retention <= policy.max_retention,
                f"retention {task.retention} s exceeds {policy.max_retention} s: shares would be kept so long",
            ),
            (
                task.max_rejected is None or fraction(task.max_rejected) <= Fraction(policy.max_rejected),
                f"max_rejected {task.max_rejected} exceeds {policy.max_rejected}: servers could leave out many clients",
            ),
            (
                self._store.history.definition_bytes + len(task.canonical()) <= policy.max_definitions_bytes,
                f"the definitions of all tasks here would have more than {policy.max_definitions_bytes} bytes",
            ),
            (task.num_words <= policy.max_words, f"{task.num_words} words exceed {policy.max_words}"),
            (task.suite in policy.allowed_suites, f"suite {task.suite} is not allowed"),
            (task.not_after * task.time_precision > self._now(), "the task has ended"),
        )
        for allowed, complaint in limits:
            if not allowed:
                raise PolicyRefusedError(complaint)
        for claim, worst in task.promises():
            policy.ceiling.require(claim, worst)
        if task.claim.epsilon_alone is not None and (alone := task.judged_alone()) is not None:
            policy.ceiling.require_alone(task.claim, alone)
