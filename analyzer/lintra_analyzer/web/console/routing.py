"""The routes of the console: each is admitted, answers a refusal with a page, and carries the console's headers.

Every router is made by `console_router`, so that no page can leave this out.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from lintra_analyzer.web.admission import admit
from lintra_analyzer.web.console.pages import page, with_headers
from lintra_protocol.errors import LintraError
from lintra_protocol.problems import STATUS
from lintra_service.answers import as_lintra_error

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ConsoleRoute(APIRoute):
    """A page, or what a form is sent to."""

    def get_route_handler(self) -> Handler:
        """Return what answers a request."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                admit(request)
                return with_headers(await handle(request))
            except (LintraError, RequestValidationError, HTTPException) as error:
                return refusal(request, as_lintra_error(error))

        return answer


def console_router() -> APIRouter:
    """Return a router for pages, which the description of the REST interface leaves out."""
    return APIRouter(route_class=ConsoleRoute, include_in_schema=False)


def refusal(request: Request, error: LintraError) -> Response:
    """Return the page that says why something was refused."""
    request.state.error = error.token
    return page(request, "refusal.html", STATUS[type(error)], error=error, request_id=request.state.request_id)
