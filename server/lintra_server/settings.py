"""A server's settings. Secrets come from the environment or from files only."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, StringConstraints
from pydantic_settings import SettingsConfigDict

from lintra_protocol.crypto.sealing import CLASSICAL, HYBRID, SuiteName
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.encoding.documents import Key
from lintra_protocol.privacy.limits import Ceiling
from lintra_protocol.task import Url
from lintra_protocol.task_terms import MAX_WORDS
from lintra_service.secrets import parse_secrets, read_private, read_secret
from lintra_service.settings import InvalidSettingsError, Port, Section, ServiceSettings

SECRET_BYTES = 32

ExecutorName = Annotated[str, StringConstraints(pattern=r"^(processes:[1-9]\d{0,2}|dask://[^\s/@?#]+:\d{1,5})$")]
"""Who computes releases beside the server's own process."""


class RegistrationPolicy(Section):
    """What the operator lets task authors do.

    Attributes:
        allowed_authors: whose tasks are taken; nobody's by default.
        open: whether tasks without tokens are taken, to which anybody may send any number of reports.
        max_tasks: of one author that have not ended.
        max_days: from now until a task ends.
        max_definition_bytes: of a task's definition.
        max_definitions_bytes: of the definitions of all tasks that are kept here, whoever registered them.
        max_epsilon: largest epsilon, at `delta` and not at the delta that the author chose.
        max_epsilon_alone: largest epsilon, likewise, that a task promises to a client of whom all others are invented;
            three times `max_epsilon` if not given.
        max_delta: largest promised delta.
        max_missing: of a task with tokens: the largest part of this server's reports that others may leave out. Half by
            default: twice the part of corrupt clients fits up to a quarter of them, and whoever would leave out all but
            a victim must still keep the larger part of those who reported.
        max_retention: seconds after a release for which a task may have its shares kept. So long, the folders of all
            servers together hold every single report.
        max_rejected: of a task that is verified: the largest part of a cohort that may fail its check. Lying servers
            can leave out as many.
        delta: at which epsilon is compared; a millionth if not given, or one over the smallest cohort if that is less.
    """

    allowed_authors: tuple[Key, ...] | Literal["any"] = ()
    open: bool = False
    max_tasks: int = Field(default=200, ge=1)
    max_days: int = Field(default=400, ge=1, le=36_500)
    max_definition_bytes: int = Field(default=1 << 20, ge=1 << 10, le=4 << 20)
    max_definitions_bytes: int = Field(default=256 << 20, ge=1 << 10)
    max_epsilon: Decimal = Field(default=Decimal(10), gt=0)
    max_epsilon_alone: Decimal | None = Field(default=None, gt=0)
    max_delta: Decimal = Field(default=Decimal("0.0001"), gt=0, lt=1)
    delta: Decimal | None = Field(default=None, gt=0, lt=1)
    max_missing: Decimal = Field(default=Decimal("0.5"), ge=0, lt=1)
    max_retention: int = Field(default=30 * 86_400, ge=0)
    max_rejected: Decimal = Field(default=Decimal("0.25"), ge=0, lt=1)
    min_clients: int = Field(default=2, ge=2)
    max_clients: int = Field(default=10_000_000, ge=2, le=2**32)
    max_words: int = Field(default=65_536, ge=1, le=MAX_WORDS)
    allowed_suites: tuple[SuiteName, ...] = Field(default=(HYBRID, CLASSICAL), min_length=1)

    @property
    def ceiling(self) -> Ceiling:
        """Return what is accepted of a promise."""
        delta = None if self.delta is None else Fraction(self.delta)
        alone = None if self.max_epsilon_alone is None else Fraction(self.max_epsilon_alone)
        return Ceiling(Fraction(self.max_epsilon), Fraction(self.max_delta), delta, alone)


class Queue(Section):
    """How much work may wait.

    Attributes:
        max_pending_bytes: of uploads that are being read, opened or written.
        max_wait_seconds: of work that may be ahead of an upload before it is told to come again.
        max_control_bytes: of requests of analyzers, whose signature was checked before.
        max_registration_bytes: of tasks that are being read.
    """

    max_pending_bytes: int = Field(default=64 << 20, ge=1 << 16)
    max_wait_seconds: float = Field(default=20, gt=0, le=3600)
    max_control_bytes: int = Field(default=128 << 20, ge=1 << 20)
    max_registration_bytes: int = Field(default=16 << 20, ge=4 << 20)


Origin = Annotated[str, StringConstraints(pattern=r"^https?://[!-.0-~]{1,250}$")]
"""Scheme, host and port of a site, as browsers send it."""


class PageAccess(Section):
    """Which pages may use this server from a browser (docs/how-to/pages.md).

    Attributes:
        origins: of these sites only, "any" by default; none with an empty list.
    """

    origins: tuple[Origin, ...] | Literal["any"] = "any"


class KeyPaths(Section):
    """How long the keys live that clients seal to; all in days."""

    active_days: int = Field(default=28, ge=1, le=365)
    renew_days: int = Field(default=7, ge=0)
    grace_days: int = Field(default=2, ge=2)


class Settings(ServiceSettings):
    """Everything an operator decides; see deploy/config/server.toml for what each line means."""

    model_config = SettingsConfigDict(env_prefix="LINTRA_SERVER_")

    public_url: Url
    port: Port = 8101
    internal_port: Port = 8201
    data_dir: Path = Path("server-data")
    key_dir: Path = Path("server-keys")
    witness_dir: Path | None = None
    database_url: SecretStr | None = None
    database_url_file: Path | None = None
    max_clock_step_days: int = Field(default=30, ge=1, le=3650)
    identity_key: SecretStr | None = None
    identity_key_file: Path | None = None
    storage_root_key: SecretStr | None = None
    storage_root_key_file: Path | None = None
    reserve_bytes: int = Field(default=16 << 20, ge=0)
    abandon_after_days: int = Field(default=90, ge=1)
    cut_after_days: int = Field(default=365, ge=1)
    executor: ExecutorName | None = None
    cluster_host: str = "127.0.0.1"
    cluster_authority_file: Path | None = None
    cluster_certificate_file: Path | None = None
    cluster_key_file: Path | None = None
    policy: RegistrationPolicy = RegistrationPolicy()
    queue: Queue = Queue()
    keys: KeyPaths = KeyPaths()
    pages: PageAccess = PageAccess()

    def placed(self, folder: Path) -> Self:
        """Return these settings with relative paths taken from `folder`, and the database's address from its file."""
        placed = super().placed(folder)
        identity = placed.identity_key_file or placed.key_dir / "identity.key"
        root = placed.storage_root_key_file or placed.key_dir / "storage-root.key"
        found = {"identity_key_file": identity, "storage_root_key_file": root}
        return placed.model_copy(update={**found, "database_url": placed._database_address()})

    def _database_address(self) -> SecretStr | None:
        if self.database_url_file is None:
            return self.database_url
        if self.database_url is not None:
            raise InvalidSettingsError("database_url and database_url_file: set one of them")
        if not (address := read_private(self.database_url_file).strip()):
            raise InvalidSettingsError(f"{self.database_url_file} holds no address of a database")
        return SecretStr(address)

    def has_identity_key(self) -> bool:
        """Return whether there is an identity key, without making one."""
        return self.identity_key is not None or self._identity_path().exists()

    def has_storage_root_key(self) -> bool:
        """Return whether there is a storage root key, without making one."""
        return self.storage_root_key is not None or self._root_path().exists()

    def signing_key(self, random_bytes: Callable[[int], bytes]) -> SigningKey:
        """Return the key this server signs with (see `_secrets` for errors)."""
        return SigningKey(self.identity_secret(random_bytes))

    def identity_secret(self, random_bytes: Callable[[int], bytes]) -> bytes:
        """Return the private half of that key, for its backup (see `_secrets` for errors)."""
        return self._secrets("identity_key", self.identity_key, self._identity_path(), random_bytes)[0]

    def storage_root_keys(self, random_bytes: Callable[[int], bytes]) -> list[bytes]:
        """Return the keys that the database is encrypted under: the first encrypts, all decrypt."""
        return self._secrets("storage_root_key", self.storage_root_key, self._root_path(), random_bytes)

    def _identity_path(self) -> Path:
        return self.identity_key_file or self.key_dir / "identity.key"

    def _root_path(self) -> Path:
        return self.storage_root_key_file or self.key_dir / "storage-root.key"

    def _secrets(
        self, name: str, given: SecretStr | None, path: Path, random_bytes: Callable[[int], bytes]
    ) -> list[bytes]:
        """Return secrets from the environment, else from a file, which is made if that is allowed."""
        if given is not None:
            return parse_secrets(given.get_secret_value(), SECRET_BYTES, self.variable(name))
        return read_secret(path, SECRET_BYTES, self.create_keys, random_bytes)
