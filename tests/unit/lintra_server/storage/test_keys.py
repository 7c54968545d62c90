"""Keys are made in time, offered while active, kept for those who remember them, and then destroyed."""

from pathlib import Path

import pytest

from lintra_protocol.crypto.sealing import CLASSICAL, HYBRID
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.encoding.canonical import base64url, parse_base64url
from lintra_protocol.errors import OutdatedKeyError
from lintra_protocol.messages.documents import KeyList, SealingKeyEntry, Signed
from lintra_server.clock import SETTLING_SECONDS
from lintra_server.durability.encryption_at_rest import Vault
from lintra_server.durability.key_files import KeyFiles
from lintra_server.settings import KeyPaths
from lintra_server.storage.keys import CACHE_SECONDS, DAY, Keyring
from support.server_world import START, Clock, seeded

IDENTITY = SigningKey.generate(seeded("identity"))


def keyring(folder: Path, clock: Clock, label: str = "keys", root: bytes = bytes(32)) -> Keyring:
    files = KeyFiles(folder / "sealing", Vault([root], seeded(f"{label} vault")), "sealing key")
    return Keyring(files, IDENTITY, (HYBRID, CLASSICAL), KeyPaths(), seeded(label), clock, clock)


def offered(ring: Keyring) -> tuple[SealingKeyEntry, ...]:
    return Signed[KeyList].from_canonical(ring.signed_list).verified(IDENTITY.public_key).keys


def key_id(entry: SealingKeyEntry) -> bytes:
    return parse_base64url(entry.key_id)


def test_a_key_for_every_suite_is_offered_the_stronger_first(tmp_path: Path) -> None:
    ring = keyring(tmp_path, Clock())
    entries = offered(ring)
    assert [entry.suite for entry in entries] == [HYBRID, CLASSICAL]
    for entry in entries:
        assert base64url(ring.find(key_id(entry)).public_bytes) == entry.public_key
        assert (entry.valid_from, entry.valid_until) == (START, START + 28 * DAY)


def test_a_server_started_again_has_the_same_keys(tmp_path: Path) -> None:
    clock = Clock()
    assert offered(keyring(tmp_path, clock, "first")) == offered(keyring(tmp_path, clock, "second"))


def test_the_life_of_a_key(tmp_path: Path) -> None:
    clock = Clock()
    ring = keyring(tmp_path, clock)
    first = offered(ring)[0]
    clock.seconds = START + 21 * DAY - 1
    ring.maintain()
    assert offered(ring)[0] == first
    clock.seconds = START + 21 * DAY
    ring.maintain()
    successor, second, *_ = offered(ring)
    assert second == first
    assert successor.valid_until == START + 49 * DAY
    clock.seconds = START + 28 * DAY
    ring.maintain()
    assert offered(ring)[0] == successor
    assert first not in offered(ring)
    clock.seconds = START + 28 * DAY + 2 * CACHE_SECONDS - 1
    ring.maintain()
    assert base64url(ring.find(key_id(first)).public_bytes) == first.public_key
    clock.seconds += 1
    ring.maintain()
    assert base64url(ring.find(key_id(first)).public_bytes) == first.public_key
    clock.seconds += SETTLING_SECONDS
    ring.maintain()
    with pytest.raises(OutdatedKeyError):
        ring.find(key_id(first))


def test_an_unknown_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutdatedKeyError):
        keyring(tmp_path, Clock()).find(bytes(8))


def test_a_key_whose_file_was_overwritten_is_gone_and_one_in_another_s_place_is_refused(tmp_path: Path) -> None:
    clock = Clock()
    first, second = offered(keyring(tmp_path, clock))
    files = {path.stem: path for path in (tmp_path / "sealing").iterdir()}
    place = files[key_id(second).hex()]
    place.write_bytes(bytes(place.stat().st_size))
    assert key_id(second) not in {key_id(entry) for entry in offered(keyring(tmp_path, clock, "again"))}
    place.write_bytes(files[key_id(first).hex()].read_bytes())
    with pytest.raises(ValueError, match="root key"):
        keyring(tmp_path, clock)


def test_a_server_without_a_valid_key_knows_it(tmp_path: Path) -> None:
    clock = Clock()
    ring = keyring(tmp_path, clock)
    assert ring.has_active()
    clock.seconds += 29 * DAY
    assert not ring.has_active()


def test_the_wrong_root_key_is_noticed_at_once(tmp_path: Path) -> None:
    keyring(tmp_path, Clock())
    with pytest.raises(ValueError, match="root key"):
        keyring(tmp_path, Clock(), root=b"2" * 32)
