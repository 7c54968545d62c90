"""Reads bodies within limits, and answers every refusal with a problem document."""

import asyncio
import json
from collections.abc import Callable, Mapping

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from lintra_protocol.errors import (
    InternalError,
    InvalidMessageError,
    LintraError,
    MessageTooLargeError,
    MethodNotAllowedError,
    UnavailableError,
    UnknownResourceError,
)
from lintra_protocol.http.problems import MEDIA_TYPE, STATUS, to_problem
from lintra_protocol.http.requests import MessageName, media_type
from lintra_service.byte_budget import Lease

READ_SECONDS = 60
"""A sender that takes longer for its body is cut off."""

GRACE_SECONDS = 5
MIN_BYTES_PER_SECOND = 4096
"""After the grace a body must have come at least this fast on average, or its sender is cut off."""

RETRY_AFTER_SECONDS = 1
_BUSY = {429, 503}


def announced_length(content_length: str | None, limit: int) -> int:
    """Return how long a body may get: what its sender says, or `limit` if nothing is said.

    Raises MessageTooLargeError if it is longer than `limit`; InvalidMessageError if it is no number.
    """
    if content_length is None:
        return limit
    if not (content_length.isascii() and content_length.isdigit() and len(content_length) < 16):
        raise InvalidMessageError("content-length is not a number")
    if int(content_length) > limit:
        raise MessageTooLargeError(f"at most {limit} bytes, announced are {content_length}")
    return int(content_length)


def content_headers(scope: Scope) -> tuple[str | None, str | None]:
    """Return type and length of a request's body as its headers announce them; of several of a name the first."""
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name.startswith(b"content-"):  # few do
            found.setdefault(name, value)
    kind, length = found.get(b"content-type"), found.get(b"content-length")
    return None if kind is None else kind.decode("latin-1"), None if length is None else length.decode("latin-1")


async def read_body(
    receive: Receive,
    content_length: str | None,
    limit: int,
    lease: Lease,
    screen: Callable[[bytes], bool] | None = None,
) -> bytes:
    """Read a body whole, of at most `limit` bytes, into the room that the lease has for it.

    `receive` is the request's channel. `content_length` is the header, if there was one; nothing is reserved for what
    it announces. `limit` is the most bytes. `lease` takes every byte as it comes; it belongs to the caller, who holds
    it until the body is dealt with. `screen` is shown what has come until it has seen enough, and raises if the rest is
    not worth reading.

    Raises:
        MessageTooLargeError: longer, as soon as that shows.
        InvalidMessageError: shorter than announced; or the sender left before its end.
        OverloadedError: there is no room for it.
        UnavailableError: the sender is too slow.
    """
    limit = announced_length(content_length, limit)
    parts: list[bytes] = []
    size, loop = 0, asyncio.get_running_loop()
    began = loop.time()
    try:
        # Most bodies come in one piece, which needs one timer.
        async with asyncio.timeout_at(began + GRACE_SECONDS) as deadline:
            while True:
                if size:
                    deadline.reschedule(began + min(READ_SECONDS, GRACE_SECONDS + size / MIN_BYTES_PER_SECOND))
                chunk, more = await next_chunk(receive)
                size += len(chunk)
                if size > limit:
                    raise MessageTooLargeError(f"at most {limit} bytes")
                lease.take(len(chunk))
                parts.append(chunk)
                if screen is not None and screen(b"".join(parts)):
                    screen = None
                if not more:
                    break
    except TimeoutError:
        raise UnavailableError(
            f"{size} bytes in {loop.time() - began:.0f} s; expected are {MIN_BYTES_PER_SECOND} a second, "
            f"and the end within {READ_SECONDS} s"
        ) from None
    if content_length is not None and size < limit:
        raise InvalidMessageError(f"{limit} bytes were announced and {size} came")
    return b"".join(parts)


async def next_chunk(receive: Receive) -> tuple[bytes, bool]:
    """Return the next bytes of a body, and whether more come.

    Raises InvalidMessageError if the sender left before its end.
    """
    message = await receive()
    if message["type"] == "http.disconnect":
        raise InvalidMessageError("the sender left before the end of the body")
    return message.get("body", b""), message.get("more_body", False)


def answer(name: MessageName, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a message of the protocol."""
    return Response(body, status, {**(headers or {}), "content-type": media_type(name)})


async def send_message(send: Send, name: MessageName, body: bytes) -> None:
    """Send a message of the protocol with status 200, as `answer` would, by fewer steps."""
    headers = [(b"content-type", media_type(name).encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def problem(
    error: LintraError, request_id: str, *, task: str | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error's problem document, which names the task if one is concerned."""
    document = to_problem(error, instance=f"urn:lintra:request:{request_id}", task=task)
    status = STATUS[type(error)]
    said = {**(headers or {}), "content-type": MEDIA_TYPE}
    if status in _BUSY:
        said["retry-after"] = str(RETRY_AFTER_SECONDS)
    return Response(json.dumps(document), status, said)


def as_lintra_error(error: Exception) -> LintraError:
    """Return the error that means what the web framework, or a defect, raised."""
    if isinstance(error, LintraError):
        return error
    if isinstance(error, RequestValidationError):
        return InvalidMessageError(_complaint(error))
    return from_framework(error) if isinstance(error, HTTPException) else InternalError()


def from_framework(error: HTTPException) -> LintraError:
    """Return the error that means what the web framework says."""
    known = {404: UnknownResourceError, 405: MethodNotAllowedError, 413: MessageTooLargeError}
    if error.status_code in known:
        return known[error.status_code]()
    return InvalidMessageError(str(error.detail)) if error.status_code < 500 else InternalError()


def _complaint(error: RequestValidationError) -> str:
    """Say which field is wrong and why, without the offending value."""
    complaint = error.errors()[0]
    # "body" and the tags of unions are the framework's words, not the sender's.
    where = ".".join(str(part) for part in complaint["loc"][1:]) or "body"
    return f"{where}: {complaint['msg'].removeprefix('Value error, ')}"
