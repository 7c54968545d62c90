"""The pages about the windows of a task: what became of each, how a mean moves, and timelines of a stream."""

import asyncio
import json
from operator import attrgetter
from typing import Annotated, Literal

from fastapi import Path, Query, Request
from fastapi.responses import HTMLResponse, Response

from lintra_analysis.estimators.svg import Theme, svg_of
from lintra_analysis.estimators.table import Estimate
from lintra_analysis.estimators.timeline import timeline
from lintra_analysis.estimators.trend import trend
from lintra_analyzer.service import Service
from lintra_analyzer.storage.pages import PAGE
from lintra_analyzer.web.admission import ThisService, holder_of, while_present
from lintra_analyzer.web.analyses import Analysis, Form
from lintra_analyzer.web.combining import combine, combine_stream
from lintra_analyzer.web.console.analyses import (
    PICTURE_HEADERS,
    SHOWN_PICTURES,
    SVG,
    Shown,
    file_of,
    form_and_table,
)
from lintra_analyzer.web.console.analysis_forms import AnalysisForm
from lintra_analyzer.web.console.pages import page
from lintra_analyzer.web.console.routing import console_router
from lintra_analyzer.web.trends import TimelineRequest, TrendRequest, parse_combination, parse_trend, promise_of_all
from lintra_analyzer.web.views import together_view, window_view
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.fields.windows import MAX_WINDOWS
from lintra_protocol.task import Task

TREND = Analysis(
    "trend",
    TrendRequest,
    trend,
    attrgetter("columns"),
    Form(
        "A mean over the windows",
        "How does the mean of a column change from window to window?",
        "Points are the windows' means, lines their intervals; the dashed line is the mean of all of them.",
        ("column", "of", "confidence", "first", "last"),
    ),
)
TIMELINE = Analysis(
    "timeline",
    TimelineRequest,
    timeline,
    attrgetter("columns"),
    Form(
        "Windows together",
        "What is the mean of a column in each window, in all up to each, or in so many in a row?",
        "The line is the mean, the band its intervals; a gap breaks both.",
        ("over", "width", "first", "last", "columns", "of", "confidence"),
    ),
)
STATES = {
    "open": "takes reports",
    "due": "over; its release has not begun",
    "running": "is being released",
    "waiting": "waits for reports or servers",
    "released": "released",
    "merged": "part of a later window",
    "gap": "will never be released",
    "failed": "somebody must act",
    "unreadable": "cannot be read",
}

router = console_router()

TaskId = Annotated[str, Path(max_length=64)]


@router.get("/tasks/{task_id}/windows")
async def windows(
    request: Request, service: ThisService, task_id: TaskId, start: Annotated[int, Query(ge=0, lt=MAX_WINDOWS)] = 0
) -> HTMLResponse:
    """List the windows of a task from the number `start` on, and draw a mean over them if one is asked for."""
    listed = service.windows(task_id, start, PAGE + 1)
    return await _page(
        request,
        service,
        service.task(task_id),
        "windows.html",
        windows=[window_view(window) for window in listed[:PAGE]],
        states=STATES,
        following=start + PAGE if len(listed) > PAGE else None,
        start=start,
    )


@router.get("/tasks/{task_id}/timeline")
async def timelines(request: Request, service: ThisService, task_id: TaskId) -> HTMLResponse:
    """Draw columns over any windows of a stream, added up."""
    task = service.windowed(task_id)
    return await _page(request, service, task, "timeline.html", num_windows=task.num_batches)


@router.get("/tasks/{task_id}/windows/picture.svg")
@router.get("/tasks/{task_id}/timeline/picture.svg")
async def picture(
    request: Request, service: ThisService, task_id: TaskId, theme: Theme = "light", shown: Shown = ""
) -> Response:
    """Draw what is asked about the windows. New windows come, so nothing is kept."""
    found = await _found(request, service, task_id, _form(request))
    return Response(
        await asyncio.to_thread(svg_of, found.drawing(shown), theme), media_type=SVG, headers=PICTURE_HEADERS
    )


@router.get("/tasks/{task_id}/windows/table.{ending}")
@router.get("/tasks/{task_id}/timeline/table.{ending}")
async def table(
    request: Request, service: ThisService, task_id: TaskId, ending: Literal["csv", "npz", "parquet"]
) -> Response:
    """Return what is asked about the windows as a file."""
    form = _form(request)
    found = await _found(request, service, task_id, form)
    return file_of(found, ending, f"lintra-{_place(request)}-{task_id}")


def _place(request: Request) -> str:
    return request.url.path.split("/")[3]


def _form(request: Request) -> AnalysisForm:
    offer = TIMELINE if _place(request) == "timeline" else TREND
    return AnalysisForm(offer, request.query_params.multi_items())


async def _page(request: Request, service: Service, task: Task, template: str, **parts: object) -> HTMLResponse:
    """Return a page with a form about windows, and with its answer if it is filled in."""
    asked, complaint, found = _form(request), "", None
    try:
        if asked.complete and asked.values:
            found = await _found(request, service, task.task_id, asked)
    except InvalidAnalysisError as error:
        complaint = error.detail
    return page(
        request,
        template,
        status=400 if complaint else 200,
        task=task,
        address=f"/tasks/{task.task_id}/{_place(request)}",
        together=together_view(task),
        **form_and_table(asked, found, complaint),
        columns=[column.name for column in task.columns],
        pictures=() if found is None else found.pictures[:SHOWN_PICTURES],
        text="" if found is None else found.summary(promise_of_all(task)),
        **parts,
    )


async def _found(request: Request, service: Service, task_id: str, asked: AnalysisForm) -> Estimate:
    body, who = json.dumps(asked.document()).encode(), holder_of(request).name
    if asked.offer is TIMELINE:
        wanted = parse_combination("timeline", TimelineRequest, body)
        return await while_present(request, combine_stream(service, task_id, wanted, who, "timeline"))
    return await while_present(request, combine(service, task_id, parse_trend(body), who, "trend"))
