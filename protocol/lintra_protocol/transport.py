"""What HTTP requests between the parties look like: media types, and the analyzer's signature on its requests."""

from collections.abc import Mapping
from typing import Literal

from lintra_protocol.canonical import base64url, domain_hash, parse_base64url
from lintra_protocol.errors import UnauthorizedError, UnsupportedMediaTypeError
from lintra_protocol.signing import SigningKey, verify

REPLAY_WINDOW = 300
"""Seconds that a signed request may be off the receiver's clock; a nonce is refused twice within them."""

DATE_HEADER = "lintra-date"
NONCE_HEADER = "lintra-nonce"
SIGNATURE_HEADER = "lintra-signature"

MessageName = Literal[
    "keys", "task", "reports", "upload-answer", "batches", "inventory", "ids", "cohort-request", "cohort",
    "aggregate-request", "sketch-share", "inclusion", "counters",
]  # fmt: skip
_BINARY = {"reports", "ids", "sketch-share"}


def media_type(name: MessageName) -> str:
    """Return the media type of a message, which carries the protocol's version and the message's name."""
    encoding = "octets" if name in _BINARY else "json"
    return f"application/vnd.lintra.v1+{encoding}; message={name}"


def require_media_type(content_type: str | None, name: MessageName) -> None:
    """Check the content type of a body.

    Raises:
        UnsupportedMediaTypeError: it is another, or none.
    """
    if content_type is None or content_type.replace(" ", "") != media_type(name).replace(" ", ""):
        raise UnsupportedMediaTypeError(f"expected {media_type(name)}, got {content_type or 'none'}")


def sign_request(key: SigningKey, method: str, path: str, body: bytes, now: int, nonce: bytes) -> dict[str, str]:
    """Return the headers that prove who sends a request.

    Args:
        key: the sender's identity.
        method: in upper case.
        path: from the server's root, without query.
        body: the whole body, empty if none.
        now: seconds since the epoch.
        nonce: 16 random bytes.
    """
    signature = key.sign("request", *_signed_parts(method, path, body, str(now), base64url(nonce)))
    return {DATE_HEADER: str(now), NONCE_HEADER: base64url(nonce), SIGNATURE_HEADER: signature}


def verify_request(public_key: str, method: str, path: str, body: bytes, headers: Mapping[str, str], now: int) -> bytes:
    """Check the headers that `sign_request` made, and return the nonce.

    The caller refuses a nonce that it saw within the last two replay windows.

    Raises:
        UnauthorizedError: a header is missing, the date is out of the window, or the signature is another's.
        InvalidMessageError: a header is malformed.
    """
    try:
        date, nonce, signature = headers[DATE_HEADER], headers[NONCE_HEADER], headers[SIGNATURE_HEADER]
    except KeyError as missing:
        raise UnauthorizedError(f"the request has no {missing.args[0]} header") from None
    if not date.isascii() or not date.isdigit() or len(date) > 15 or abs(int(date) - now) > REPLAY_WINDOW:
        raise UnauthorizedError(f"the request's date is more than {REPLAY_WINDOW} s off; check the clocks")
    verify(public_key, signature, "request", *_signed_parts(method, path, body, date, nonce))
    return parse_base64url(nonce, 16)


def _signed_parts(method: str, path: str, body: bytes, date: str, nonce: str) -> tuple[bytes, ...]:
    return method.encode(), path.encode(), domain_hash("request body", body), date.encode(), nonce.encode()
