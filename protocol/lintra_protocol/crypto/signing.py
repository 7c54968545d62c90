"""Ed25519 identities and signatures. Each signature has a label, so that none can be taken for another statement.

Which signatures hold is fixed beyond RFC 8032, because libraries differ: S is below the group's order, key and R are
canonical and not of small order, and [S]B = R + [k]A, without a cofactor (docs/reference/protocol.md#signatures). Under
a key of small order one signature could hold for many messages, so no such key is anybody's identity.
"""

from collections.abc import Callable
from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from lintra_protocol.encoding.canonical import base64url, framed, parse_base64url
from lintra_protocol.errors import InvalidMessageError, UnauthorizedError

PUBLIC_KEY_BYTES = 32
SIGNATURE_BYTES = 64

_FIELD = 2**255 - 19
_ORDER_8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022
_SMALL_ORDER = (0, 1, _FIELD - 1, _ORDER_8, _FIELD - _ORDER_8)
"""The y of the eight points whose order divides 8: of order 4, 1, 2, 8 and 8."""

_BASE_BEGINS = b'"'
"""Framed parts begin with the protocol's name, so nothing that is signed here can pass for something else."""


class SigningKey:
    """An Ed25519 private key; its `repr` shows the public key only."""

    def __init__(self, private_bytes: bytes) -> None:
        """Load a key from its 32 private bytes; any 32 uniform bytes are a key."""
        self._key = Ed25519PrivateKey.from_private_bytes(private_bytes)
        self.private_bytes = private_bytes
        self.public_key = base64url(self._key.public_key().public_bytes_raw())

    @classmethod
    def generate(cls, random_bytes: Callable[[int], bytes]) -> "SigningKey":
        """Draw a new key."""
        return cls(random_bytes(32))

    def sign(self, label: str, *parts: bytes) -> str:
        """Sign the framed parts under a label; the signature is base64url."""
        return base64url(self._key.sign(framed(label, *parts)))

    def sign_base(self, base: bytes) -> bytes:
        """Sign the signature base of an HTTP message (RFC 9421); its first byte sets it apart from framed parts.

        Raises ValueError if it begins like something else, and could mean something else.
        """
        if not base.startswith(_BASE_BEGINS):
            raise ValueError("the signature base of an HTTP message begins with a quoted name")
        return self._key.sign(base)

    def __repr__(self) -> str:
        return f"SigningKey(public_key={self.public_key!r})"


def is_sound_point(encoded: bytes) -> bool:
    """Return whether 32 bytes may stand for a key or for R: y is canonical, and not that of a point of small order."""
    y = int.from_bytes(encoded, "little") & (1 << 255) - 1
    return y < _FIELD and y not in _SMALL_ORDER


def parse_public_key(public_key: str) -> bytes:
    """Return the 32 bytes of an identity key.

    Raises InvalidMessageError if it is not base64url of 32 bytes, not canonical, or a point of small order.
    """
    return _spelled(public_key)


def verify(public_key: str, signature: str, label: str, *parts: bytes) -> None:
    """Check a signature over the framed parts.

    Raises UnauthorizedError if it is not this key's signature of these parts under this label; InvalidMessageError if
    key or signature are not base64url of the right length, or the key is of small order.
    """
    key_bytes = _spelled(public_key)
    signature_bytes = parse_base64url(signature, SIGNATURE_BYTES)
    if not _fits(key_bytes, signature_bytes, framed(label, *parts)):
        raise UnauthorizedError(f"the {label!r} signature is not by {public_key}")


def verify_base(public_key: str, signature: bytes, base: bytes) -> None:
    """Check a signature over the signature base of an HTTP message.

    Raises UnauthorizedError if it is not this key's signature of this base; InvalidMessageError if the key is not
    base64url of the right length, or of small order.
    """
    if not base.startswith(_BASE_BEGINS) or not _fits(_spelled(public_key), signature, base):
        raise UnauthorizedError(f"the request's signature is not by {public_key}")


def _fits(public_key: bytes, signature: bytes, data: bytes) -> bool:
    if not is_sound_point(signature[: SIGNATURE_BYTES // 2]):
        return False
    try:
        _loaded(public_key).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=256)
def _spelled(public_key: str) -> bytes:
    key = parse_base64url(public_key, PUBLIC_KEY_BYTES)
    if not is_sound_point(key):
        raise InvalidMessageError("an identity key is a canonical point of Ed25519, and not of small order")
    return key


@lru_cache(maxsize=256)
def _loaded(public_key: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(public_key)
