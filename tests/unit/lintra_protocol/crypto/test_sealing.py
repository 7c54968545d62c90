"""Sealing to one recipient in one context."""

import pytest

from lintra_protocol.crypto.sealing import (
    CLASSICAL,
    HYBRID,
    OVERHEAD_BYTES,
    PRIVATE_KEY_BYTES,
    PUBLIC_KEY_BYTES,
    SealingKey,
    SuiteName,
    seal,
)
from lintra_protocol.errors import DecryptFailedError, InvalidMessageError
from support import sealing_key, source

every_suite = pytest.mark.parametrize("suite", [CLASSICAL, HYBRID])


@every_suite
@pytest.mark.parametrize("length", [0, 1, 1000])
def test_what_was_sealed_opens_and_is_longer_by_the_stated_overhead(suite: SuiteName, length: int) -> None:
    key = sealing_key("server 0", suite)
    sealed = seal(bytes(length), suite, key.public_bytes, b"context")
    assert len(sealed) == length + OVERHEAD_BYTES[suite]
    assert key.open(sealed, b"context") == bytes(length)
    assert key.open(memoryview(sealed), b"context") == bytes(length)


@every_suite
def test_it_opens_nowhere_else(suite: SuiteName) -> None:
    key = sealing_key("server 0", suite)
    sealed = seal(b"share", suite, key.public_bytes, b"context")
    changed = bytes([sealed[0] ^ 1]) + sealed[1:]
    for holder, data, info in (
        (sealing_key("server 1", suite), sealed, b"context"), (key, sealed, b"context "), (key, changed, b"context"),
        (key, sealed[:-1], b"context"), (key, sealed + b"\0", b"context"), (key, b"", b"context"),
    ):  # fmt: skip
        with pytest.raises(DecryptFailedError):
            holder.open(data, info)


@every_suite
def test_sealing_twice_gives_different_bytes(suite: SuiteName) -> None:
    public = sealing_key("server 0", suite).public_bytes
    assert seal(b"same", suite, public, b"") != seal(b"same", suite, public, b"")


@every_suite
def test_a_key_is_its_private_bytes(suite: SuiteName) -> None:
    key = SealingKey.generate(suite, source("key"))
    again = SealingKey(suite, key.private_bytes)
    assert len(key.private_bytes) == PRIVATE_KEY_BYTES[suite]
    assert len(key.public_bytes) == PUBLIC_KEY_BYTES[suite]
    assert again.open(seal(b"x", suite, key.public_bytes, b""), b"") == b"x"


@every_suite
def test_a_key_does_not_show_itself(suite: SuiteName) -> None:
    assert repr(sealing_key("server 0", suite)) == f"SealingKey({suite})"


@every_suite
def test_a_private_key_of_another_length_is_the_callers_mistake(suite: SuiteName) -> None:
    with pytest.raises(ValueError, match="private key has"):
        SealingKey(suite, bytes(33))


@every_suite
@pytest.mark.parametrize("length", [0, 31, 33, 1215])
def test_a_public_key_of_another_length_is_refused(suite: SuiteName, length: int) -> None:
    with pytest.raises(InvalidMessageError, match="public key has"):
        seal(b"", suite, bytes(length), b"")


def test_a_public_key_outside_the_field_is_refused() -> None:
    with pytest.raises(InvalidMessageError, match="not a mlkem768-x25519 public key"):
        seal(b"", HYBRID, b"\xff" * PUBLIC_KEY_BYTES[HYBRID], b"")


@pytest.mark.parametrize("point", [bytes(32), b"\x01" + bytes(31)])
def test_a_public_key_of_small_order_is_refused(point: bytes) -> None:
    hybrid = sealing_key("server 0", HYBRID).public_bytes[:-32] + point
    for suite, public in ((CLASSICAL, point), (HYBRID, hybrid)):
        with pytest.raises(InvalidMessageError, match="nothing can be sealed"):
            seal(b"", suite, public, b"")
