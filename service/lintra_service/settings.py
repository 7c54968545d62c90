"""Settings of a service: one TOML file, overridden by the environment; secrets stand in neither of them but by name.

A variable is the service's prefix and the key in capitals; `__` leads into a section, so that
`LINTRA_SERVER_POLICY__MAX_EPSILON=3` is `max_epsilon = 3` under `[policy]`. A key that nobody knows is refused in
both places, since a misspelled limit would otherwise silently be no limit.
"""

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, IPvAnyNetwork, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from lintra_protocol.encoding.documents import first_complaint

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["json", "console"]
Port = Annotated[int, Field(ge=0, le=65_535)]


class InvalidSettingsError(ValueError):
    """The service cannot start like this: its settings, keys or data do not fit; the operator must change them."""


class Section(BaseModel):
    """A group of settings, a table of the TOML file."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ServiceSettings(BaseSettings):
    """What the settings of every service have in common.

    Attributes:
        host: address of the public listener.
        port: of the public listener; 0 takes a free one.
        internal_host: address of the operator's listener, for health and metrics.
        internal_port: of the operator's listener; never the public one.
        data_dir: where the service keeps what it stores.
        create_keys: whether missing keys are drawn at the first start.
        max_connections: to the public listener; the limit of the reverse proxy before it is lower.
        trusted_proxies: addresses of reverse proxies (networks), whose word about a sender's address is believed.
        min_free_bytes: on the disks that the service writes to; with less it is not ready and takes no uploads.
        log_level: the least important lines that are written.
        log_format: `json` for machines, `console` for people.
    """

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_nested_delimiter="__", env_ignore_empty=True)

    other_variables: ClassVar[frozenset[str]] = frozenset()
    """Variables with the service's prefix that are no settings."""

    host: str = "127.0.0.1"
    port: Port
    internal_host: str = "127.0.0.1"
    internal_port: Port
    data_dir: Path
    create_keys: bool = False
    max_connections: int = Field(default=1000, ge=10, le=100_000)
    trusted_proxies: tuple[IPvAnyNetwork, ...] = ()
    min_free_bytes: int = Field(default=256 << 20, ge=0)
    log_level: LogLevel = "info"
    log_format: LogFormat = "json"

    @model_validator(mode="after")
    def _two_listeners(self) -> Self:
        if self.port and (self.host, self.port) == (self.internal_host, self.internal_port):
            raise ValueError("port and internal_port: the public and the internal listener need different ports")
        return self

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource, dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:  # fmt: skip
        """Let the environment override what the file says; nothing else is read."""
        return env_settings, init_settings

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a TOML file and the environment; relative paths are taken from the file's folder.

        Raises InvalidSettingsError if the file is unreadable, not TOML, or not these settings; the message names the
        file or the variable, and the key, never a value.
        """
        try:
            values = tomllib.loads(path.read_text("utf-8"))
            cls._refuse_unknown_variables()
            cls._refuse_secrets(values)
            return cls(**values).placed(path.parent)
        except OSError as error:
            raise InvalidSettingsError(f"{path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InvalidSettingsError(f"{path}: is no UTF-8") from None
        except ValidationError as error:
            raise InvalidSettingsError(f"{cls._origin(error, path)}: {first_complaint(error)}") from None
        except InvalidSettingsError as error:
            raise InvalidSettingsError(f"{path}: {error}") from None
        except SettingsError as error:
            raise InvalidSettingsError(f"the environment: {error}") from None
        except tomllib.TOMLDecodeError as error:
            raise InvalidSettingsError(f"{path}: {error}") from None

    def placed(self, folder: Path) -> Self:
        """Return these settings with relative paths taken from `folder`."""
        paths = {name: folder / value for name, value in self if isinstance(value, Path)}
        return self.model_copy(update=paths)

    @classmethod
    def variable(cls, name: str) -> str:
        """Return the environment's name of a setting."""
        return f"{cls.model_config['env_prefix']}{name.upper()}"

    @classmethod
    def _refuse_unknown_variables(cls) -> None:
        prefix = cls.model_config["env_prefix"]
        for variable in sorted(os.environ):
            name = variable.removeprefix(prefix).partition("__")[0].lower()
            if variable.startswith(prefix) and variable not in cls.other_variables and name not in cls.model_fields:
                raise InvalidSettingsError(f"the environment sets {variable}, which is no setting")

    @classmethod
    def _refuse_secrets(cls, values: dict[str, Any]) -> None:
        for name, field in cls.model_fields.items():
            if name in values and field.annotation == (SecretStr | None):
                raise InvalidSettingsError(
                    f"{name}: a secret never stands in the settings; set {cls.variable(name)}, or name its file"
                )

    @classmethod
    def _origin(cls, error: ValidationError, path: Path) -> str:
        """Return where the first complaint's value came from."""
        names = [str(part) for part in error.errors(include_input=False)[0]["loc"]]
        variables = ["__".join(names[:depth]) for depth in range(1, len(names) + 1)]
        return next((v for v in map(cls.variable, variables) if os.environ.get(v)), str(path))
