"""The permission check of every route, for the REST interface and for the console.

A route that changes something needs an analyst, unless it stands in a list below: a new route is closed to viewers by
itself. A route whose path names a task or a release is about that task, and whoever may not see it is told that there
is none.
"""

import asyncio
from collections.abc import Coroutine
from typing import Annotated, TypeVar

from fastapi import Depends, Query, Request
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope as AsgiScope

from lintra_analyzer.access import Holder
from lintra_analyzer.service import Service
from lintra_analyzer.storage.access_tokens import Role
from lintra_analyzer.storage.rows import StoredTask
from lintra_protocol.errors import (
    ForbiddenError,
    OverloadedError,
    UnauthorizedError,
    UnknownResourceError,
    UnknownTaskError,
)
from lintra_service.client_address import Network, peer_of, trusted_peer

T = TypeVar("T")

READING = frozenset({"GET", "HEAD"})

CHANGES_NOTHING = frozenset(
    {
        "/v1/releases/{release_id}/analyses",
        "/v1/tasks/{task_id}/trend",
        "/v1/tasks/{task_id}/timeline",
        "/v1/tasks/{task_id}/windows/{interval}/analyses",
        "/sign-out",
    }
)
"""Routes that are asked with a body and leave everything as it is, or end only the asker's own session."""

FOR_OPERATORS = frozenset({"/tokens", "/tokens/{token_id}/revocation"})
"""Routes about tokens, looking included."""

FOR_ANALYSTS = frozenset({"/v1/tasks/{task_id}/census", "/tasks/{task_id}/census", "/tasks/new", "/tasks/new/guide"})
"""Routes that are only read and yet not for viewers: a census has every server list its reports, and is kept."""

SIGN_IN = "/sign-in"
MOST_SIGN_IN_BYTES = 4096
"""Of the only body that is read from somebody who is not known yet."""

SESSION_COOKIE = "lintra-session"
SECURE_SESSION_COOKIE = "__Host-lintra-session"
"""Its name where the connection is encrypted: a browser takes it from this very host only."""


async def _service(request: Request) -> Service:
    return service_of(request)


ThisService = Annotated[Service, Depends(_service)]
"""The service that a request is for."""

Before = Annotated[int | None, Query(ge=1, le=1 << 62, description="Where a page begins: given by the one before.")]
"""A place in a list: older entries follow."""


def service_of(request: Request) -> Service:
    """Return the service that a request is for."""
    service: Service = request.state.service
    return service


def holder_of(request: Request) -> Holder:
    """Return who asks, on a route that admitted them."""
    holder: Holder = request.state.holder
    return holder


def admit(request: Request, *, by_session: bool) -> None:
    """Let a request pass, and keep in its state who asks.

    `by_session` says whether a session of the console counts; without an Authorization header only.

    Raises:
        UnauthorizedError: nobody, or nobody known, asks.
        ForbiddenError: the holder's role does not allow it.
        UnknownTaskError, UnknownResourceError: there is no such thing in the holder's scope.
    """
    service = service_of(request)
    session = session_of(request.scope) if by_session else None
    holder = service.access.holder(request.headers.get("authorization"), session)
    request.state.holder = holder
    path = str(request.scope["route"].path)
    holder.require(needed_role(request.method, path))
    if not holder.scope.is_everything:
        _require_in_scope(request, service, holder)


def needed_role(method: str, path: str) -> Role:
    """Return the role that a route needs, by its template."""
    if path in FOR_OPERATORS:
        return "operator"
    reads = method in READING or path in CHANGES_NOTHING
    return "viewer" if reads and path not in FOR_ANALYSTS else "analyst"


def _require_in_scope(request: Request, service: Service, holder: Holder) -> None:
    task_id = request.path_params.get("task_id")
    release_id = request.path_params.get("release_id")
    if release_id is not None:
        task_id = service.store.task_of_release(release_id)
        if task_id is None or not _sees(holder, service.store.task(task_id)):
            raise UnknownResourceError(f"no release {release_id}")
    elif task_id is not None and not _sees(holder, service.store.task(task_id)):
        raise UnknownTaskError(task_id)


def _sees(holder: Holder, stored: StoredTask) -> bool:
    return holder.scope.holds(stored.task_id, stored.population)


def require_new(request: Request, population: str) -> None:
    """Check that the asker may make a task for a population; raise ForbiddenError if it is not in the asker's scope."""
    if not holder_of(request).scope.takes_new(population):
        raise ForbiddenError(f"this token makes no tasks for the population {population!r}")


def most_bytes(scope: AsgiScope, service: Service) -> int:
    """Return how long a request's body may be, before its route is known: strangers send none, but for signing in."""
    if scope["path"] == SIGN_IN:
        return MOST_SIGN_IN_BYTES
    try:
        service.access.holder(Headers(scope=scope).get("authorization"), session_of(scope))
    except UnauthorizedError:
        return 0
    return service.settings.max_body_bytes


def session_of(scope: AsgiScope) -> str | None:
    """Return the secret of a session that a request's cookies hold, if they do."""
    cookies = cookie_parser(Headers(scope=scope).get("cookie", ""))
    return cookies.get(SECURE_SESSION_COOKIE) or cookies.get(SESSION_COOKIE) or None


def is_encrypted(request: Request) -> bool:
    """Return whether the asker's browser speaks https with us, or with a proxy that is believed."""
    if request.url.scheme == "https":
        return True
    proxies: tuple[Network, ...] = service_of(request).settings.trusted_proxies
    said = request.headers.get("x-forwarded-proto", "")
    return said == "https" and trusted_peer(request.scope, proxies)


def sender_of(request: Request) -> str:
    """Return the peer that a request counts for; never logged."""
    return peer_of(request.scope, service_of(request).settings.trusted_proxies)


async def while_present(request: Request, work: Coroutine[None, None, T]) -> T:
    """Return what work gives; if whoever asked hangs up before, the work is cancelled.

    Raises OverloadedError then, which nobody reads.
    """
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_hung_up(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise OverloadedError("whoever asked has left")
    finally:
        for each in (working, leaving):
            each.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def raw_body(request: Request) -> bytes:
    """Return the bytes of a request."""
    return await request.body()
