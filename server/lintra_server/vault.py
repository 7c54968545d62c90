"""Encryption at rest: AES-256-GCM under the storage root key, and under data keys that it wraps.

Every ciphertext is bound to a label and to what it belongs to, so that bytes moved within the database do not open.
"""

from collections.abc import Callable, Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from lintra_protocol.canonical import framed

KEY_BYTES = 32
_NONCE_BYTES = 12


class Vault:
    """Wraps small secrets under the root key; its `repr` shows nothing."""

    def __init__(self, root_keys: Sequence[bytes], random_bytes: Callable[[int], bytes]) -> None:
        """Take the root keys: the first encrypts, all decrypt."""
        if not root_keys or any(len(key) != KEY_BYTES for key in root_keys):
            raise ValueError(f"a vault needs root keys of {KEY_BYTES} bytes each")
        self._roots = [AESGCM(key) for key in root_keys]
        self._random_bytes = random_bytes

    def wrap(self, secret: bytes, label: str, *parts: bytes) -> bytes:
        """Encrypt a secret, bound to a label and to what it belongs to."""
        nonce = self._random_bytes(_NONCE_BYTES)
        return nonce + self._roots[0].encrypt(nonce, secret, framed(label, *parts))

    def unwrap(self, wrapped: bytes, label: str, *parts: bytes) -> bytes:
        """Decrypt what `wrap` encrypted under any of the root keys.

        Raises:
            ValueError: none of them fits: this database belongs to another root key.
        """
        for root in self._roots:
            try:
                return root.decrypt(wrapped[:_NONCE_BYTES], wrapped[_NONCE_BYTES:], framed(label, *parts))
            except InvalidTag:
                continue
        raise ValueError("the storage root key is not the one this database was written with")


class DataKey:
    """The key of one batch: whoever destroys its wrapped form destroys every share stored under it."""

    def __init__(self, key: bytes, random_bytes: Callable[[int], bytes]) -> None:
        """Load a key of 32 bytes."""
        self._cipher = AESGCM(key)
        self._random_bytes = random_bytes

    def encrypt(self, segment: bytes, number: int) -> bytes:
        """Encrypt one segment of payloads."""
        nonce = self._random_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, segment, _context(number))

    def decrypt(self, encrypted: bytes, number: int) -> bytes:
        """Decrypt one segment.

        Raises:
            InvalidTag: the bytes were changed, or belong to another segment or batch.
        """
        view = memoryview(encrypted)
        return self._cipher.decrypt(view[:_NONCE_BYTES], view[_NONCE_BYTES:], _context(number))


def _context(number: int) -> bytes:
    return framed("segment", number.to_bytes(8, "big"))
