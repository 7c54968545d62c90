"""A server's settings: one frozen model from one TOML file. Secrets come from the environment or from files only."""

import os
import tomllib
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from lintra_protocol.canonical import base64url, parse_base64url
from lintra_protocol.documents import Key, first_complaint
from lintra_protocol.errors import LintraError
from lintra_protocol.privacy.ceiling import Ceiling
from lintra_protocol.sealing import CLASSICAL, HYBRID, SuiteName
from lintra_protocol.signing import SigningKey
from lintra_protocol.task import MAX_WORDS

IDENTITY_KEY_VARIABLE = "LINTRA_SERVER_IDENTITY_KEY"
STORAGE_ROOT_KEY_VARIABLE = "LINTRA_SERVER_STORAGE_ROOT_KEY"
SECRET_BYTES = 32

Port = Annotated[int, Field(ge=0, le=65_535)]
Url = Annotated[str, StringConstraints(pattern=r"^https?://[^\s?#]{1,250}[^\s?#/]$")]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Policy(_Section):
    """What the operator lets task authors do.

    Attributes:
        max_epsilon: largest epsilon, at `delta` and not at the delta that the author chose.
        max_delta: largest promised delta.
        delta: at which epsilon is compared; a millionth if not given, or one over the smallest cohort if that is less.
    """

    allowed_authors: tuple[Key, ...] | Literal["any"] = "any"
    max_epsilon: Decimal = Field(default=Decimal(10), gt=0)
    max_delta: Decimal = Field(default=Decimal("0.0001"), gt=0, lt=1)
    delta: Decimal | None = Field(default=None, gt=0, lt=1)
    min_clients: int = Field(default=2, ge=2)
    max_clients: int = Field(default=10_000_000, ge=2, le=2**32)
    max_words: int = Field(default=65_536, ge=1, le=MAX_WORDS)
    allowed_suites: tuple[SuiteName, ...] = Field(default=(HYBRID, CLASSICAL), min_length=1)

    @property
    def ceiling(self) -> Ceiling:
        """Return what is accepted of a promise."""
        delta = None if self.delta is None else Fraction(self.delta)
        return Ceiling(Fraction(self.max_epsilon), Fraction(self.max_delta), delta)


class Queue(_Section):
    """How much work may wait.

    Attributes:
        max_pending_bytes: of uploads that are being read, opened or written.
    """

    max_pending_bytes: int = Field(default=64 << 20, ge=1 << 16)


class Keys(_Section):
    """How long the keys live that clients seal to; all in days."""

    active_days: int = Field(default=28, ge=1, le=365)
    renew_days: int = Field(default=7, ge=0)
    grace_days: int = Field(default=2, ge=2)


class Settings(_Section):
    """Everything an operator decides; see deploy/config/server.toml for what each line means."""

    public_url: Url
    host: str = "127.0.0.1"
    port: Port = 8101
    internal_host: str = "127.0.0.1"
    internal_port: Port = 8201
    data_dir: Path = Path("server-data")
    create_keys: bool = False
    identity_key_file: Path | None = None
    storage_root_key_file: Path | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    abandon_after_days: int = Field(default=90, ge=1)
    policy: Policy = Policy()
    queue: Queue = Queue()
    keys: Keys = Keys()

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a TOML file; relative paths in it are taken from its folder.

        Raises:
            ValueError: not TOML, or not these settings; the message names the line or the key.
        """
        try:
            return cls.model_validate(tomllib.loads(path.read_text("utf-8"))).placed(path.parent)
        except ValidationError as error:
            raise ValueError(f"{path}: {first_complaint(error)}") from None
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{path}: {error}") from None

    def placed(self, folder: Path) -> Self:
        """Return these settings with relative paths taken from `folder`."""
        data_dir = folder / self.data_dir
        identity = folder / self.identity_key_file if self.identity_key_file else data_dir / "identity.key"
        root = folder / self.storage_root_key_file if self.storage_root_key_file else data_dir / "storage-root.key"
        return self.model_copy(
            update={"data_dir": data_dir, "identity_key_file": identity, "storage_root_key_file": root}
        )

    def identity_key(self, random_bytes: Callable[[int], bytes]) -> SigningKey:
        """Return the key this server signs with (see `_secret` for errors)."""
        path = self.identity_key_file or self.data_dir / "identity.key"
        (secret,) = self._secrets(IDENTITY_KEY_VARIABLE, path, random_bytes)[:1]
        return SigningKey(secret)

    def storage_root_keys(self, random_bytes: Callable[[int], bytes]) -> list[bytes]:
        """Return the keys that the database is encrypted under: the first encrypts, all decrypt."""
        path = self.storage_root_key_file or self.data_dir / "storage-root.key"
        return self._secrets(STORAGE_ROOT_KEY_VARIABLE, path, random_bytes)

    def _secrets(self, variable: str, path: Path, random_bytes: Callable[[int], bytes]) -> list[bytes]:
        """Read secrets from the environment or a file; make the file if that is allowed and it is missing.

        Raises:
            ValueError: there is none, or it is not 32 bytes in base64url.
        """
        text = os.environ.get(variable)
        if not text:
            if self.create_keys and not path.exists():
                _write_secret(path, base64url(random_bytes(SECRET_BYTES)))
            if not path.exists():
                raise ValueError(f"no key: set {variable}, bring {path}, or set create_keys = true")
            text = path.read_text("ascii")
        try:
            return [parse_base64url(word, SECRET_BYTES) for word in text.replace(",", " ").split()]
        except LintraError:
            raise ValueError(f"{variable} or {path}: expected {SECRET_BYTES} bytes in base64url") from None


def _write_secret(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Created with its final mode, so that there is no moment at which others can read it; and never overwritten.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(descriptor)
