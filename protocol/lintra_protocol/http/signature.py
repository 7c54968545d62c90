"""HTTP message signatures (RFC 9421) and content digests (RFC 9530), as far as signed requests need them.

Any library for these standards can write and read the signatures that are written here. Only a part of the standards is
read: one signature, in the canonical serialisation (RFC 8941, section 4.1), so that the bytes that were signed are
those in the header.
"""

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lintra_protocol.errors import InvalidMessageError, UnauthorizedError

DIGEST_HEADER = "content-digest"
INPUT_HEADER = "signature-input"
SIGNATURE_HEADER = "signature"

MAX_HEADER_CHARACTERS = 1024
"""Longest value that is looked at; what the analyzer sends has about 250."""

_KEY = r"[a-z*][a-z0-9_.*-]{0,63}"
_STRING = r'"(?:[ !#-\[\]-~]|\\["\\]){0,256}"'
_INTEGER = r"(?:0|[1-9][0-9]{0,14})"
_ITEM = re.compile(_STRING)
_PARAMETER = re.compile(rf";({_KEY})=({_STRING}|{_INTEGER})")
_INPUT = re.compile(rf"({_KEY})=(\(({_STRING}(?: {_STRING})*)?\)((?:;{_KEY}=(?:{_STRING}|{_INTEGER}))*))")
_BYTES = re.compile(rf"({_KEY})=:([A-Za-z0-9+/]*={{0,2}}):")

Parameter = str | int


def content_digest(body: bytes | Iterable[bytes]) -> str:
    """Return the value of the header that binds a body, empty or not, to its signature (RFC 9530, section 2).

    A body that is too large for the memory comes in pieces.
    """
    whole = hashlib.sha256()
    for piece in (body,) if isinstance(body, bytes) else body:
        whole.update(piece)
    return _digest_value(whole.digest())


def _digest_value(sha256: bytes) -> str:
    return f"sha-256=:{_base64(sha256)}:"


def require_digest(body: bytes, value: str) -> None:
    """Check a body against the header that was signed for it (see `require_sha256` for errors)."""
    require_sha256(hashlib.sha256(body).digest(), value)


def require_sha256(sha256: bytes, value: str) -> None:
    """Check the hash of a body, which came in pieces, against the header that was signed for it.

    Raises UnauthorizedError if it is another body, or the digest is another kind's.
    """
    if not hmac.compare_digest(_digest_value(sha256).encode(), value.encode()):
        raise UnauthorizedError(f"the body is not the one that the {DIGEST_HEADER} header was signed for")


def signature_base(components: Sequence[tuple[str, str]], parameters: str) -> bytes:
    """Return the bytes that are signed (RFC 9421, section 2.5).

    `components` are names and values of what is covered, in order; no value holds a line break. `parameters` are what
    stands behind the label in the header `signature-input`. Raises ValueError if a value holds characters that no
    header can carry.
    """
    lines = [f"{_string(name)}: {value}" for name, value in components]
    lines.append(f'"@signature-params": {parameters}')
    if not all(line.isascii() and line.isprintable() for line in lines):
        raise ValueError("only printable ASCII characters can be signed")
    return "\n".join(lines).encode("ascii")


def signature_parameters(components: Sequence[str], parameters: Mapping[str, Parameter]) -> str:
    """Return what is covered, and the signature's parameters, as the header `signature-input` has them."""
    covered = " ".join(_string(name) for name in components)
    return f"({covered})" + "".join(
        f";{name}={value if isinstance(value, int) else _string(value)}" for name, value in parameters.items()
    )


@dataclass(frozen=True)
class SignatureInput:
    """One signature's claim about itself."""

    components: tuple[str, ...]  #: names of what is covered, in order
    parameters: dict[str, Parameter]  #: by name
    serialised: str  #: both, as they were received, which is what is signed
    signature: bytes  #: the signature's bytes


def parse_signature(headers: Mapping[str, str]) -> SignatureInput:
    """Read the one signature of a message. `headers` are by name in lower case.

    Raises InvalidMessageError if it is malformed, in another than the canonical form, or there are several.
    """
    described = _INPUT.fullmatch(_header(headers, INPUT_HEADER))
    signed = _BYTES.fullmatch(_header(headers, SIGNATURE_HEADER))
    if described is None:
        raise InvalidMessageError(f"{INPUT_HEADER}: expected one signature in canonical form (RFC 9421)")
    if signed is None or signed[1] != described[1]:
        raise InvalidMessageError(f"{SIGNATURE_HEADER}: expected {described[1]}=:BASE64: (RFC 9421)")
    components = tuple(_unquoted(item) for item in _ITEM.findall(described[3] or ""))
    pairs = _PARAMETER.findall(described[4])
    parameters = {name: int(value) if value.isdigit() else _unquoted(value) for name, value in pairs}
    if len(set(components)) < len(components) or len(parameters) < len(pairs):
        raise InvalidMessageError(f"{INPUT_HEADER}: a component or parameter stands twice")
    return SignatureInput(components, parameters, described[2], _unbase64(signed[2]))


def _header(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name)
    if value is None:
        raise UnauthorizedError(f"the request has no {name} header")
    if len(value) > MAX_HEADER_CHARACTERS:
        raise InvalidMessageError(f"{name}: longer than {MAX_HEADER_CHARACTERS} characters")
    return value


def _string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _unbase64(text: str) -> bytes:
    try:
        data = b64decode(text, validate=True)
    except ValueError:
        data = b""
    # Spare bits must be zero: a signature has one spelling.
    if _base64(data) != text:
        raise InvalidMessageError(f"{SIGNATURE_HEADER}: is no base64 (RFC 4648, section 4)")
    return data
