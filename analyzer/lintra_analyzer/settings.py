"""The analyzer's settings: one TOML file, read once; secrets come from the environment or from files only."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from lintra_protocol.documents import Key, first_complaint
from lintra_protocol.mechanisms.base import MAX_SERVERS
from lintra_protocol.task import Url

TOKEN_HASHES_VARIABLE = "LINTRA_ANALYZER_TOKEN_HASHES"
"""Hashes of bearer tokens, separated by commas, added to those of the file."""

TokenHash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Port = Annotated[int, Field(ge=1, le=65535)]
FilePath = Annotated[Path, Field(strict=False)]


class InvalidSettingsError(ValueError):
    """The settings do not fit together; the operator must change them."""


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class KnownServer(_Settings):
    """One server that tasks are registered with; without a key it is trusted on first use."""

    url: Url
    identity_key: Key | None = None


class Settings(_Settings):
    """Everything that differs between two installations of the analyzer; deploy/config/analyzer.toml explains it."""

    host: str = "127.0.0.1"
    port: Port = 8700
    internal_host: str = "127.0.0.1"
    internal_port: Port = 8701
    data_dir: FilePath
    create_keys: bool = False
    trust_on_first_use: bool = False
    token_hashes: Annotated[tuple[TokenHash, ...], Field(strict=False)] = ()
    token_hashes_file: FilePath | None = None
    server_attempts: int = Field(default=8, ge=1, le=1000)
    server_timeout_seconds: float = Field(default=60.0, gt=0, le=3600)
    retry_seconds: float = Field(default=1.0, ge=0, le=3600)
    retry_seconds_max: float = Field(default=30.0, ge=0, le=3600)
    max_body_bytes: int = Field(default=4_194_304, ge=1024)
    log_format: Literal["json", "console"] = "json"
    servers: Annotated[tuple[KnownServer, ...], Field(strict=False, min_length=2, max_length=MAX_SERVERS)]

    @model_validator(mode="after")
    def _consistent(self) -> "Settings":
        if (self.host, self.port) == (self.internal_host, self.internal_port):
            raise ValueError("the public and the internal listener need different ports")
        if len({server.url for server in self.servers}) < len(self.servers):
            raise ValueError("two servers have the same url")
        for server in self.servers:
            if server.identity_key is None and not self.trust_on_first_use:
                raise ValueError(
                    f"server {server.url} has no identity_key; write down the one its operator told you, "
                    "or set trust_on_first_use = true to believe whoever answers first"
                )
        return self

    def placed(self, folder: Path) -> "Settings":
        """Return these settings with relative paths taken from `folder`."""
        hashes = self.token_hashes_file and folder / self.token_hashes_file
        return self.model_copy(update={"data_dir": folder / self.data_dir, "token_hashes_file": hashes})


def load_settings(path: Path, environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings and gather the token hashes from file and environment.

    Relative paths in the file are taken from its folder.

    Raises:
        InvalidSettingsError: unreadable, unknown keys or values that do not fit; the message names the key.
    """
    try:
        values = tomllib.loads(path.read_text("utf-8"))
        settings = Settings.model_validate(values).placed(path.parent)
        more = [*_hashes_of_file(settings), *_hashes_of_environment(os.environ if environment is None else environment)]
        return Settings.model_validate({**dict(settings), "token_hashes": [*settings.token_hashes, *more]})
    except OSError as error:
        raise InvalidSettingsError(f"{error.filename}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidSettingsError(f"{path}: {error}") from None
    except ValidationError as error:
        raise InvalidSettingsError(f"{path}: {first_complaint(error)}") from None


def _hashes_of_file(settings: Settings) -> list[str]:
    if settings.token_hashes_file is None or not settings.token_hashes_file.exists():
        return []
    return settings.token_hashes_file.read_text("ascii").split()


def _hashes_of_environment(environment: Mapping[str, str]) -> list[str]:
    return [part.strip() for part in environment.get(TOKEN_HASHES_VARIABLE, "").split(",") if part.strip()]
