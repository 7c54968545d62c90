"""The pages about tokens, for operators."""

from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import HTMLResponse, Response

from lintra_analyzer.storage.access_tokens import ROLES, Scope
from lintra_analyzer.storage.pages import PAGE
from lintra_analyzer.web.admission import ThisService
from lintra_analyzer.web.console.forms import field, filled_in
from lintra_analyzer.web.console.pages import page
from lintra_analyzer.web.console.routing import console_router, see
from lintra_protocol.errors import InvalidMessageError

DAY = 86_400
USUAL_DAYS = 90
MOST_DAYS = 3650

router = console_router()


@router.get("/tokens")
def tokens(request: Request, service: ThisService, start: Annotated[int, Query(ge=0, lt=1 << 32)] = 0) -> HTMLResponse:
    """List the tokens from a place in the list on, and offer to make one."""
    return _listed(request, service, start)


@router.post("/tokens")
async def make(request: Request, service: ThisService) -> HTMLResponse:
    """Make a token, and show it this once."""
    form = await filled_in(request)
    role = next((role for role in ROLES if role == field(form, "role")), None)
    if role is None:
        raise InvalidMessageError(f"role: choose one of {', '.join(ROLES)}")
    scope = Scope(tuple(field(form, "tasks").split()), tuple(_lines(field(form, "populations"))))
    secret, made = service.access.add(field(form, "name"), role, scope, _seconds(field(form, "days")))
    return _listed(request, service, secret=secret, made=made.token_id)


@router.post("/tokens/{token_id}/revocation")
def revoke(service: ThisService, token_id: str) -> Response:
    """Revoke a token; whoever is signed in with it is signed out by that."""
    service.access.revoke(token_id)
    return see("/tokens")


def _listed(request: Request, service: ThisService, start: int = 0, secret: str = "", made: str = "") -> HTMLResponse:
    now, every = service.now(), service.access.tokens()
    found = [(token, token.is_valid(now)) for token in every[start : start + PAGE]]
    following = start + PAGE if len(every) > start + PAGE else None
    return page(
        request, "tokens.html", tokens=found, days=USUAL_DAYS, secret=secret, made=made, start=start,
        following=following,
    )  # fmt: skip


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _seconds(days: str) -> int | None:
    if not days:
        return None
    if not (days.isascii() and days.isdigit() and len(days) < 6 and 1 <= int(days) <= MOST_DAYS):
        raise InvalidMessageError(f"days: a whole number from 1 to {MOST_DAYS}, or empty for a token without end")
    return DAY * int(days)
