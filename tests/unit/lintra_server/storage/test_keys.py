"""Keys are made in time, offered while active, kept for those who remember them, and then destroyed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lintra_protocol.canonical import base64url, parse_base64url
from lintra_protocol.errors import OutdatedKeyError
from lintra_protocol.messages import KeyList, SealingKeyEntry, Signed
from lintra_protocol.randomness import system_randomness
from lintra_protocol.sealing import CLASSICAL, HYBRID
from lintra_protocol.signing import SigningKey
from lintra_server.clock import SETTLING_SECONDS
from lintra_server.disk.batch_secrets import Secrets
from lintra_server.disk.vault import Vault
from lintra_server.settings import Keys
from lintra_server.storage.database import Database
from lintra_server.storage.keys import CACHE_SECONDS, DAY, Keyring
from support.server_world import START, Clock, seeded

IDENTITY = SigningKey.generate(seeded("identity"))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "a.sqlite")
    yield database
    database.close()


def secrets(database: Database) -> Secrets:
    return Secrets(database.path.with_name("secrets"), system_randomness)


def keyring(database: Database, clock: Clock, label: str = "keys") -> Keyring:
    vault = Vault([bytes(32)], seeded(f"{label} vault"))
    suites = (HYBRID, CLASSICAL)
    return Keyring(database, vault, secrets(database), IDENTITY, suites, Keys(), seeded(label), clock, clock)


def offered(ring: Keyring) -> tuple[SealingKeyEntry, ...]:
    return Signed[KeyList].from_canonical(ring.signed_list).verified(IDENTITY.public_key).keys


def key_id(entry: SealingKeyEntry) -> bytes:
    return parse_base64url(entry.key_id)


def test_a_key_for_every_suite_is_offered_the_stronger_first(database: Database) -> None:
    ring = keyring(database, Clock())
    entries = offered(ring)
    assert [entry.suite for entry in entries] == [HYBRID, CLASSICAL]
    for entry in entries:
        assert base64url(ring.find(key_id(entry)).public_bytes) == entry.public_key
        assert (entry.valid_from, entry.valid_until) == (START, START + 28 * DAY)


def test_a_server_started_again_has_the_same_keys(database: Database) -> None:
    clock = Clock()
    assert offered(keyring(database, clock, "first")) == offered(keyring(database, clock, "second"))


def test_the_life_of_a_key(database: Database) -> None:
    clock = Clock()
    ring = keyring(database, clock)
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


def test_a_key_that_another_process_made_is_found(database: Database) -> None:
    clock = Clock()
    one, other = keyring(database, clock), keyring(database, clock, "other")
    clock.seconds += 22 * DAY
    other.maintain()
    assert one.find(key_id(offered(other)[0])).suite == HYBRID


def test_an_unknown_key_costs_one_query_a_second_at_most(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    ring = keyring(database, clock)
    clock.seconds += 5
    loads = []
    load = ring._load
    monkeypatch.setattr(ring, "_load", lambda: (loads.append(1), load()))
    for _ in range(100):
        with pytest.raises(OutdatedKeyError):
            ring.find(bytes(8))
    assert len(loads) == 1


def test_a_server_without_a_valid_key_knows_it(database: Database) -> None:
    clock = Clock()
    ring = keyring(database, clock)
    assert ring.has_active()
    clock.seconds += 29 * DAY
    assert not ring.has_active()


def test_the_wrong_root_key_is_noticed_at_once(database: Database) -> None:
    keyring(database, Clock())
    vault, clock = Vault([b"2" * 32], bytes), Clock()
    with pytest.raises(ValueError, match="root key"):
        Keyring(database, vault, secrets(database), IDENTITY, (HYBRID,), Keys(), seeded("x"), clock, clock)
