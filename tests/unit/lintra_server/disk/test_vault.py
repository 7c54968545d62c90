"""What is encrypted at rest opens under its own key, label and place only."""

import pytest
from cryptography.exceptions import InvalidTag

from lintra_server.disk.vault import DataKey, Vault
from support.server_world import seeded

OLD, NEW = bytes(32), b"1" * 32


def test_a_secret_opens_under_its_own_label_and_parts_only() -> None:
    vault = Vault([NEW], seeded("vault"))
    wrapped = vault.wrap(b"secret", "label", b"part")
    assert vault.unwrap(wrapped, "label", b"part") == b"secret"
    for label, part in (("label", b"other"), ("other", b"part")):
        with pytest.raises(ValueError, match="root key"):
            vault.unwrap(wrapped, label, part)


def test_the_first_root_key_encrypts_and_all_of_them_decrypt() -> None:
    wrapped = Vault([OLD], seeded("old")).wrap(b"secret", "label")
    both = Vault([NEW, OLD], seeded("both"))
    assert both.unwrap(wrapped, "label") == b"secret"
    assert Vault([NEW], seeded("new")).unwrap(both.wrap(b"secret", "label"), "label") == b"secret"
    with pytest.raises(ValueError, match="root key"):
        Vault([NEW], seeded("new")).unwrap(wrapped, "label")


@pytest.mark.parametrize("keys", [[], [b"short"]])
def test_a_vault_needs_whole_keys(keys: list[bytes]) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Vault(keys, seeded("none"))


def test_a_segment_opens_in_its_own_place_only() -> None:
    key = DataKey(OLD, seeded("segments"))
    encrypted = key.encrypt(b"payloads", 3)
    assert key.decrypt(encrypted, 3) == b"payloads"
    with pytest.raises(InvalidTag):
        key.decrypt(encrypted, 4)
    with pytest.raises(InvalidTag):
        key.decrypt(encrypted[:-1] + bytes([encrypted[-1] ^ 1]), 3)
    with pytest.raises(InvalidTag):
        DataKey(NEW, seeded("segments")).decrypt(encrypted, 3)
