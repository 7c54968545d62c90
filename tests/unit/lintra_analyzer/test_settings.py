"""Settings and keys: one example that works, complaints that name the key, secrets that stay secret."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from lintra_analyzer.cli import app
from lintra_analyzer.settings import Settings
from lintra_analyzer.storage.keys import load_keys
from lintra_service.bearer_tokens import token_hash
from lintra_service.settings import InvalidSettingsError
from support.analyzer_world import seeded

EXAMPLE = Path(__file__).resolve().parents[3] / "deploy" / "config" / "analyzer.toml"
SERVERS = """
[[servers]]
url = "http://one.test"
identity_key = "AAAA"
[[servers]]
url = "http://two.test"
identity_key = "BBBB"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "analyzer.toml"
    path.write_text(text, "utf-8")
    return path


def test_the_example_is_valid_and_explains_every_setting() -> None:
    settings = Settings.load(EXAMPLE)
    assert len(settings.servers) == 3
    assert settings.host == settings.internal_host == "127.0.0.1"
    text = EXAMPLE.read_text("utf-8")
    assert not [name for name in Settings.model_fields if f"\n{name} = " not in text and f"[[{name}]]" not in text]


def test_the_example_in_the_package_is_the_one_in_deploy_and_is_printed_whole() -> None:
    packaged = EXAMPLE.parents[2] / "analyzer/lintra_analyzer/example.toml"
    assert packaged.read_text("utf-8") == EXAMPLE.read_text("utf-8")
    assert CliRunner().invoke(app, ["example-config"]).output == packaged.read_text("utf-8")


def test_the_example_states_the_defaults() -> None:
    settings = Settings.load(EXAMPLE)
    stated_otherwise = {"create_keys", "trust_on_first_use", "token_hashes_file", "key_dir"}
    for name, field in Settings.model_fields.items():
        if not field.is_required() and name not in stated_otherwise:
            assert getattr(settings, name) == field.default, name


def test_relative_paths_start_at_the_file(tmp_path: Path) -> None:
    settings = Settings.load(written(tmp_path, 'data_dir = "data"\ntoken_hashes_file = "h"' + SERVERS))
    assert (settings.data_dir, settings.token_hashes_file) == (tmp_path / "data", tmp_path / "h")


def test_token_hashes_come_from_a_file_and_from_the_settings_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (token_hash(name) for name in "abc")
    (tmp_path / "h").write_text(f"{second}\n")
    text = f'data_dir = "d"\ntoken_hashes = ["{first}"]\ntoken_hashes_file = "h"' + SERVERS
    path = written(tmp_path, text)
    assert Settings.load(path).known_token_hashes() == (first, second)
    monkeypatch.setenv("LINTRA_ANALYZER_TOKEN_HASHES", f" {third}, {first} ,")
    assert Settings.load(path).known_token_hashes() == (third, first, second)
    (tmp_path / "h").write_text("no hash\n")
    with pytest.raises(InvalidSettingsError, match="SHA-256"):
        Settings.load(path).known_token_hashes()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "data_dir"),
        ('data_dir = "d"\nsurprise = 1' + SERVERS, "surprise"),
        ('data_dir = "d"\nport = "eighty"' + SERVERS, "port"),
        ('data_dir = "d"\nport = 1\ninternal_port = 1' + SERVERS, "different ports"),
        ('data_dir = "d"\ntoken_hashes = ["secret"]' + SERVERS, "token_hashes.0"),
        ('data_dir = "d"' + SERVERS.replace("two", "one"), "same url"),
        ('data_dir = "d"' + SERVERS.replace('identity_key = "BBBB"', ""), "trust_on_first_use = true"),
        ('data_dir = "d"' + SERVERS.replace("http://one", "ftp://one"), "servers.0.url"),
        ('data_dir = "d"' + SERVERS.partition('\n[[servers]]\nurl = "http://two')[0], "servers"),
        ("data_dir = ", "Invalid value"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(InvalidSettingsError) as caught:
        Settings.load(written(tmp_path, text))
    assert complaint in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettingsError, match=r"nowhere\.toml"):
        Settings.load(tmp_path / "nowhere.toml")


# --- keys -----------------------------------------------------------------------------------------------------------


def test_keys_are_made_once_and_only_their_owner_can_read_them(tmp_path: Path) -> None:
    made = load_keys(tmp_path / "keys", create=True, random_bytes=seeded("keys"))
    again = load_keys(tmp_path / "keys", create=False, random_bytes=seeded("other"))
    assert made.public() == again.public()
    files = sorted(path.name for path in (tmp_path / "keys").iterdir())
    assert files == ["author.key", "identity.key", "sealing-mlkem768-x25519.key", "sealing-x25519.key", "tokens.key"]
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "keys").iterdir()} == {0o600}


def test_keys_are_not_made_unasked(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettingsError, match=r"identity\.key is missing"):
        load_keys(tmp_path, create=False, random_bytes=seeded("keys"))


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    load_keys(tmp_path, create=True, random_bytes=seeded("keys"))
    (tmp_path / "author.key").chmod(0o640)
    with pytest.raises(InvalidSettingsError, match="0600"):
        load_keys(tmp_path, create=True, random_bytes=seeded("keys"))


def test_a_damaged_key_is_refused_without_showing_it(tmp_path: Path) -> None:
    load_keys(tmp_path, create=True, random_bytes=seeded("keys"))
    (tmp_path / "author.key").write_text("d4maged")
    with pytest.raises(InvalidSettingsError) as caught:
        load_keys(tmp_path, create=True, random_bytes=seeded("keys"))
    assert "d4maged" not in str(caught.value)


def test_no_private_key_shows_in_a_repr(tmp_path: Path) -> None:
    keys = load_keys(tmp_path, create=True, random_bytes=seeded("keys"))
    for path in tmp_path.iterdir():
        assert path.read_text().strip() not in repr(keys)


# --- tokens ---------------------------------------------------------------------------------------------------------
