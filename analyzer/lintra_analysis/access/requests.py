"""Requests to an analyzer, blocking: a refusal comes back as the error that the analyzer raised.

A request that got no answer is sent again.
"""

import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, cast

import httpx2
import stamina

from lintra_protocol.crypto.randomness import RandomBytes, system_randomness
from lintra_protocol.errors import InvalidMessageError, LintraError, OverloadedError, UnavailableError
from lintra_protocol.http.problems import MEDIA_TYPE, from_problem

Document = dict[str, Any]
"""A JSON object as docs/reference/analyzer-tasks.md describes it."""


class Requests:
    """A connection to one analyzer."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = 60.0,
        attempts: int = 5,
        transport: httpx2.BaseTransport | None = None,
        random_bytes: RandomBytes = system_randomness,
    ) -> None:
        """Talk to the analyzer at `url`; `timeout` in seconds is for one request, sent up to `attempts` times."""
        headers = {"authorization": f"Bearer {token}"}
        self._http = httpx2.Client(base_url=url, headers=headers, timeout=timeout, transport=transport)
        self._random_bytes = random_bytes
        self._attempts = attempts

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def _pages(self, path: str) -> list[Document]:
        """Return a whole list, page by page, as each page leads to the next one (RFC 8288)."""
        found: list[Document] = []
        query = ""
        while True:
            answer = self._send("GET", path + query)
            found += json.loads(answer.content)
            query = answer.links.get("next", {}).get("url", "")
            if not query:
                return found
            # The token goes to the list that was asked for, and to no other address.
            if not query.startswith("?"):
                raise InvalidMessageError("the next page of the list is somewhere else")

    def _text(self, path: str, body: Mapping[str, object], media_type: str) -> str:
        return self._send("POST", path, body, {"accept": media_type}).content.decode("utf-8")

    def _json(
        self, method: str, path: str, body: Mapping[str, object] | None = None, headers: dict[str, str] | None = None
    ) -> Document:
        return cast("Document", json.loads(self._send(method, path, body, headers).content))

    def _send(
        self, method: str, path: str, body: Mapping[str, object] | None = None, headers: dict[str, str] | None = None
    ) -> httpx2.Response:
        # A server that refused a new task as unavailable was asked often enough already.
        temporary = (httpx2.TransportError,) if method == "POST" else (httpx2.TransportError, OverloadedError)
        try:
            for attempt in stamina.retry_context(on=temporary, attempts=self._attempts, wait_initial=0.2, wait_max=5.0):
                with attempt:
                    response = self._http.request(method, path, json=body, headers=headers)
                    if not response.is_success:
                        raise refusal(response)
                    return response
        except httpx2.TransportError as error:
            raise UnavailableError(f"the analyzer does not answer: {type(error).__name__}") from None
        raise AssertionError("the last attempt returns or raises")  # pragma: no cover


def refusal(response: httpx2.Response) -> LintraError:
    """Return the error that an analyzer answered with."""
    if response.headers.get("content-type", "").partition(";")[0] != MEDIA_TYPE:
        return InvalidMessageError(f"status {response.status_code} without a problem document; is this an analyzer?")
    return from_problem(response.json())
