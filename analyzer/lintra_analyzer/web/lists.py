"""The lists of the REST interface: tasks, windows and releases, a page at a time."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from lintra_analyzer.storage.pages import PAGE
from lintra_analyzer.web.admission import Before, ThisService, holder_of
from lintra_analyzer.web.description import refusals
from lintra_analyzer.web.views import (
    ReleaseSummary,
    TaskSummary,
    UnreadableRelease,
    UnreadableTask,
    WindowView,
    listed_release,
    listed_task,
    window_view,
)
from lintra_protocol.fields.windows import MAX_WINDOWS

Limit = Annotated[int, Query(ge=1, le=PAGE, description="Most entries of a page.")]


def lists() -> APIRouter:
    """Return the routes of all lists."""
    router = APIRouter(prefix="/v1")

    @router.get("/tasks", tags=["tasks"], responses=refusals())
    def list_tasks(
        service: ThisService, request: Request, response: Response, cursor: Before = None, limit: Limit = PAGE
    ) -> list[TaskSummary | UnreadableTask]:
        """List the tasks in the token's scope, the newest first; the header Link leads to the next page."""
        found = service.store.listed.tasks(holder_of(request).scope, cursor, limit)
        states = service.store.listed.registrations([stored.task_id for stored in found.rows])
        _lead_on(response, found.following, limit)
        return [listed_task(stored, states[stored.task_id]) for stored in found.rows]

    @router.get("/tasks/{task_id}/windows", tags=["releases"], responses=refusals(404))
    def windows(
        service: ThisService,
        task_id: str,
        response: Response,
        first: Annotated[int, Query(ge=0, lt=MAX_WINDOWS)] = 0,
        count: Limit = PAGE,
    ) -> list[WindowView]:
        """List the windows of a task that have begun, and what became of them, from the number `first` on.

        The header Link leads to the next page.
        """
        found = service.windows(task_id, first, count + 1)
        if len(found) > count:
            response.headers["link"] = f'<?first={first + count}&count={count}>; rel="next"'
        return [window_view(window) for window in found[:count]]

    @router.get("/releases", tags=["releases"], responses=refusals())
    def list_releases(
        service: ThisService, request: Request, response: Response, cursor: Before = None, limit: Limit = PAGE
    ) -> list[ReleaseSummary | UnreadableRelease]:
        """List the releases in the token's scope, the newest first; the header Link leads to the next page."""
        found = service.store.listed.releases(holder_of(request).scope, cursor, limit)
        _lead_on(response, found.following, limit)
        return [listed_release(stored) for stored in found.rows]

    return router


def _lead_on(response: Response, following: int | None, limit: int) -> None:
    """Say where the next page of a list is, in words relative to this one (RFC 8288)."""
    if following is not None:
        response.headers["link"] = f'<?cursor={following}&limit={limit}>; rel="next"'
