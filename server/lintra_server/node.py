"""One server put together from its parts, without HTTP."""

from collections.abc import Callable

from starlette.types import Scope

from lintra_protocol.errors import UnavailableError
from lintra_protocol.randomness import RandomBytes, bulk_system_randomness
from lintra_server.auth import Doorkeeper
from lintra_server.database import Database
from lintra_server.gate import Gate
from lintra_server.intake import Intake
from lintra_server.keys import DAY, Keyring
from lintra_server.metrics import Metrics
from lintra_server.registry import Registry
from lintra_server.settings import Settings
from lintra_server.store import Store
from lintra_server.vault import Vault
from lintra_server.writer import Writer
from lintra_service.peers import peer_of
from lintra_service.readiness import Readiness
from lintra_service.room import Room

DATABASE_FILE = "lintra.sqlite"


class Node:
    """The parts of one server, sharing one store."""

    def __init__(self, settings: Settings, random_bytes: RandomBytes, now: Callable[[], float]) -> None:
        """Open the store and start the writer.

        Raises:
            ValueError: a key is missing, or the database is another version's or another root key's.
        """
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.settings = settings
        self.now = now
        self.identity = settings.signing_key(random_bytes)
        vault = Vault(settings.storage_root_keys(random_bytes), random_bytes)
        self.database = Database(settings.data_dir / DATABASE_FILE)
        self.metrics = Metrics()
        self.store = Store(self.database, vault, random_bytes)
        suites = settings.policy.allowed_suites
        self.keys = Keyring(self.database, vault, self.identity, suites, settings.keys, random_bytes, now)
        self.registry = Registry(self.store, settings, self.identity, now)
        queue = settings.queue
        # Whoever fills one of them leaves the others alone.
        self.uploads = Room(queue.max_pending_bytes)
        self.control = Room(queue.max_control_bytes)
        self.registrations = Room(queue.max_registration_bytes)
        self.writer = Writer(self.store.add_reports, queue.max_pending_bytes, self.metrics.observe_commit)
        observe = self.metrics.observe_reports
        self.intake = Intake(self.writer, self.keys.find, self.identity, queue.max_wait_seconds, now, observe)
        self.metrics.pending_bytes.set_function(lambda: self.uploads.used)
        self.gate = Gate(self.store, self.identity, random_bytes, now)
        self.doorkeeper = Doorkeeper()
        # One system call per request would cost more than the stream does.
        self._request_ids = bulk_system_randomness()
        self.maintain()
        self.readiness = Readiness(
            [settings.data_dir],
            {"database": self._check_database, "keys": self._check_keys},
            settings.min_free_bytes,
        )
        self.readiness.probe()

    def check(self) -> None:
        """Check that uploads can be taken: what was seen at the last look, and whether there is room now.

        Raises:
            UnavailableError, OverloadedError: they cannot.
        """
        self.readiness.require()
        self.uploads.require()

    def peer(self, scope: Scope) -> str:
        """Return whose budget a request is counted against."""
        return peer_of(scope, self.settings.trusted_proxies)

    def _check_database(self) -> None:
        """Check that the store answers and takes a write; after a failed commit also that its file is sound."""
        self.database.check()
        if self.writer.failed and not self.database.sound():
            raise UnavailableError("the database is damaged: lintra server doctor")
        self.database.touch()
        self.writer.failed = False

    def _check_keys(self) -> None:
        if not self.keys.has_active():
            raise UnavailableError("no sealing key is active")

    def new_request_id(self) -> str:
        """Return a name for one request."""
        return self._request_ids(8).hex()

    def maintain(self) -> None:
        """Renew keys and destroy what is due; called at the start and every hour."""
        self.keys.maintain()
        self.metrics.scrubbed.inc(self.store.scrub_due(int(self.now()), self.settings.abandon_after_days * DAY))

    def close(self) -> None:
        """Finish what was begun, write what waits, and close the store."""
        self.intake.close()
        self.writer.close()
        self.database.close()
