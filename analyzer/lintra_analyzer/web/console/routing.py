"""The routes of the console: each is admitted, answers a refusal with a page, and carries the console's headers.

Every router is made by `console_router`, so that no page can leave this out.
"""

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from lintra_analyzer.web.admission import READING, SIGN_IN, admit
from lintra_analyzer.web.console.forms import require_own_form, require_own_origin
from lintra_analyzer.web.console.pages import page, with_headers
from lintra_protocol.errors import LintraError, UnauthorizedError
from lintra_protocol.http.problems import STATUS
from lintra_service.responses import RETRY_AFTER_SECONDS, as_lintra_error

Handler = Callable[[Request], Coroutine[Any, Any, Response]]

SEE_OTHER = 303


class ConsoleRoute(APIRoute):
    """A page, or what a form is sent to, for those who are signed in."""

    is_open: ClassVar[bool] = False

    def get_route_handler(self) -> Handler:
        """Return what answers a request."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                await self._require(request)
                return with_headers(await handle(request))
            except UnauthorizedError as error:
                return to_sign_in(request, error)
            except (LintraError, RequestValidationError, HTTPException) as error:
                return refusal(request, as_lintra_error(error))

        return answer

    async def _require(self, request: Request) -> None:
        """Let a request pass that may, and whose form was sent from our own page."""
        changes = request.method not in READING
        if self.is_open:
            if changes:
                require_own_origin(request)
            return
        admit(request, by_session=True)
        # A program that shows its token needs no page; no browser adds the token by itself.
        if changes and "authorization" not in request.headers:
            await require_own_form(request)


class OpenRoute(ConsoleRoute):
    """The page where one signs in."""

    is_open = True


def console_router(route: type[ConsoleRoute] = ConsoleRoute) -> APIRouter:
    """Return a router for pages, which the description of the REST interface leaves out."""
    return APIRouter(route_class=route, include_in_schema=False)


def see(address: str) -> Response:
    """Return the answer to a form: another page of ours, which can be loaded again without sending the form again."""
    return RedirectResponse(address, SEE_OTHER)


def to_sign_in(request: Request, error: UnauthorizedError) -> Response:
    """Lead somebody who is not signed in to where one signs in, and back afterwards."""
    if request.method not in READING or "authorization" in request.headers:
        return refusal(request, error)
    request.state.error = error.token
    if "hx-request" in request.headers:  # a part of a page: the whole page is to go there
        return with_headers(Response(status_code=STATUS[UnauthorizedError], headers={"hx-redirect": SIGN_IN}))
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return with_headers(see(SIGN_IN + (f"?next={quote(asked, safe='')}" if asked != "/" else "")))


def refusal(request: Request, error: LintraError) -> Response:
    """Return the page that says why something was refused."""
    request.state.error = error.token
    answer = page(request, "refusal.html", STATUS[type(error)], error=error, request_id=request.state.request_id)
    if error.retryable:
        answer.headers["retry-after"] = str(RETRY_AFTER_SECONDS)
    return answer
