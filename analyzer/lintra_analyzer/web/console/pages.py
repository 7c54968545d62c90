"""A page of the console: a template, filled in, with the headers that every page carries.

Templates escape what they are given, and refuse names that nobody gave them. Neither they nor the style sheet hold
a program or a style inside a page, so the policy allows none.
"""

from datetime import UTC, datetime
from math import inf
from pathlib import Path

from fastapi import Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from lintra_analyzer.access import Holder
from lintra_analyzer.storage.access_tokens import Role
from lintra_analyzer.web.admission import session_of
from lintra_analyzer.web.console.forms import form_secret

HERE = Path(__file__).parent
STATIC = HERE / "static"
TEMPLATES = HERE / "templates"

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ]
)

PAGES: tuple[tuple[str, str, Role], ...] = (
    ("Tasks", "/", "viewer"),
    ("New task", "/tasks/new/guide", "analyst"),
    ("Releases", "/releases", "viewer"),
    ("Models", "/models", "viewer"),
    ("Privacy spent", "/privacy", "viewer"),
    ("Tokens", "/tokens", "operator"),
)
"""The navigation: the name of each group of pages, where it begins, and whom it is for."""

HEADERS = {
    "content-security-policy": POLICY,
    # With no-referrer a browser would call the origin of its own forms "null".
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
"""What every answer of the console carries; `x-content-type-options` comes from the layer around it."""


def moment(seconds: int) -> str:
    """Return a time in seconds since the epoch for people."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def short(number: float | str) -> str:
    """Return a number, or the decimal that a document writes it as, with four digits."""
    return f"{float(number):.4g}"


def sentence(text: str) -> str:
    """Return a text that begins with a capital, and ends without a point, since the page sets one."""
    return text[:1].upper() + text[1:].rstrip(".")


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
_ENVIRONMENT.filters.update(moment=moment, short=short, sentence=sentence)
_ENVIRONMENT.globals.update(infinity=inf)


def page(request: Request, template: str, /, status: int = 200, **context: object) -> HTMLResponse:
    """Return a page.

    `request` is the one that the page answers; templates know its `path`, its `holder`, or None, and the `form_secret`
    that every form with method post sends back. `template` is the name of a file in `templates`; `context` is what the
    template is given by name.
    """
    holder: Holder | None = getattr(request.state, "holder", None)
    session = session_of(request.scope)
    text = _ENVIRONMENT.get_template(template).render(
        path=request.url.path,
        holder=holder,
        form_secret=None if session is None else form_secret(session),
        pages=[(name, address) for name, address, role in PAGES if holder is not None and holder.may(role)],
        **context,
    )
    return HTMLResponse(text, status, headers=HEADERS)


def with_headers(response: Response) -> Response:
    """Return an answer of any other kind with the headers of a page; what it says itself stays."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response
