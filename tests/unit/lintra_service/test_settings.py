"""Settings of any service: one file, the environment before it, no secrets, and complaints that name the place."""

from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import SecretStr
from pydantic_settings import SettingsConfigDict

from lintra_service.settings import InvalidSettingsError, Port, Section, ServiceSettings


class Limits(Section):
    most: int = 10
    least: int = 1


class Example(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="LINTRA_EXAMPLE_")
    other_variables: ClassVar[frozenset[str]] = frozenset({"LINTRA_EXAMPLE_URL"})

    port: Port = 1000
    internal_port: Port = 1001
    password: SecretStr | None = None
    password_file: Path | None = None
    limits: Limits = Limits()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "example.toml"
    file.write_text('data_dir = "data"\npassword_file = "/secrets/password"\n[limits]\nmost = 5\n', "utf-8")
    return file


def test_relative_paths_start_at_the_file_and_absolute_ones_stay(path: Path) -> None:
    settings = Example.load(path)
    assert settings.data_dir == path.parent / "data"
    assert settings.password_file == Path("/secrets/password")


def test_the_environment_comes_before_the_file_key_by_key_also_inside_a_section(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINTRA_EXAMPLE_PORT", "2000")
    monkeypatch.setenv("LINTRA_EXAMPLE_LIMITS__LEAST", "3")
    monkeypatch.setenv("LINTRA_EXAMPLE_LOG_LEVEL", "")
    monkeypatch.setenv("LINTRA_EXAMPLE_URL", "http://elsewhere")
    settings = Example.load(path)
    assert (settings.port, settings.limits, settings.log_level) == (2000, Limits(most=5, least=3), "info")


def test_a_secret_comes_from_the_environment_shows_in_no_repr_and_is_refused_in_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINTRA_EXAMPLE_PASSWORD", "hush")
    settings = Example.load(path)
    assert settings.password is not None
    assert settings.password.get_secret_value() == "hush"
    assert "hush" not in repr(settings) + str(settings)
    path.write_text('data_dir = "data"\npassword = "hush"\n', "utf-8")
    with pytest.raises(
        InvalidSettingsError, match="never stands in the settings; set LINTRA_EXAMPLE_PASSWORD"
    ) as caught:
        Example.load(path)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value", "complaint"),
    [
        ("LINTRA_EXAMPLE_PROT", "1", "LINTRA_EXAMPLE_PROT, which is no setting"),
        ("LINTRA_EXAMPLE_PORT", "tcp://10.0.0.1:80", "LINTRA_EXAMPLE_PORT: port: "),
        ("LINTRA_EXAMPLE_LIMITS__MOST", "many", "LINTRA_EXAMPLE_LIMITS__MOST: limits.most: "),
        ("LINTRA_EXAMPLE_LIMITS", "{", "the environment: "),
        ("LINTRA_EXAMPLE_LIMITS__MOTS", "1", "limits.mots"),
    ],
)
def test_a_wrong_variable_is_named_and_its_value_is_not_shown(
    path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, complaint: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InvalidSettingsError) as caught:
        Example.load(path)
    assert complaint in str(caught.value)
    assert value not in str(caught.value) or len(value) == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("data_dir = ", "example.toml: "),
        ("", "example.toml: data_dir"),
        ('data_dir = "d"\nsurprise = 1', "surprise"),
        ('data_dir = "d"\nport = 7\ninternal_port = 7', "different ports"),
        ('data_dir = "d"\nlog_level = "loud"', "log_level"),
    ],
)
def test_a_wrong_line_is_named_with_its_file(path: Path, text: str, complaint: str) -> None:
    path.write_text(text, "utf-8")
    with pytest.raises(InvalidSettingsError, match=r"example\.toml: ") as caught:
        Example.load(path)
    assert complaint in str(caught.value)


def test_a_file_that_is_missing_or_no_text_is_named(path: Path) -> None:
    with pytest.raises(InvalidSettingsError, match=r"nowhere\.toml: No such file"):
        Example.load(path.with_name("nowhere.toml"))
    path.write_bytes(b"\xff")
    with pytest.raises(InvalidSettingsError, match=r"example\.toml: is no UTF-8"):
        Example.load(path)
