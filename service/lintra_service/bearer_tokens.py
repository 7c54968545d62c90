"""Authenticates analysts by an opaque bearer token, of which only the hash is kept."""

import hashlib

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import UnauthorizedError

_TOKEN_BYTES = 32
_PREFIX = "lintra_"


def new_token(random_bytes: RandomBytes) -> str:
    """Draw a token: 256 random bits, so that its plain hash tells nothing about it."""
    return _PREFIX + base64url(random_bytes(_TOKEN_BYTES))


def token_hash(token: str) -> str:
    """Return the SHA-256 of a token in hex."""
    return hashlib.sha256(token.encode()).hexdigest()


def bearer_of(authorization: str | None) -> str:
    """Return the token in an Authorization header; raise UnauthorizedError if there is none."""
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise UnauthorizedError("send the header Authorization: Bearer TOKEN")
    return token.strip()
