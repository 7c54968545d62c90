"""Sealing bytes to one recipient: HPKE (RFC 9180), single shot, with a hybrid post-quantum KEM by default.

The library's call takes `info` and no associated data, so everything a message must be bound to goes into `info`.
A sealed message opens only in exactly the context that it was sealed for.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Literal, TypeAlias

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, MLKEM768X25519PrivateKey, MLKEM768X25519PublicKey
from cryptography.hazmat.primitives.hpke import Suite as HpkeSuite

from lintra_protocol.errors import DecryptFailedError, InvalidMessageError

SuiteName = Literal["mlkem768-x25519", "x25519"]
HYBRID: SuiteName = "mlkem768-x25519"
CLASSICAL: SuiteName = "x25519"

_PublicKey: TypeAlias = MLKEM768X25519PublicKey | X25519PublicKey
_PrivateKey: TypeAlias = MLKEM768X25519PrivateKey | X25519PrivateKey

_HPKE = {
    HYBRID: HpkeSuite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM),
    CLASSICAL: HpkeSuite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM),
}
_MLKEM_SEED_BYTES, _X25519_BYTES, _MLKEM_PUBLIC_BYTES = 64, 32, 1184

PRIVATE_KEY_BYTES = {HYBRID: _MLKEM_SEED_BYTES + _X25519_BYTES, CLASSICAL: _X25519_BYTES}
PUBLIC_KEY_BYTES = {HYBRID: _MLKEM_PUBLIC_BYTES + _X25519_BYTES, CLASSICAL: _X25519_BYTES}
OVERHEAD_BYTES = {HYBRID: 1136, CLASSICAL: 48}
"""How much longer a sealed message is than its plaintext."""


class SealingKey:
    """A recipient's private key; its `repr` does not show it."""

    def __init__(self, suite: SuiteName, private_bytes: bytes) -> None:
        """Load a key from `PRIVATE_KEY_BYTES[suite]` bytes, which are also how it is drawn: uniform bytes are a key."""
        if len(private_bytes) != PRIVATE_KEY_BYTES[suite]:
            raise ValueError(f"a {suite} private key has {PRIVATE_KEY_BYTES[suite]} bytes, got {len(private_bytes)}")
        self.suite = suite
        self.private_bytes = private_bytes
        self._key, self.public_bytes = _load_private(suite, private_bytes)

    @classmethod
    def generate(cls, suite: SuiteName, random_bytes: Callable[[int], bytes]) -> "SealingKey":
        """Draw a new key."""
        return cls(suite, random_bytes(PRIVATE_KEY_BYTES[suite]))

    def open(self, sealed: bytes | memoryview, info: bytes) -> bytes:
        """Open a message that was sealed to this key in the context `info`.

        Raises DecryptFailedError if the key or the context is another, or bytes were changed.
        """
        try:
            return _HPKE[self.suite].decrypt(bytes(sealed), self._key, info=info)
        except (InvalidTag, ValueError):
            raise DecryptFailedError from None

    def __repr__(self) -> str:
        return f"SealingKey({self.suite})"


def seal(plaintext: bytes, suite: SuiteName, public_key: bytes, info: bytes) -> bytes:
    """Seal bytes to a public key in the context `info`; the result is `OVERHEAD_BYTES[suite]` longer.

    Raises InvalidMessageError if the public key is not one of this suite.
    """
    key = _load_public(suite, public_key)
    try:
        return _HPKE[suite].encrypt(plaintext, key, info=info)
    except ValueError:
        # A point of small order loads like any other; the exchange with it is what fails.
        raise InvalidMessageError(f"nothing can be sealed to this {suite} public key") from None


@lru_cache(maxsize=256)
def _load_public(suite: SuiteName, public_key: bytes) -> _PublicKey:
    if len(public_key) != PUBLIC_KEY_BYTES[suite]:
        raise InvalidMessageError(f"a {suite} public key has {PUBLIC_KEY_BYTES[suite]} bytes, got {len(public_key)}")
    try:
        if suite == CLASSICAL:
            return X25519PublicKey.from_public_bytes(public_key)
        return MLKEM768X25519PublicKey(
            MLKEM768PublicKey.from_public_bytes(public_key[:_MLKEM_PUBLIC_BYTES]),
            X25519PublicKey.from_public_bytes(public_key[_MLKEM_PUBLIC_BYTES:]),
        )
    except ValueError:
        raise InvalidMessageError(f"not a {suite} public key") from None


def _load_private(suite: SuiteName, private_bytes: bytes) -> tuple[_PrivateKey, bytes]:
    x25519 = X25519PrivateKey.from_private_bytes(private_bytes[-_X25519_BYTES:])
    x25519_public = x25519.public_key().public_bytes_raw()
    if suite == CLASSICAL:
        return x25519, x25519_public
    mlkem = MLKEM768PrivateKey.from_seed_bytes(private_bytes[:_MLKEM_SEED_BYTES])
    return MLKEM768X25519PrivateKey(mlkem, x25519), mlkem.public_key().public_bytes_raw() + x25519_public
