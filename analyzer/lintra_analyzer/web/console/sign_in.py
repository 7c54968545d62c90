"""Signing in and out, the only pages that anybody may ask for; who failed too often waits."""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import HTMLResponse, Response

from lintra_analyzer.access import SESSION_SECONDS
from lintra_analyzer.web.admission import (
    SECURE_SESSION_COOKIE,
    SESSION_COOKIE,
    SIGN_IN,
    ThisService,
    is_encrypted,
    sender_of,
    session_of,
)
from lintra_analyzer.web.console.forms import field, filled_in
from lintra_analyzer.web.console.pages import page
from lintra_analyzer.web.console.routing import OpenRoute, console_router, see
from lintra_protocol.errors import OverloadedError, UnauthorizedError

MOST_LETTERS = 2000
"""Of what an address says to this page."""

outside = console_router(OpenRoute)
inside = console_router()

Letters = Annotated[str, Query(max_length=MOST_LETTERS)]


@outside.get(SIGN_IN)
def sign_in_page(request: Request, code: Letters = "", back: Annotated[Letters, Query(alias="next")] = "") -> Response:
    """Ask for a token; a link with a code asks for a click only, since looking at a page changes nothing."""
    return _asking(request, code, back)


@outside.post(SIGN_IN)
async def sign_in(request: Request, service: ThisService) -> Response:
    """Begin a session."""
    attempts: Attempts = request.state.attempts
    sender = sender_of(request)
    attempts.require(sender)
    form = await filled_in(request)
    code, token, back = field(form, "code"), field(form, "token"), field(form, "next")
    try:
        session = service.access.sign_in_by_code(code) if code else service.access.sign_in(token)
    except UnauthorizedError as error:
        attempts.failed(sender)
        return _asking(request, "", back, error.detail, 401)
    answer = see(back if _is_ours(back) else "/")
    secure = is_encrypted(request)
    answer.set_cookie(
        SECURE_SESSION_COOKIE if secure else SESSION_COOKIE, session.secret, SESSION_SECONDS,
        path="/", secure=secure, httponly=True, samesite="strict",
    )  # fmt: skip
    return answer


@inside.post("/sign-out")
def sign_out(request: Request, service: ThisService) -> Response:
    """End the session."""
    if session := session_of(request.scope):
        service.access.sign_out(session)
    answer = see(SIGN_IN)
    answer.delete_cookie(SESSION_COOKIE, httponly=True, samesite="strict")
    answer.delete_cookie(SECURE_SESSION_COOKIE, secure=True, httponly=True, samesite="strict")
    return answer


def _asking(request: Request, code: str, back: str, wrong: str = "", status: int = 200) -> HTMLResponse:
    return page(request, "sign_in.html", status, code=code, back=back if _is_ours(back) else "", wrong=wrong)


def _is_ours(address: str) -> bool:
    """Return whether an address leads to a page of ours, and nowhere else whatever a browser makes of it."""
    return address.startswith("/") and not address.startswith("//") and address.isprintable() and "\\" not in address


MOST_FAILURES = 10
SECONDS = 300.0
MOST_PEERS = 10_000


class Attempts:
    """Failures to sign in, by peer; addresses are forgotten when the time is over, and never logged."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Know of none. `clock` gives seconds since any fixed moment."""
        self._clock = clock
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()

    def require(self, peer: str) -> None:
        """Check that a peer may try; raise OverloadedError if it failed too often of late."""
        before = self._clock() - SECONDS
        # Sorted by the last failure, so that those to forget stand in front.
        while self._failed and next(iter(self._failed.values()))[-1] < before:
            self._failed.popitem(last=False)
        if sum(time >= before for time in self._failed.get(peer, ())) >= MOST_FAILURES:
            raise OverloadedError(
                f"{MOST_FAILURES} failures to sign in from this address within {SECONDS / 60:g} minutes; wait a little"
            )

    def failed(self, peer: str) -> None:
        """Count a failure."""
        self._failed.setdefault(peer, deque(maxlen=MOST_FAILURES)).append(self._clock())
        self._failed.move_to_end(peer)
        # With more addresses than this the oldest are let go: memory stays bounded whoever tries.
        while len(self._failed) > MOST_PEERS:
            self._failed.popitem(last=False)
