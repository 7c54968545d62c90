"""Unique encodings: labelled hashes, canonical JSON and unpadded base64url.

Whatever is hashed or signed goes through here, so that two parties that agree on a value agree on its bytes.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from lintra_protocol.errors import InvalidMessageError

HASH_BYTES = 32

_FRAME_BYTES = 8
"""Of the length that stands before every part."""

MAX_INTEGER = 2**53 - 1
"""The largest integer in a document, and minus it the smallest: every JSON library reads these exactly."""

ByteRows = npt.NDArray[np.uint8]
"""Some strings of bytes of one length, shape `(k, n)`."""

MAX_DEPTH = 64
"""How many lists and objects of a document may stand one inside the other."""

JsonValue = Mapping[str, "JsonValue"] | Sequence["JsonValue"] | str | int | bool | None


def framed(label: str, *parts: bytes) -> bytes:
    """Return `"lintra/1 " + label + 0x00`, then every part behind its big-endian 64-bit length.

    The encoding is injective: no two different lists of parts give the same bytes.
    """
    pieces = [b"lintra/1 ", label.encode("ascii"), b"\x00"]
    for part in parts:
        pieces += (len(part).to_bytes(_FRAME_BYTES, "big"), part)
    return b"".join(pieces)


def domain_hash(label: str, *parts: bytes) -> bytes:
    """Return H(label, part, ...): SHA-256 of the framed parts. Every use in the protocol has its own label."""
    return hashlib.sha256(framed(label, *parts)).digest()


def domain_hash_of_all(label: str, parts: Sequence[bytes]) -> bytes:
    """Return H(label, part, ...) of parts that mostly have one length, such as identifiers: they are joined at once."""
    lengths = set(map(len, parts))
    if len(lengths) != 1:
        return domain_hash(label, *parts)
    return hashlib.sha256(framed(label) + lengths.pop().to_bytes(_FRAME_BYTES, "big").join((b"", *parts))).digest()


def domain_hashes(label: str, *parts: bytes | ByteRows) -> list[bytes]:
    """Return H(label, part, ...) of each row, where some parts are the same for all rows, and others have one a row."""
    # What is the same in all rows is written once, with zeros where each row has its own.
    alike = framed(label, *(bytes(part.shape[1]) if isinstance(part, np.ndarray) else part for part in parts))
    count = next(len(part) for part in parts if isinstance(part, np.ndarray))
    joined = np.empty((count, len(alike)), np.uint8)
    joined[:] = np.frombuffer(alike, np.uint8)
    at = len(framed(label))
    for part in parts:
        at += _FRAME_BYTES
        if isinstance(part, np.ndarray):
            joined[:, at : at + part.shape[1]] = part
            at += part.shape[1]
        else:
            at += len(part)
    return [hashlib.sha256(row).digest() for row in separate(joined)]


def separate(rows: ByteRows) -> list[bytes]:
    """Return each row of shape `(k, n)`, n at least 1, as bytes; for many rows much faster than to cut them apart."""
    whole = np.ascontiguousarray(rows)
    found: list[bytes] = whole.view(f"V{whole.shape[1]}").ravel().tolist()
    return found


def canonical_json(value: JsonValue) -> bytes:
    """Encode by the JSON Canonicalization Scheme (RFC 8785), restricted to values that any library writes alike.

    UTF-8 without whitespace, keys sorted by their UTF-16 code units. Only strings, integers within `MAX_INTEGER`,
    booleans, null, lists and objects: reals are decimal strings.
    """
    return _written(_ordered(value)).encode()


def parse_canonical_json(data: bytes) -> JsonValue:
    """Parse JSON and refuse bytes that are not its canonical encoding (duplicate keys and floats among them).

    Raises InvalidMessageError if it is not JSON, or not canonical.
    """
    try:
        value: JsonValue = json.loads(data, parse_float=_refuse_float, parse_constant=_refuse_float)
        if canonical_json(value) == data:
            return value
    except (ValueError, RecursionError) as error:
        raise InvalidMessageError(f"not canonical JSON: {error}") from None
    raise InvalidMessageError("not canonical JSON: keys must be sorted and unique, without whitespace (RFC 8785)")


def base64url(data: bytes) -> str:
    """Encode as unpadded base64url."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def parse_base64url(text: str, length: int | None = None) -> bytes:
    """Decode unpadded, canonical base64url, optionally of a fixed length in bytes.

    Raises InvalidMessageError if it has padding, foreign characters, stray trailing bits or another length.
    """
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise InvalidMessageError("not base64url") from None
    if base64url(data) != text:
        raise InvalidMessageError("not canonical base64url: no padding, no stray trailing bits")
    if length is not None and len(data) != length:
        raise InvalidMessageError(f"expected {length} bytes of base64url, got {len(data)}")
    return data


def _ordered(value: JsonValue, room: int = MAX_DEPTH) -> JsonValue:
    """Return the value with its keys in canonical order, and refuse what has more than one spelling.

    `room` says how many lists and objects may still stand one inside the other.
    """
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise ValueError(f"{value} has no canonical form; integers lie within 2^53 - 1")
        return value
    if not room:
        raise ValueError(f"more than {MAX_DEPTH} lists and objects stand one inside the other")
    if isinstance(value, (dict, Mapping)):
        if foreign := [type(key).__name__ for key in value if not isinstance(key, str)]:
            raise ValueError(f"keys are strings, got {foreign[0]}")
        # Letters of ASCII stand in one order, whatever counts as a unit.
        keys = sorted(value) if all(map(str.isascii, value)) else sorted(value, key=_utf_16)
        return {key: _ordered(value[key], room - 1) for key in keys}
    if isinstance(value, (list, tuple)):
        return [_ordered(item, room - 1) for item in value]
    raise ValueError(f"{type(value).__name__} has no canonical form; write reals as decimal strings")


# Built once: a small document takes less time to write than an encoder to make.
_written = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def _utf_16(key: str) -> bytes:
    # Half a surrogate pair has no UTF-8 form and is refused there; here it only must have a place.
    return key.encode("utf-16-be", "surrogatepass")


def _refuse_float(text: str) -> JsonValue:
    raise ValueError(f"{text} is not an integer; write reals as decimal strings")
