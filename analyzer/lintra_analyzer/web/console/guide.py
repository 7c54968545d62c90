"""The guided way to a new task: one question a page, then the plan in sentences; the form of all fields is beside it.

Nothing is kept between the pages: each carries what was said before, and the last one sends the same fields as the
long form. A sample of a table is read in memory, and forgotten with the request.
"""

from contextlib import suppress
from functools import partial
from typing import Annotated, Literal

from fastapi import Query, Request
from fastapi.responses import HTMLResponse

from lintra_analyzer.web.admission import ThisService, holder_of, while_present
from lintra_analyzer.web.console.forms import Form, field, filled_in, with_file
from lintra_analyzer.web.console.new_task import computed
from lintra_analyzer.web.console.pages import page
from lintra_analyzer.web.console.plan import ShownPlan, require_plannable, shown_plan
from lintra_analyzer.web.console.routing import console_router
from lintra_analyzer.web.console.sample import SampleColumns, columns_of_sample, require_closed
from lintra_analyzer.web.console.task_form import (
    KINDS,
    FormComplaint,
    asked_by,
    columns_of,
    complaint_of,
    shown,
)
from lintra_protocol.errors import InvalidTableError, InvalidTaskError, LintraError
from lintra_service.work_pool import WorkRefusedError

Question = Literal["about", "columns", "learn", "people", "promise", "plan"]
QUESTIONS: dict[Question, str] = {
    "about": "What is it about?",
    "columns": "What does each person hold?",
    "learn": "What is to be learned?",
    "people": "Who sends?",
    "promise": "How strong is the promise?",
    "plan": "The plan",
}
ORDER: list[Question] = list(QUESTIONS)
FIELDS_OF: dict[Question, tuple[str, ...]] = {
    "about": ("purpose", "population"),
    "columns": ("columns",),
    "learn": ("kind", "target"),
    "people": ("min_clients", "days", "client_auth"),
    "promise": ("epsilon",),
    "plan": (),
}
OFFERED = ("second_moment", "sum", "histogram", "ron_gauss", "range_finder")
"""Kinds among which the guide lets somebody choose; the long form has all."""

PROMISES = {
    "0.5": "very strong: whoever suspects somebody learns next to nothing",
    "1": "strong: the usual choice",
    "2": "moderate: answers have half the noise",
    "4": "weak: for small groups, if nothing else tells anything",
}
"""Epsilons to choose from, in words."""

router = console_router()


@router.get("/tasks/new/guide")
def begin(request: Request) -> HTMLResponse:
    """Ask the first question."""
    return _asked(request, "about", {})


@router.post("/tasks/new/guide")
async def go_on(request: Request, service: ThisService, at: Annotated[Question, Query()] = "about") -> HTMLResponse:
    """Take the answer to a question, and ask the next one, the one before, or a named one; nothing is kept."""
    form = await filled_in(request)
    go = field(form, "go")
    try:
        if go == "sample":
            found = await _sample(request, service, form)
            return _asked(request, "columns", form | {"columns": [found.text]}, remarks=found.remarks)
        wanted = _next(at, go)
        if ORDER.index(wanted) > ORDER.index(at):
            _require_answered(form, at)
        if wanted != "plan":
            return _asked(request, wanted, form)
        return await _planned(request, service, form)
    except LintraError as error:
        complaint = complaint_of(error.detail or error.title(), field(form, "kind"))
        place = next((one for one, names in FIELDS_OF.items() if complaint.field in names), at)
        return _asked(request, place, form, complaint=complaint)


def _next(at: Question, go: str) -> Question:
    for known in ORDER:
        if go == known:
            return known
    step = -1 if go == "back" else 1
    return ORDER[min(max(ORDER.index(at) + step, 0), len(ORDER) - 1)]


def _require_answered(form: Form, at: Question) -> None:
    """Check the answer to one question; raise InvalidTaskError if it is none; the detail begins with its field."""
    said = shown(form)
    if at == "about" and not said["purpose"]:
        raise InvalidTaskError("purpose: say in a sentence what you want to learn; devices show it to people")
    if at == "columns":
        require_closed(said["columns"])
        columns_of(said["columns"])
    if at == "learn" and said["target"]:
        names = [str(column["name"]) for column in columns_of(said["columns"])]
        if said["target"] not in names:
            raise InvalidTaskError(f"target: one of the columns {', '.join(names[:12])}, or nothing")
    if at in ("people", "promise"):
        asked_by(form)


async def _planned(request: Request, service: ThisService, form: Form) -> HTMLResponse:
    asked = asked_by(form)
    require_plannable(asked, service.settings.work_seconds)
    found = await computed(request, service, asked, shown_plan, asked, len(service.settings.servers), service.now())
    return _asked(request, "plan", form, plan=found)


async def _sample(request: Request, service: ThisService, form: Form) -> SampleColumns:
    content_type = request.headers.get("content-type", "").partition(";")[2]
    _, content = with_file(await request.body(), content_type)
    if not content:
        raise InvalidTaskError("columns: choose a file first")
    is_public = field(form, "is_public") == "yes"
    who = holder_of(request).name
    try:
        return await while_present(
            request, service.work.run(who, partial(columns_of_sample, is_public=is_public), content)
        )
    except (InvalidTableError, WorkRefusedError) as error:
        said = error.detail if isinstance(error, InvalidTableError) else str(error)
        raise InvalidTaskError(f"columns: {said}") from None


def _asked(
    request: Request,
    at: Question,
    form: Form,
    plan: ShownPlan | None = None,
    complaint: FormComplaint | None = None,
    remarks: tuple[str, ...] = (),
) -> HTMLResponse:
    """Show one question, with what was said before in fields that nobody sees."""
    said = shown(form)
    names: list[str] = []
    with suppress(InvalidTaskError):  # the page of the columns says what is wrong with them
        names = [str(column["name"]) for column in columns_of(said["columns"])]
    return page(
        request,
        "guide.html",
        at=at,
        place=ORDER.index(at),
        questions=QUESTIONS,
        asked=said,
        carried={name: value for name, value in said.items() if value and name not in FIELDS_OF[at]},
        complaint=complaint,
        kinds={kind: KINDS[kind] for kind in OFFERED},
        promises=PROMISES,
        names=names,
        plan=plan,
        remarks=remarks,
    )
