"""HTTP to one server: bounded answers, problems turned back into errors, and retries of what may pass by itself.

A retry sends the same bytes again. Nothing here is logged, and no request body appears in an error.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeVar

import httpx2
import stamina

from lintra_protocol.encoding.documents import is_printable
from lintra_protocol.errors import InternalError, InvalidMessageError, LintraError, OverloadedError, UnavailableError
from lintra_protocol.http.problems import from_problem
from lintra_protocol.http.requests import MessageName, media_type, require_media_type

TRANSIENT = (InternalError, UnavailableError, OverloadedError)
"""Refusals that may pass within seconds; other retryable ones pass within hours, and are the caller's to retry."""

MAX_ANSWER_BYTES = 64 << 20
"""No answer is read beyond this; the largest honest one is the definition of a task with very many columns."""

_MAX_DETAIL = 500
_NO_PATIENCE = 1e-9
_STATUS_WITHOUT_PROBLEM = {
    429: OverloadedError,
    500: InternalError,
    502: UnavailableError,
    503: UnavailableError,
    504: UnavailableError,
}

T = TypeVar("T")


@dataclass(frozen=True)
class Retries:
    """How long to keep trying one request; waits double from `first_wait`, plus up to `jitter`, all in seconds.

    Attributes:
        attempts: requests at most, the first one included.
        patience: no new attempt starts after this.
        timeout: for one attempt, from the first byte sent to the last byte read.
    """

    attempts: int = 8
    patience: float = 120.0
    timeout: float = 60.0
    first_wait: float = 0.2
    longest_wait: float = 10.0
    jitter: float = 0.5


class TransientError(Exception):
    """Carries a refusal that is worth another attempt, and how many seconds the server asked to wait."""

    def __init__(self, refusal: LintraError, wait: float | None = None) -> None:
        """Keep the refusal, which is what the caller sees if no attempt succeeds."""
        super().__init__(refusal.detail)
        self.refusal = refusal
        self.wait = wait


class Channel:
    """The way to one server; `name` is the URL that the task knows it by, `address` where it is reached."""

    def __init__(self, http: httpx2.AsyncClient, name: str, address: str, retries: Retries) -> None:
        """Use a shared HTTP client, which keeps connections open."""
        self.name = name
        self._http = http
        # An address is parsed, and headers are encoded, once for each of the few paths and lengths of a body.
        self._known: dict[tuple[str, MessageName | None, int], tuple[httpx2.URL, httpx2.Headers]] = {}
        self._address = address
        self._retries = retries

    async def fetch(self, path: str, *answers: MessageName) -> bytes:
        """GET a message, which is one of `answers`, with retries."""
        return await self.persistently(lambda: self._request("GET", path, b"", None, *answers))

    async def post(self, path: str, body: bytes, sent: MessageName, answer: MessageName) -> bytes:
        """POST a message once; wrap it in `persistently` for retries."""
        return await self._request("POST", path, body, sent, answer)

    async def persistently(self, action: Callable[[], Awaitable[T]]) -> T:
        """Run an action until it raises no `TransientError`, or patience ends; then raise the refusal it carried."""
        began = time.monotonic()
        try:
            return await action()
        except TransientError as error:
            failed: TransientError | None = error
        # What follows costs as much as the request itself, and is needed when it failed. A context, not a decorator: a
        # decorator's log line would hold the arguments.
        retries = stamina.retry_context(
            on=self._pause,
            attempts=self._retries.attempts,
            timeout=max(self._retries.patience - (time.monotonic() - began), _NO_PATIENCE),
            wait_initial=self._retries.first_wait,
            wait_max=self._retries.longest_wait,
            wait_jitter=self._retries.jitter,
        )
        try:
            async for attempt in retries:
                with attempt:
                    if failed is not None:  # the first one was made already
                        first, failed = failed, None
                        raise first
                    return await action()
        except TransientError as error:
            raise error.refusal from None
        raise AssertionError("the last attempt returns or raises")

    async def _request(
        self, method: str, path: str, body: bytes, sent: MessageName | None, *answers: MessageName
    ) -> bytes:
        try:
            async with (
                asyncio.timeout(self._retries.timeout),
                aclosing(await self._http.send(self._built(method, path, body, sent), stream=True)) as response,
            ):
                data = await self._read(response)
        except (httpx2.RequestError, OSError) as error:  # a TimeoutError is an OSError
            # The text of a library's error may quote what was sent; its type says enough.
            raise TransientError(UnavailableError(f"{self.name}: {type(error).__name__}")) from None
        if not response.is_success:
            raise self._refusal(response, data)
        said = response.headers.get("content-type")
        require_media_type(said, next((name for name in answers if media_type(name) == said), answers[0]))
        return data

    def _built(self, method: str, path: str, body: bytes, sent: MessageName | None) -> httpx2.Request:
        known = self._known.get((path, sent, len(body)))
        if known is None:
            headers = httpx2.Headers(self._http.headers)
            if sent is not None:
                headers["content-type"] = media_type(sent)
            # Without the client's cookies: no server asks for one, and none needs to know who comes again.
            first = httpx2.Request(method, self._address + path, content=body, headers=headers)
            known = self._known[path, sent, len(body)] = first.url, first.headers
        return httpx2.Request(method, known[0], headers=known[1], stream=httpx2.ByteStream(body))

    async def _read(self, response: httpx2.Response) -> bytes:
        data = bytearray()
        async for chunk in response.aiter_bytes():
            data += chunk
            if len(data) > MAX_ANSWER_BYTES:
                raise InvalidMessageError(f"{self.name}: an answer longer than {MAX_ANSWER_BYTES} bytes")
        return bytes(data)

    def _refusal(self, response: httpx2.Response, data: bytes) -> Exception:
        error = _problem(data)
        if error is None:
            kind = _STATUS_WITHOUT_PROBLEM.get(response.status_code, LintraError)
            error = kind(f"HTTP status {response.status_code} without a problem document")
        named = type(error)(f"{self.name}: {printable(error.detail)}".removesuffix(": "))
        return TransientError(named, _retry_after(response)) if isinstance(error, TRANSIENT) else named

    def _pause(self, error: Exception) -> bool | float:
        if not isinstance(error, TransientError):
            return False
        return min(error.wait, self._retries.longest_wait) if error.wait else True


def printable(text: str) -> str:
    """Return a peer's words, cut short and without control characters, so that they are safe on a terminal."""
    return "".join(letter if is_printable(letter) else "?" for letter in text[:_MAX_DETAIL])


def _problem(data: bytes) -> LintraError | None:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return from_problem(document) if isinstance(document, dict) and "type" in document else None


def _retry_after(response: httpx2.Response) -> float | None:
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 9 else None
