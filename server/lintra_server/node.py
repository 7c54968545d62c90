"""One server put together from its parts, without HTTP."""

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress

import structlog
from starlette.types import Scope

from lintra_protocol.crypto.randomness import RandomBytes, bulk_system_randomness
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import UnavailableError
from lintra_protocol.messages.documents import Signed, TaskRecord
from lintra_server.auth import Authenticator
from lintra_server.batches.census import CensusTaker
from lintra_server.batches.chunks import PendingChunks
from lintra_server.batches.executors import executor_of
from lintra_server.batches.gate import Gate
from lintra_server.batches.id_lists import BatchLists, roots_of
from lintra_server.batches.inclusion_answers import Prover
from lintra_server.batches.intake import Intake
from lintra_server.batches.jobs import ReleaseSteps
from lintra_server.batches.registry import RegisteredTask, Registry
from lintra_server.batches.retention import Retention
from lintra_server.batches.verification_round import VerificationRound
from lintra_server.clock import DAY, Clock
from lintra_server.durability.journal import Halt
from lintra_server.metrics import Metrics
from lintra_server.operations.initialise import initialise, may_initialise
from lintra_server.operations.start import begin, renew_keys
from lintra_server.settings import Settings
from lintra_server.storage.key_folder import ACCEPT_FILE, SCRATCH_FOLDER, KeyFolder, last_seen
from lintra_server.storage.keys import Keyring
from lintra_server.storage.server_resources import ServerResources, lock_folders, open_parts
from lintra_server.storage.transition_log import Stepper
from lintra_server.storage.writer import Writer
from lintra_service.byte_budget import ByteBudget, OneAtATime
from lintra_service.client_address import peer_of
from lintra_service.mapped_lists import ListFolder
from lintra_service.readiness import Readiness
from lintra_service.scratch import Scratch
from lintra_service.spooled_bodies import BodyFolder
from lintra_service.supervisor import Supervisor, end_process, track_work

NOTE_SECONDS = 1.0
"""How often what was stored is noted in the key folder, if it changed."""

CLOCK_NOTE_SECONDS = 60.0
log = structlog.get_logger()


class Node:
    """The parts of one server, sharing one store."""

    def __init__(
        self,
        settings: Settings,
        random_bytes: RandomBytes,
        now: Callable[[], float],
        running: Callable[[], float] = time.monotonic,
        halt: Halt = end_process,
    ) -> None:
        """Open both folders, compare them, and start the writer.

        `now` is the machine's clock, in seconds since the epoch; `running` counts seconds, and nobody sets it.
        """
        self.settings, self.page_origins = settings, settings.pages.origins
        self._running = running
        folder = lock_folders(settings, random_bytes)
        try:
            self.clock = new_clock(settings, folder, now, running)
            if may_initialise(settings, folder):
                initialise(settings, random_bytes, folder, self.clock)
            self._parts = open_parts(settings, random_bytes, folder)
        except BaseException:
            folder.close()
            raise
        try:
            self._begin(self._parts, random_bytes, halt)
        except BaseException:
            self._parts.close()
            raise

    def _begin(self, parts: ServerResources, random_bytes: RandomBytes, halt: Halt) -> None:
        settings = self.settings
        parts.database.watch(halt)
        stepper = begin(parts, halt)
        renew_keys(parts)
        self.now, self.identity = self.clock.now, parts.identity
        self.database, self.store, self.states = parts.database, parts.store, parts.states
        self.metrics = Metrics()
        self.stepper = stepper
        self.keys = Keyring(
            parts.sealing_keys, parts.identity, settings.policy.allowed_suites, settings.keys, random_bytes, self.now,
            self._running,
        )  # fmt: skip
        self.registry = Registry(parts.store, settings, parts.identity, self.now, self.keys.find)
        queue = settings.queue
        # Whoever fills one of them leaves the others alone.
        self.uploads = ByteBudget(queue.max_pending_bytes)
        self.control = ByteBudget(queue.max_control_bytes)
        self.registrations = ByteBudget(queue.max_registration_bytes)
        # Proofs are costly, and anybody may ask for one.
        self.proving = OneAtATime("another proof is being computed")
        self.writer = Writer(parts.store.add_reports, queue.max_pending_bytes, self.metrics.observe_commit, halt)
        self.intake = Intake(
            self.writer, self.keys.find, self.store.stored, self._are_new, self.keys.has, parts.identity,
            queue.max_wait_seconds, self.now, self.metrics.observe_reports, self.registry.number_of, self.opened,
        )  # fmt: skip
        self.metrics.pending_bytes.set_function(lambda: self.uploads.used)
        lists = ListFolder(settings.data_dir / "lists", durable=False)
        scratch = Scratch(settings.key_dir / SCRATCH_FOLDER)
        self._begin_steps(parts, stepper, random_bytes, lists, scratch)
        self._upkeep = Retention(
            parts.store, parts.states, stepper, parts.journal, parts.folder.files, settings.abandon_after_days * DAY,
            settings.cut_after_days * DAY, self._running, self._forget_task,
        )  # fmt: skip
        self.census = CensusTaker(
            parts.store,
            stepper.guarded,
            parts.identity,
            self.now,
            stepper.start,
            self.intake.counters,
            scratch,
            parts.journal.mac,
        )
        self.doorkeeper = Authenticator()
        # One system call per request would cost more than the stream does.
        self._request_ids = bulk_system_randomness()
        self.maintain()
        self._noted = self._running()
        self.note()
        self._stopping = threading.Event()
        self._notes = threading.Thread(target=self._keep_noting, name="lintra-notes", daemon=True)
        self.readiness = Readiness([settings.data_dir, settings.key_dir], self._checks(), settings.min_free_bytes)
        self.readiness.probe()
        self._complaint, self._refusals = self.clock.complaint, 0
        self._notes.start()

    def _begin_steps(
        self, parts: ServerResources, stepper: Stepper, random_bytes: RandomBytes, lists: ListFolder, scratch: Scratch
    ) -> None:
        """Make what takes the steps of a batch."""
        settings = self.settings
        self.lists = BatchLists(parts.store, lists, scratch, _pieces(settings, scratch))
        self.gate = Gate(
            parts.store, parts.states, stepper, parts.identity, random_bytes, self.now, self.lists,
            executor_of(settings),
        )  # fmt: skip
        self.prover = Prover(parts.store, stepper, self.lists)
        self.judge = VerificationRound(
            parts.store, parts.states, stepper, parts.identity, self.lists, BodyFolder(settings.data_dir / "checks"),
            scratch, self.gate.busy,
        )  # fmt: skip
        # Each may be hundreds of megabytes on the disk.
        self.judging = OneAtATime("the bodies of another verdict are being received")
        self.jobs = ReleaseSteps(self._running)

    def _checks(self) -> dict[str, Callable[[], None]]:
        return {
            "reserve": self._parts.reserve.refill,
            "clock": self.clock.check,
            "journal": self._check_journal,
            "database": self._check_database,
            "keys": self._check_keys,
        }

    def check(self) -> None:
        """Check that uploads can be taken: by the clock now, what was seen at the last look, and whether there is room.

        Raises UnavailableError, OverloadedError if they cannot.
        """
        self.clock.check()
        self.readiness.require()
        self.uploads.require()

    def peer(self, scope: Scope) -> str:
        """Return whose budget a request is counted against."""
        return peer_of(scope, self.settings.trusted_proxies)

    def _check_journal(self) -> None:
        """Check that no step was left half done, between journal and database or before; try to finish one that was."""
        self.stepper.settle()
        with self.stepper.guarded():
            self.gate.closing.settle()

    def _check_database(self) -> None:
        """Check that the store answers and takes a write; after a failed commit also that its file is sound."""
        with self.stepper.guarded():
            self.database.check()
        if self.writer.failed and not self.database.sound():
            raise UnavailableError("the database is damaged: lintra server doctor")
        self.database.touch()
        self.writer.failed = False

    def _check_keys(self) -> None:
        if not self.keys.has_active():
            raise UnavailableError("no sealing key is active")

    def register(
        self, task_id: str, signed: Signed[TaskRecord], sealed_key: tuple[bytes, bytes] | None
    ) -> tuple[RegisteredTask, bool]:
        """Take part in a task; return it, and whether it is new here (see `Registry.register` for errors)."""
        with self.stepper.guarded():
            return self.registry.register(task_id, signed, sealed_key)

    def open_group(self, held: RegisteredTask, batch: int, first: int) -> None:
        """Open the windows of a group in which nobody answered here (see `Registry.open_group` for errors)."""
        with self.stepper.guarded():
            self.registry.open_group(held, batch, first)

    def opened(self, held: RegisteredTask, batch: int) -> int:
        """Return the number of a batch in the store, which is opened if need be (see `Registry.opened` for errors)."""
        with self.stepper.guarded():
            return self.registry.opened(held, batch)

    def _are_new(self, held: RegisteredTask, batch: int, report_ids: Sequence[bytes]) -> bool:
        number = self.registry.number_of(held, batch)
        return number is not None and self.store.are_new(number, report_ids)

    def new_request_id(self) -> str:
        """Return a name for one request."""
        return self._request_ids(8).hex()

    def maintain(self) -> None:
        """Renew keys and destroy what is due; called at the start and every hour. With a wrong clock little is done."""
        try:
            with self.stepper.guarded():
                self.metrics.scrubbed.inc(self._upkeep.run(self.clock, self.database))
            self.keys.maintain()
            self.lists.pieces.forget_old()
            self.judge.tidy()
        except UnavailableError as error:
            log.warning("maintenance put off", reason=error.detail)

    def note(self) -> None:
        """Note durably in the key folder where batches end, and the time if it is to be believed."""
        accept = self._parts.folder.path / ACCEPT_FILE
        if accept.exists():
            self.clock.accept()
            accept.unlink()
            log.warning("clock accepted")
            self.keys.maintain()
        ran = self._running()
        self.store.notes.sync()
        self._parts.folder.note_clock(self.clock.seen())
        self._noted = ran

    def _heed_clock(self) -> None:
        """Say when the clock is not believed any more, and go on by itself when it is believed again."""
        with suppress(UnavailableError):
            self.clock.check()
        complaint, refusals = self.clock.complaint, self.clock.refusals
        if complaint and not self._complaint:
            log.warning("clock not believed", reason=complaint)
        elif refusals != self._refusals and not complaint:
            log.info("clock believed again")
            self.keys.maintain()  # with the wrong clock none were offered
            self.readiness.probe()
        self._complaint = complaint
        if not complaint:
            self._refusals = refusals

    def _forget_task(self, task_id: bytes) -> None:
        """Let go of a task that was cut, and of the lists that its batches had."""
        self.registry.forget(base64url(task_id))
        self.lists.keep_only(roots_of(self.states.described()))

    def _keep_noting(self) -> None:
        while not self._stopping.wait(NOTE_SECONDS):
            with track_work("the note-taker"):
                self._note_if_changed()

    def _note_if_changed(self) -> None:
        try:
            self._heed_clock()
            waiting = (self._parts.folder.path / ACCEPT_FILE).exists()
            if waiting or self.store.notes.has_changed or self._running() - self._noted >= CLOCK_NOTE_SECONDS:
                self.note()
        except UnavailableError as error:
            log.warning("note put off", reason=error.detail)
        except Exception:  # the disk may be full: a second later it may work
            log.error("note failed", traceback=traceback.format_exc())

    def supervise(self, supervisor: Supervisor) -> None:
        """Let a supervisor watch the threads of this node."""
        supervisor.watch("the writer", lambda: self.writer.is_well)
        supervisor.watch("the note-taker", lambda: self._stopping.is_set() or self._notes.is_alive())
        supervisor.watch("a step of a release", self.jobs.are_well)
        supervisor.watch("the look at the database", lambda: self.database.is_looked_at)

    def close(self) -> None:
        """Finish what was begun, write what waits, and close the store."""
        self._stopping.set()
        self._notes.join()
        self.jobs.close()
        # A step that is left undone must write nothing where the next process may already write.
        self.stepper.stop()
        self.intake.close()
        self.writer.close()
        try:
            self.note()
        finally:
            self._parts.close()


def _pieces(settings: Settings, scratch: Scratch) -> PendingChunks:
    return PendingChunks(settings.data_dir / "pieces", scratch, settings.min_free_bytes)


def new_clock(settings: Settings, folder: KeyFolder, now: Callable[[], float], running: Callable[[], float]) -> Clock:
    """Return the clock behind its guard, as the key folder last saw it."""
    clock = Clock(now, running, last_seen(folder.path), settings.max_clock_step_days * DAY)
    accept = folder.path / ACCEPT_FILE
    if accept.exists():
        clock.accept()
        accept.unlink()
    return clock
