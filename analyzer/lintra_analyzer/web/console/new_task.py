"""The page of a new task: the form, and beside it what to expect of the task; nobody is asked before it is made."""

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, TypeVar

from fastapi import Query, Request
from fastapi.responses import HTMLResponse, Response

from lintra_analyzer.service import Service
from lintra_analyzer.web.admission import ThisService, holder_of, require_new, while_present
from lintra_analyzer.web.console.forms import Form, filled_in
from lintra_analyzer.web.console.options import CONTRIBUTORS, OTHERS, WINDOWS, mechanism_options, mechanism_words
from lintra_analyzer.web.console.pages import page
from lintra_analyzer.web.console.plan import ShownPlan, is_small, require_plannable, shown_plan
from lintra_analyzer.web.console.routing import console_router, see
from lintra_analyzer.web.console.task_form import LABELS, TaskForm, asked_by, complaint_of, kinds, shown
from lintra_analyzer.web.console.task_text import refusals_of
from lintra_protocol.errors import InvalidTaskError, LintraError, PolicyRefusedError
from lintra_protocol.http.problems import STATUS
from lintra_protocol.task import Task
from lintra_service.work_pool import WorkRefusedError

T = TypeVar("T")

router = console_router()

GROUPS = (
    ("Windows of time: release it again and again", "all empty: it is released once", WINDOWS),
    ("Organisations, each with rows of many people", "all empty: every report is one row", CONTRIBUTORS),
    ("Who is trusted, and other settings", "empty: by rule", OTHERS),
)
"""Options of a task that few need, by what they are about."""


@router.get("/tasks/new")
def new_task(request: Request, kind: Annotated[str, Query(max_length=100)] = "") -> HTMLResponse:
    """Show an empty form, with the options of a kind of mechanism."""
    return _asking(request, {"kind": [kind]} if kind else {})


@router.post("/tasks/new/plan")
async def plan(request: Request, service: ThisService) -> HTMLResponse:
    """Show what to expect of the task, beside the form; it changes nothing."""
    form = await filled_in(request)
    try:
        asked = asked_by(form)
        require_plannable(asked, service.settings.work_seconds)
        found = await computed(request, service, asked, shown_plan, asked, len(service.settings.servers), service.now())
    except LintraError as error:
        return _asking(request, form, complaint=_in_words(error))
    return _asking(request, form, found)


@router.post("/tasks")
async def make(request: Request, service: ThisService) -> Response:
    """Make the task, and bring it to every server; the form comes again if it cannot be."""
    form = await filled_in(request)
    try:
        asked = asked_by(form)
        require_new(request, asked.population)
        specification = await computed(request, service, asked, TaskForm.specification, asked)
        task = await service.create_task(specification, None, asked.population)
    except LintraError as error:
        return _asking(request, form, complaint=_in_words(error), status=STATUS[type(error)])
    # The task is kept: if a server is away, its page offers to try again.
    with suppress(LintraError):
        await service.register_task(task.task_id)
    if refused := refusals_of(service.store.registrations(task.task_id)):
        problem = refused[0].problem or {}
        said = str(problem.get("detail") or problem.get("title"))
        return _asking(request, form, complaint=said, status=STATUS[PolicyRefusedError], refused=task)
    return see(f"/tasks/{task.task_id}")


async def computed(
    request: Request, service: Service, asked: TaskForm, work: Callable[..., T], *arguments: object
) -> T:
    """Return what a computation about a task gives, within the caps, and only as long as the page is there."""
    who = holder_of(request).name
    try:
        return await while_present(request, service.work.run(who, work, *arguments, small=is_small(asked)))
    except WorkRefusedError as error:
        raise InvalidTaskError(f"columns: {error}; use fewer columns, or `lintra plan` in a terminal") from None


def _asking(
    request: Request,
    form: Form,
    plan: ShownPlan | None = None,
    complaint: str = "",
    status: int = 200,
    refused: Task | None = None,
) -> HTMLResponse:
    """Show the form as it was filled in; `refused` is a task that a server did not take, for the complaint."""
    asked = shown(form)
    return page(
        request,
        "new_task.html",
        status,
        asked=asked,
        kinds=kinds(),
        options=mechanism_options(asked["kind"]),
        words=mechanism_words(asked["kind"]),
        groups=GROUPS,
        plan=plan,
        complaint=complaint_of(complaint, asked["kind"]) if complaint else None,
        refused=refused,
        labels=LABELS,
    )


def _in_words(error: LintraError) -> str:
    return error.detail or error.title()
