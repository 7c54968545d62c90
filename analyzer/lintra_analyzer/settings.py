"""The analyzer's settings; its private keys are files of their own (see `storage.keys`)."""

from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from lintra_protocol.encoding.documents import Key
from lintra_protocol.mechanisms.floor import MAX_SERVERS
from lintra_protocol.task import Url
from lintra_service.settings import InvalidSettingsError, Port, Section, ServiceSettings

URL_VARIABLE = "LINTRA_ANALYZER_URL"
TOKEN_VARIABLE = "LINTRA_ANALYZER_TOKEN"


def _words(value: object) -> object:
    """Split what an environment variable says in one line."""
    return value.replace(",", " ").split() if isinstance(value, str) else value


TokenHash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
TokenHashes = Annotated[tuple[TokenHash, ...], NoDecode, BeforeValidator(_words)]


class KnownServer(Section):
    """One server that tasks are registered with; without a key it is trusted on first use."""

    url: Url
    identity_key: Key | None = None


class Settings(ServiceSettings):
    """Everything that differs between two installations of the analyzer; deploy/config/analyzer.toml explains it."""

    model_config = SettingsConfigDict(env_prefix="LINTRA_ANALYZER_")
    # The commands that talk to a running analyzer read these.
    other_variables: ClassVar[frozenset[str]] = frozenset({URL_VARIABLE, TOKEN_VARIABLE})

    port: Port = 8700
    internal_port: Port = 8701
    key_dir: Path | None = None
    trust_on_first_use: bool = False
    token_hashes: TokenHashes = ()
    token_hashes_file: Path | None = None
    server_attempts: int = Field(default=8, ge=1, le=1000)
    server_timeout_seconds: float = Field(default=60.0, gt=0, le=3600)
    retry_seconds: float = Field(default=1.0, ge=0, le=3600)
    retry_seconds_max: float = Field(default=30.0, ge=0, le=3600)
    max_body_bytes: int = Field(default=4_194_304, ge=1024)
    max_pending_bytes: int = Field(default=67_108_864, ge=65_536)
    work_processes: int = Field(default=2, ge=1, le=64)
    work_seconds: float = Field(default=10.0, ge=1, le=3600)
    work_bytes: int = Field(default=1 << 30, ge=256 << 20)
    servers: tuple[KnownServer, ...] = Field(min_length=2, max_length=MAX_SERVERS)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len({server.url for server in self.servers}) < len(self.servers):
            raise ValueError("two servers have the same url")
        for server in self.servers:
            if server.identity_key is None and not self.trust_on_first_use:
                raise ValueError(
                    f"server {server.url} has no identity_key; write down the one its operator told you, "
                    "or set trust_on_first_use = true to believe whoever answers first"
                )
        return self

    @property
    def key_folder(self) -> Path:
        """Return the folder of the private keys, and of the file that says whom to trust."""
        return self.key_dir or self.data_dir / "keys"

    def known_token_hashes(self) -> tuple[str, ...]:
        """Return the hashes of all valid tokens: those of the settings, and those of the file.

        Raises InvalidSettingsError if the file holds something else.
        """
        path = self.token_hashes_file
        if path is None or not path.exists():
            return self.token_hashes
        more = path.read_text("utf-8", errors="replace").split()
        if not all(len(word) == 64 and set(word) <= set("0123456789abcdef") for word in more):
            raise InvalidSettingsError(f"{path}: expected a SHA-256 in hex on every line")
        return (*self.token_hashes, *more)
