"""Encryption at rest: AES-256-GCM under the storage root key, and under data keys that it wraps.

Every ciphertext is bound to a label and to what it belongs to, so that bytes moved within the database do not open.
Data that must be destroyed one day are wrapped under the root key together with a secret of their own: without the
secret, the root key and any copy of the database decrypt nothing.
"""

from collections.abc import Callable, Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from lintra_protocol.encoding.canonical import framed
from lintra_service.settings import InvalidSettingsError

KEY_BYTES = 32
NONCE_BYTES = 12


class Vault:
    """Wraps small secrets under the root key; its `repr` shows nothing."""

    def __init__(self, root_keys: Sequence[bytes], random_bytes: Callable[[int], bytes]) -> None:
        """Take the root keys: the first encrypts, all decrypt."""
        if not root_keys or any(len(key) != KEY_BYTES for key in root_keys):
            raise ValueError(f"a vault needs root keys of {KEY_BYTES} bytes each")
        self._keys = tuple(root_keys)
        self._roots = [AESGCM(key) for key in root_keys]
        self._random_bytes = random_bytes

    @property
    def is_changing(self) -> bool:
        """Return whether there is a later root key, under which something may still be."""
        return len(self._roots) > 1

    def wrap(self, secret: bytes, label: str, *parts: bytes) -> bytes:
        """Encrypt a secret, bound to a label and to what it belongs to."""
        nonce = self._random_bytes(NONCE_BYTES)
        return nonce + self._roots[0].encrypt(nonce, secret, framed(label, *parts))

    def unwrap(self, wrapped: bytes, label: str, *parts: bytes) -> bytes:
        """Decrypt what `wrap` encrypted under any of the root keys."""
        return self._open(wrapped, label, *parts)[1]

    def renewed(self, wrapped: bytes, label: str, *parts: bytes) -> bytes | None:
        """Return a secret wrapped under the first root key if it is under a later one, else None."""
        number, secret = self._open(wrapped, label, *parts)
        return self.wrap(secret, label, *parts) if number else None

    def _open(self, wrapped: bytes, label: str, *parts: bytes) -> tuple[int, bytes]:
        if not isinstance(wrapped, bytes) or len(wrapped) < NONCE_BYTES:
            raise InvalidSettingsError("a wrapped secret has another kind or length")  # a database holds anything
        for number, root in enumerate(self._roots):
            try:
                opened = root.decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], framed(label, *parts))
            except (InvalidTag, ValueError, TypeError):  # the latter two: it is too short, or no bytes at all
                continue
            return number, opened
        raise InvalidSettingsError("the storage root key is not the one this database was written with")


class BatchKey:
    """The keys of one batch, derived from the one in its file: whoever destroys that destroys every share under it.

    `payload_key` opens the payloads of the batch, for the processes of a release (see `batches.key_broker`), and for
    nobody else. `require_tag` takes the nonce and the tag that `tag` made, and what it is of; it raises `InvalidTag`.
    """

    def __init__(self, key: bytes, random_bytes: Callable[[int], bytes]) -> None:
        """Derive the keys for payloads, marks and nonces from a key of 32 bytes (HKDF-SHA256, RFC 5869)."""
        self.payload_key = derived(key, "payload")
        self.nonces = Vault([derived(key, "nonce")], random_bytes)
        self._payloads = PayloadKey(self.payload_key, random_bytes)
        self._marks = AESGCM(derived(key, "mark"))
        self.require_tag = self._marks.decrypt
        self._random_bytes = random_bytes

    def encrypt(self, payloads: bytes, mark: bytes) -> bytes:
        """Encrypt the payloads of a segment, bound to its mark."""
        return self._payloads.encrypt(payloads, mark)

    def decrypt(self, encrypted: bytes, mark: bytes) -> bytes:
        """Decrypt the payloads of a segment (see `PayloadKey.decrypt` for errors)."""
        return self._payloads.decrypt(encrypted, mark)

    def tag(self, what: bytes) -> bytes:
        """Return a nonce and the tag of some bytes under the key for marks, 28 bytes."""
        nonce = self._random_bytes(NONCE_BYTES)
        return nonce + self._marks.encrypt(nonce, b"", what)


class PayloadKey:
    """Encrypts and decrypts the payloads of one batch, and nothing else."""

    def __init__(self, key: bytes, random_bytes: Callable[[int], bytes]) -> None:
        """Load a key of 32 bytes."""
        self._cipher = AESGCM(key)
        self._random_bytes = random_bytes

    def encrypt(self, payloads: bytes, mark: bytes) -> bytes:
        """Encrypt the payloads of a segment, bound to its mark."""
        nonce = self._random_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, payloads, mark)

    def decrypt(self, encrypted: bytes, mark: bytes) -> bytes:
        """Decrypt the payloads of a segment."""
        view = memoryview(encrypted)
        return self._cipher.decrypt(view[:NONCE_BYTES], view[NONCE_BYTES:], mark)


def derived(key: bytes, purpose: str) -> bytes:
    """Return the key for one purpose that follows from another key, 32 bytes (HKDF-SHA256, RFC 5869)."""
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=framed(purpose)).derive(key)
