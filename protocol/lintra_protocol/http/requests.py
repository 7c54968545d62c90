"""HTTP requests between the parties: media types, and the analyzer's signature on its requests."""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from lintra_protocol.crypto.signing import SigningKey, verify_base
from lintra_protocol.encoding.canonical import base64url, parse_base64url
from lintra_protocol.errors import InvalidMessageError, UnauthorizedError, UnsupportedMediaTypeError
from lintra_protocol.http.signature import (
    DIGEST_HEADER,
    INPUT_HEADER,
    SIGNATURE_HEADER,
    content_digest,
    parse_signature,
    require_digest,
    require_sha256,
    signature_base,
    signature_parameters,
)

REPLAY_WINDOW = 300
"""Seconds that a signed request may be off the receiver's clock; a nonce is refused twice within them."""

COVERED = ("@method", "@target-uri", DIGEST_HEADER)
"""What a signature covers: which server is asked for what, and with which body."""

SIGNATURE_TAG = "lintra/1"
NONCE_BYTES = 16
_LABEL = "lintra"

MessageName = Literal[
    "keys", "task", "reports", "upload-answer", "batches", "inventory", "ids", "cohort-request", "cohort",
    "aggregate-request", "sketch-share", "inclusion", "absence", "counters",
    "registration", "census", "progress", "piece",
    "checks-request", "check-share", "checks", "verdict-request", "verdict", "verified-aggregate-request", "judged",
]  # fmt: skip
_BINARY = {"reports", "ids", "sketch-share", "piece", "checks", "verdict-request"}


def media_type(name: MessageName) -> str:
    """Return the media type of a message, which carries the protocol's version and the message's name."""
    encoding = "octets" if name in _BINARY else "json"
    return f"application/vnd.lintra.v1+{encoding}; message={name}"


def require_media_type(content_type: str | None, name: MessageName) -> None:
    """Check the content type of a body; raise UnsupportedMediaTypeError if it is another, or none."""
    if content_type is None or content_type.replace(" ", "") != media_type(name).replace(" ", ""):
        raise UnsupportedMediaTypeError(f"expected {media_type(name)}, got {content_type or 'none'}")


@dataclass(frozen=True)
class SignedRequest:
    """What a verified signature says before the body is read; `digest` is the header that the body must fit."""

    nonce: bytes
    digest: str

    def require_body(self, body: bytes) -> None:
        """Check that a body is the one that was signed; raise UnauthorizedError if it is another."""
        require_digest(body, self.digest)

    def require_sha256(self, sha256: bytes) -> None:
        """Check the SHA-256 of a body that came in pieces (see `require_body`)."""
        require_sha256(sha256, self.digest)


def sign_request(
    key: SigningKey, method: str, url: str, body: bytes | Iterable[bytes], now: int, nonce: bytes
) -> dict[str, str]:
    """Return the headers that prove who sends a request (RFC 9421 with Ed25519).

    `key` is the sender's identity; `method` is in upper case. `url` is that of the request, whole: the server's, as the
    task names it, and the path; with the query, if there is one. `body` is the whole body, or its pieces; empty if
    none. `nonce` is 16 random bytes.
    """
    digest = content_digest(body)
    written: dict[str, str | int] = {
        "created": now, "nonce": base64url(nonce), "keyid": key.public_key, "tag": SIGNATURE_TAG
    }  # fmt: skip
    parameters = signature_parameters(COVERED, written)
    signature = key.sign_base(signature_base(_covered(method, url, digest), parameters))
    return {
        DIGEST_HEADER: digest,
        INPUT_HEADER: f"{_LABEL}={parameters}",
        SIGNATURE_HEADER: f"{_LABEL}=:{b64encode(signature).decode('ascii')}:",
    }


def verify_request(public_key: str, method: str, url: str, headers: Mapping[str, str], now: int) -> SignedRequest:
    """Check the headers that `sign_request` made; nothing of the body is needed yet.

    The caller refuses a nonce that it saw within the last two replay windows, and a body that is not the signed one
    (`SignedRequest.require_body`). Raises UnauthorizedError if a header is missing, the time is out of the window, or
    the signature is another's or covers something else; InvalidMessageError if a header is malformed.
    """
    found = parse_signature(headers)
    digest = headers.get(DIGEST_HEADER)
    if digest is None:
        raise UnauthorizedError(f"the request has no {DIGEST_HEADER} header")
    if found.components != COVERED:
        raise UnauthorizedError(f"the signature must cover {', '.join(COVERED)}, in this order")
    # Libraries like to name the algorithm, although the key implies it.
    said = {"alg": "ed25519"} | found.parameters
    created, nonce = said.pop("created", None), said.pop("nonce", None)
    if said != {"alg": "ed25519", "keyid": public_key, "tag": SIGNATURE_TAG}:
        raise UnauthorizedError(f"expected a signature with keyid {public_key} and tag {SIGNATURE_TAG}, no other words")
    if not isinstance(created, int) or abs(created - now) > REPLAY_WINDOW:
        raise UnauthorizedError(f"the request was made more than {REPLAY_WINDOW} s ago or ahead; check the clocks")
    if not isinstance(nonce, str):
        raise UnauthorizedError("the signature has no nonce")
    try:
        base = signature_base(_covered(method, url, digest), found.serialised)
    except ValueError as error:
        raise InvalidMessageError(str(error)) from None
    verify_base(public_key, found.signature, base)
    return SignedRequest(parse_base64url(nonce, NONCE_BYTES), digest)


def _covered(method: str, url: str, digest: str) -> list[tuple[str, str]]:
    return list(zip(COVERED, (method, url, digest), strict=True))
