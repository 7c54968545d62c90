"""HTTP to one server: bounded answers, problems turned back into errors, and retries of what may pass by itself.

A retry sends the same bytes again. Nothing here is logged, and no request body appears in an error.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from lintra_client.sending.http import AnswerTooLongError, Http, HttpAnswer
from lintra_protocol.encoding.documents import is_printable
from lintra_protocol.errors import InternalError, InvalidMessageError, LintraError, OverloadedError, UnavailableError
from lintra_protocol.http.problems import from_problem
from lintra_protocol.http.requests import MessageName, media_type, require_media_type

TRANSIENT = (InternalError, UnavailableError, OverloadedError)
"""Refusals that may pass within seconds; other retryable ones pass within hours, and are the caller's to retry."""

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

on_retry: Callable[..., None] | None = None
"""What a command does before a request is tried again; None leaves it to the program's own settings of stamina."""


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

    def __init__(self, http: Http, name: str, address: str, retries: Retries) -> None:
        """Use what sends requests, which keeps connections open."""
        self.name = name
        self._http = http
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
        import stamina  # takes a tenth of what a client loads, and is needed when something failed

        if on_retry is not None:
            stamina.instrumentation.set_on_retry_hooks([on_retry])

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
        # Answers are compared byte by byte, so nothing may come compressed.
        headers = {"accept-encoding": "identity"}
        if sent is not None:
            headers["content-type"] = media_type(sent)
        try:
            async with asyncio.timeout(self._retries.timeout):
                answer = await self._http.send(method, self._address + path, headers, body)
        except AnswerTooLongError as error:
            raise InvalidMessageError(f"{self.name}: {error}") from None
        except OSError as error:  # a TimeoutError is one
            # The text of a library's error may quote what was sent; its type says enough.
            raise TransientError(UnavailableError(f"{self.name}: {type(error).__name__}")) from None
        if not 200 <= answer.status < 300:
            raise self._refusal(answer)
        said = answer.headers.get("content-type")
        require_media_type(said, next((name for name in answers if media_type(name) == said), answers[0]))
        return answer.body

    def _refusal(self, answer: HttpAnswer) -> Exception:
        error = _problem(answer.body)
        if error is None:
            kind = _STATUS_WITHOUT_PROBLEM.get(answer.status, LintraError)
            error = kind(f"HTTP status {answer.status} without a problem document")
        named = type(error)(f"{self.name}: {printable(error.detail)}".removesuffix(": "))
        return TransientError(named, _retry_after(answer)) if isinstance(error, TRANSIENT) else named

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


def _retry_after(answer: HttpAnswer) -> float | None:
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 9 else None
