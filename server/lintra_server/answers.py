"""Bodies in, answers out: limits before reading, and every refusal as a problem document."""

import json
from collections.abc import AsyncIterator, Mapping

from starlette.exceptions import HTTPException
from starlette.responses import Response

from lintra_protocol.errors import (
    InternalError,
    InvalidMessageError,
    LintraError,
    MessageTooLargeError,
    MethodNotAllowedError,
    UnknownResourceError,
)
from lintra_protocol.problems import MEDIA_TYPE, STATUS, to_problem
from lintra_protocol.transport import MessageName, media_type

RETRY_AFTER_SECONDS = 1
_BUSY = {429, 503}


async def read_body(chunks: AsyncIterator[bytes], content_length: str | None, limit: int) -> bytes:
    """Read a body of at most `limit` bytes; a longer one is refused before it is read, or as soon as it shows.

    Raises:
        MessageTooLargeError: longer.
        InvalidMessageError: the stated length is no number.
    """
    if stated_length(content_length, limit) > limit:
        raise MessageTooLargeError(f"at most {limit} bytes, announced are {content_length}")
    parts, size = [], 0
    async for chunk in chunks:
        size += len(chunk)
        if size > limit:
            raise MessageTooLargeError(f"at most {limit} bytes")
        parts.append(chunk)
    return b"".join(parts)


def stated_length(content_length: str | None, unstated: int) -> int:
    """Return the length that a request states, or `unstated`.

    Raises:
        InvalidMessageError: it is no number.
    """
    if content_length is None:
        return unstated
    if not (content_length.isascii() and content_length.isdigit() and len(content_length) < 16):
        raise InvalidMessageError("content-length is not a number")
    return int(content_length)


def answer(name: MessageName, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a message of the protocol."""
    return Response(body, status, {**(headers or {}), "content-type": media_type(name)})


def problem(error: LintraError, request_id: str) -> Response:
    """Return an error's problem document."""
    document = to_problem(error, instance=f"urn:lintra:request:{request_id}")
    status = STATUS[type(error)]
    headers = {"content-type": MEDIA_TYPE}
    if status in _BUSY:
        headers["retry-after"] = str(RETRY_AFTER_SECONDS)
    return Response(json.dumps(document), status, headers)


def from_framework(error: HTTPException) -> LintraError:
    """Return the error that means what the web framework says."""
    known = {404: UnknownResourceError, 405: MethodNotAllowedError, 413: MessageTooLargeError}
    if error.status_code in known:
        return known[error.status_code]()
    return InvalidMessageError(str(error.detail)) if error.status_code < 500 else InternalError()
