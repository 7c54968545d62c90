"""What is encrypted at rest opens under its own key, label and place only."""

import hmac

import pytest
from cryptography.exceptions import InvalidTag

from lintra_server.durability.encryption_at_rest import BatchKey, PayloadKey, Vault, derived
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


def test_payloads_open_under_their_own_mark_and_key_only() -> None:
    key, mark = BatchKey(OLD, seeded("segments")), bytes(28)
    encrypted = key.encrypt(b"payloads", mark)
    assert key.decrypt(encrypted, mark) == b"payloads"
    assert PayloadKey(key.payload_key, seeded("worker")).decrypt(encrypted, mark) == b"payloads"
    with pytest.raises(InvalidTag):
        key.decrypt(encrypted, bytes(27) + b"1")
    with pytest.raises(InvalidTag):
        key.decrypt(encrypted[:-1] + bytes([encrypted[-1] ^ 1]), mark)
    with pytest.raises(InvalidTag):
        BatchKey(NEW, seeded("segments")).decrypt(encrypted, mark)


def test_a_tag_is_of_its_own_bytes_and_key_only() -> None:
    key = BatchKey(OLD, seeded("tags"))
    tag = key.tag(b"what")
    assert len(tag) == 28
    assert key.require_tag(tag[:12], tag[12:], b"what") == b""
    for other, changed, what in (
        (key, tag, b"other"),
        (key, tag[:-1] + bytes([tag[-1] ^ 1]), b"what"),
        (BatchKey(NEW, seeded("tags")), tag, b"what"),
    ):
        with pytest.raises(InvalidTag):
            other.require_tag(changed[:12], changed[12:], what)


def test_the_keys_of_a_batch_are_those_of_hkdf_for_their_purposes() -> None:
    # RFC 5869 written out: no salt is a salt of zeros, and 32 bytes are the first block.
    def expected(purpose: str) -> bytes:
        extracted = hmac.digest(bytes(32), OLD, "sha256")
        return hmac.digest(extracted, b"lintra/1 " + purpose.encode() + bytes(1) + b"\x01", "sha256")

    assert BatchKey(OLD, seeded("keys")).payload_key == expected("payload")
    assert derived(OLD, "mark") == expected("mark")
    assert derived(OLD, "nonce") == expected("nonce")
