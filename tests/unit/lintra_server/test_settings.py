"""Settings: one file, no unknown keys, and secrets that only their owner can read."""

from pathlib import Path

import pytest

from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.encoding.canonical import base64url
from lintra_server.settings import Settings
from lintra_service.settings import InvalidSettingsError
from support.server_world import seeded

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "deploy/config/server.toml"


def written(folder: Path, text: str) -> Path:
    path = folder / "server.toml"
    path.write_text('public_url = "http://a.example"\n' + text, "utf-8")
    return path


def test_the_example_shows_the_defaults() -> None:
    example = Settings.load(EXAMPLE)
    defaults = Settings(public_url=example.public_url, create_keys=True).placed(EXAMPLE.parent)
    assert example == defaults


def test_the_example_in_the_package_is_the_one_in_deploy() -> None:
    packaged = ROOT / "server/lintra_server/example.toml"
    assert packaged.read_text("utf-8") == EXAMPLE.read_text("utf-8")


def test_every_setting_stands_in_the_example() -> None:
    text = EXAMPLE.read_text("utf-8")
    settings = Settings.load(EXAMPLE)
    for section in (settings, settings.policy, settings.queue, settings.keys):
        for name in type(section).model_fields:
            assert name in text


@pytest.mark.parametrize(
    "text",
    [
        "prot = 1",
        "[policy]\nmin_client = 5",
        "port = 70000",
        "port = ",
        "[policy]\nallowed_suites = []",
        '[policy]\nallowed_suites = ["none"]',
        "[policy]\nmax_epsilon = 0",
        "[keys]\ngrace_days = 1",
        'identity_key = "secret"',
    ],
)
def test_a_wrong_or_unknown_setting_is_refused_by_name(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"server\.toml: "):
        Settings.load(written(tmp_path, text))


def test_paths_are_taken_from_the_folder_of_the_file(tmp_path: Path) -> None:
    settings = Settings.load(written(tmp_path, 'data_dir = "data"\nidentity_key_file = "keys/me"'))
    assert settings.data_dir == tmp_path / "data"
    assert settings.identity_key_file == tmp_path / "keys/me"
    assert settings.storage_root_key_file == tmp_path / "server-keys/storage-root.key"


def test_a_key_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    settings = Settings.load(written(tmp_path, 'key_dir = "keys"\ncreate_keys = true'))
    key = settings.signing_key(seeded("first"))
    path = tmp_path / "keys/identity.key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert settings.signing_key(seeded("second")).public_key == key.public_key


def test_no_key_is_made_unless_that_is_allowed(tmp_path: Path) -> None:
    settings = Settings.load(written(tmp_path, 'key_dir = "keys"'))
    with pytest.raises(ValueError, match="create_keys"):
        settings.signing_key(seeded("first"))
    assert not (tmp_path / "keys").exists()


def test_the_environment_comes_before_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "create_keys = true")
    secret, old = seeded("secret")(32), seeded("old")(32)
    monkeypatch.setenv("LINTRA_SERVER_IDENTITY_KEY", base64url(secret))
    monkeypatch.setenv("LINTRA_SERVER_STORAGE_ROOT_KEY", f"{base64url(secret)},{base64url(old)}")
    settings = Settings.load(path)
    assert base64url(secret) not in repr(settings)
    assert settings.signing_key(seeded("unused")).public_key == SigningKey(secret).public_key
    assert settings.storage_root_keys(seeded("unused")) == [secret, old]
    monkeypatch.setenv("LINTRA_SERVER_IDENTITY_KEY", "short")
    with pytest.raises(InvalidSettingsError, match="LINTRA_SERVER_IDENTITY_KEY does not hold 32 bytes"):
        Settings.load(path).signing_key(seeded("unused"))
