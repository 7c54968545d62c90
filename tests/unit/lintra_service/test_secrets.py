"""Secrets in files: drawn once, readable by their owner only, never shown."""

from pathlib import Path

import pytest

from lintra_protocol.encoding.canonical import base64url
from lintra_service.secrets import parse_secrets, read_secret, write_secret
from lintra_service.settings import InvalidSettingsError
from support.server_world import seeded


def test_a_secret_is_drawn_once_if_that_is_allowed_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "one.key"
    with pytest.raises(InvalidSettingsError, match=r"one\.key is missing.*create_keys"):
        read_secret(path, 32, create=False, random_bytes=seeded("a"))
    assert not path.parent.exists()
    first = read_secret(path, 32, create=True, random_bytes=seeded("a"))
    assert read_secret(path, 32, create=True, random_bytes=seeded("b")) == first == [seeded("a")(32)]
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "one.key"
    write_secret(path, base64url(bytes(32)))
    for mode in (0o640, 0o604, 0o620):
        path.chmod(mode)
        with pytest.raises(InvalidSettingsError, match="set its mode to 0600"):
            read_secret(path, 32, create=False, random_bytes=seeded("a"))


def test_several_secrets_are_read_in_their_order_and_what_is_none_is_refused_unseen(tmp_path: Path) -> None:
    first, second = bytes(32), bytes([1]) * 32
    assert parse_secrets(f"{base64url(first)}, {base64url(second)}\n", 32, "here") == [first, second]
    for wrong in ("", "  ,", "d4maged", base64url(bytes(31)), f"{base64url(first)} d4maged"):
        with pytest.raises(InvalidSettingsError, match="here does not hold 32 bytes") as caught:
            parse_secrets(wrong, 32, "here")
        assert "d4maged" not in str(caught.value)
    path = tmp_path / "binary"
    path.touch(mode=0o600)
    path.write_bytes(b"\xff" * 43)
    with pytest.raises(InvalidSettingsError, match="binary does not hold"):
        read_secret(path, 32, create=False, random_bytes=seeded("a"))


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    write_secret(tmp_path / "one.key", "first")
    with pytest.raises(FileExistsError):
        write_secret(tmp_path / "one.key", "second")
    assert (tmp_path / "one.key").read_text() == "first\n"
