"""Lets pages of other sites use what a client on a device uses: keys, a task, uploads, proofs (Fetch standard, CORS).

These resources are open to anyone who can reach the server and use no cookies, so that a page learns nothing that its
owner could not ask for. Everything else stays closed to pages.
"""

import re
from collections.abc import Sequence
from typing import Literal

from starlette.types import Message, Scope, Send

Origins = Sequence[str] | Literal["any"]
"""Whose pages may use a server: those of some sites, such as `https://study.example`, or of any."""

Header = tuple[bytes, bytes]

_OPEN = re.compile(r"/v1/(keys|tasks/[^/]+(/reports|/batches/[^/]+/inclusion/[^/]+)?)")
_PREFLIGHT: list[Header] = [
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", b"content-type"),
    (b"access-control-max-age", b"86400"),
]
_EXPOSED: Header = (b"access-control-expose-headers", b"retry-after")


def is_open(scope: Scope) -> bool:
    """Return whether a request, or the one that a page asks about first with OPTIONS, is one that pages may make."""
    found = _OPEN.fullmatch(scope["path"])
    if found is None:
        return False
    wanted = "POST" if scope["path"].endswith("/reports") else "GET"
    return scope["method"] in (wanted, "OPTIONS")


def page_headers(scope: Scope, origins: Origins) -> list[Header]:
    """Return the headers by which a browser lets a page read the answer to an open request; none if nobody's may."""
    if origins == "any":
        return [(b"access-control-allow-origin", b"*"), _EXPOSED]
    if not origins:
        return []
    vary: Header = (b"vary", b"origin")
    origin = next((value for name, value in scope["headers"] if name == b"origin"), b"")
    if origin.decode("latin-1") not in origins:
        return [vary]
    return [(b"access-control-allow-origin", origin), _EXPOSED, vary]


async def answer_preflight(headers: list[Header], send: Send) -> None:
    """Answer a browser that asks, before a page's request, whether it may make it."""
    await send({"type": "http.response.start", "status": 204, "headers": [*headers, *_PREFLIGHT]})
    await send({"type": "http.response.body", "body": b""})


def sent_with(headers: list[Header], send: Send) -> Send:
    """Return a channel that adds headers to the answer, whatever it is: a page must be able to read refusals, too."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *headers]
        await send(message)

    return sending
