"""Who may ask: analysts prove themselves with an opaque bearer token, of which only the hash is kept."""

import hashlib
import hmac
from collections.abc import Iterable

from lintra_protocol.canonical import base64url
from lintra_protocol.errors import UnauthorizedError
from lintra_protocol.randomness import RandomBytes

_TOKEN_BYTES = 32
_PREFIX = "lintra_"


def new_token(random_bytes: RandomBytes) -> str:
    """Draw a token: 256 random bits, so that its plain hash tells nothing about it."""
    return _PREFIX + base64url(random_bytes(_TOKEN_BYTES))


def token_hash(token: str) -> str:
    """Return the SHA-256 of a token in hex."""
    return hashlib.sha256(token.encode()).hexdigest()


def is_known(authorization: str | None, hashes: Iterable[str]) -> bool:
    """Return whether `require_token` lets somebody in."""
    try:
        require_token(authorization, hashes)
    except UnauthorizedError:
        return False
    return True


def require_token(authorization: str | None, hashes: Iterable[str]) -> None:
    """Check an Authorization header against the hashes of all valid tokens, in a time that tells nothing.

    Raises:
        UnauthorizedError: no bearer token, or an unknown one.
    """
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise UnauthorizedError("send the header Authorization: Bearer TOKEN")
    found = token_hash(token.strip())
    # All hashes are compared, whichever fits.
    if not sum(hmac.compare_digest(found, known) for known in hashes):
        raise UnauthorizedError("the token is unknown")
