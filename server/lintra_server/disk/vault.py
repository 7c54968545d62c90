"""Encryption at rest: AES-256-GCM under the storage root key, and under data keys that it wraps.

Every ciphertext is bound to a label and to what it belongs to, so that bytes moved within the database do not open.
What must be destroyed one day is wrapped under the root key and a secret of its own together: without the secret, the
root key and any copy of the database open nothing.
"""

from collections.abc import Callable, Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from lintra_protocol.canonical import framed
from lintra_service.settings import InvalidSettingsError

KEY_BYTES = 32
_NONCE_BYTES = 12


class Vault:
    """Wraps small secrets under the root key; its `repr` shows nothing."""

    def __init__(self, root_keys: Sequence[bytes], random_bytes: Callable[[int], bytes]) -> None:
        """Take the root keys: the first encrypts, all decrypt."""
        if not root_keys or any(len(key) != KEY_BYTES for key in root_keys):
            raise ValueError(f"a vault needs root keys of {KEY_BYTES} bytes each")
        self._keys = tuple(root_keys)
        self._roots = [AESGCM(key) for key in root_keys]
        self._random_bytes = random_bytes

    def under(self, secret: bytes) -> "Vault":
        """Return a vault whose keys are HKDF-SHA256 of the root keys and a secret: both are needed to open."""
        keys = [HKDF(SHA256(), KEY_BYTES, salt=secret, info=framed("wrapping key")).derive(key) for key in self._keys]
        return Vault(keys, self._random_bytes)

    def wrap(self, secret: bytes, label: str, *parts: bytes) -> bytes:
        """Encrypt a secret, bound to a label and to what it belongs to."""
        nonce = self._random_bytes(_NONCE_BYTES)
        return nonce + self._roots[0].encrypt(nonce, secret, framed(label, *parts))

    def unwrap(self, wrapped: bytes, label: str, *parts: bytes) -> bytes:
        """Decrypt what `wrap` encrypted under any of the root keys.

        Raises:
            InvalidSettingsError: none of them fits: this database belongs to another root key.
        """
        return self._open(wrapped, label, *parts)[1]

    def renewed(self, wrapped: bytes, label: str, *parts: bytes) -> bytes | None:
        """Return a secret wrapped under the first root key if it is under a later one, else None.

        Raises:
            InvalidSettingsError: none of the root keys fits.
        """
        number, secret = self._open(wrapped, label, *parts)
        return self.wrap(secret, label, *parts) if number else None

    def _open(self, wrapped: bytes, label: str, *parts: bytes) -> tuple[int, bytes]:
        for number, root in enumerate(self._roots):
            try:
                opened = root.decrypt(wrapped[:_NONCE_BYTES], wrapped[_NONCE_BYTES:], framed(label, *parts))
            except InvalidTag:
                continue
            return number, opened
        raise InvalidSettingsError("the storage root key is not the one this database was written with")


class DataKey:
    """The key of one batch: whoever destroys its wrapped form destroys every share stored under it.

    Attributes:
        bare: the key itself, for the processes of a release (see `batches.key_door`), and for nobody else.
    """

    def __init__(self, key: bytes, random_bytes: Callable[[int], bytes]) -> None:
        """Load a key of 32 bytes."""
        self.bare = key
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


_SEGMENT = framed("segment", bytes(8))[:-8]


def _context(number: int) -> bytes:
    """Return `framed("segment", number as eight bytes)`."""
    return _SEGMENT + number.to_bytes(8, "big")
