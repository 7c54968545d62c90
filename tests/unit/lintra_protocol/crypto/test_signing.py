"""Identities and labels."""

import pytest

from lintra_protocol.crypto.signing import SigningKey, verify
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import InvalidMessageError, UnauthorizedError
from support import identity, source

KEY = identity("server 0")
SIGNATURE = KEY.sign("label", b"a", b"b")


def test_a_signature_holds_for_its_key_label_and_parts() -> None:
    verify(KEY.public_key, SIGNATURE, "label", b"a", b"b")


def test_a_signature_holds_for_nothing_else() -> None:
    other = identity("server 1").public_key
    for key, label, parts in (
        (other, "label", (b"a", b"b")), (KEY.public_key, "other", (b"a", b"b")), (KEY.public_key, "label", (b"ab",)),
        (KEY.public_key, "label", (b"a",)), (KEY.public_key, "label", (b"b", b"a")),
    ):  # fmt: skip
        with pytest.raises(UnauthorizedError):
            verify(key, SIGNATURE, label, *parts)


@pytest.mark.parametrize("signature", ["", "AAAA", SIGNATURE + "A", SIGNATURE + "==", "é" * 86])
def test_a_signature_of_another_form_is_malformed(signature: str) -> None:
    with pytest.raises(InvalidMessageError):
        verify(KEY.public_key, signature, "label")


def test_bytes_that_are_no_key_sign_nothing() -> None:
    """Beyond the field and of small order they are refused as keys; a y without a point verifies nothing."""
    for key, refusal in (("_" * 42 + "8", InvalidMessageError), ("A" * 43, InvalidMessageError),
                         (base64url(b"\x02" + bytes(31)), UnauthorizedError)):  # fmt: skip
        with pytest.raises(refusal):
            verify(key, SIGNATURE, "label", b"a", b"b")


def test_a_key_shows_its_public_part_only() -> None:
    key = SigningKey.generate(source("key"))
    assert repr(key) == f"SigningKey(public_key={key.public_key!r})"
    assert key.private_bytes == source("key")(32)


def test_a_private_key_of_another_length_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="32"):
        SigningKey(bytes(31))
