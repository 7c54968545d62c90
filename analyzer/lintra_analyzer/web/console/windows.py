"""The pages about the windows of a task: what became of each, and how a mean moves from one to the next."""

import asyncio
import json
from operator import attrgetter
from typing import Annotated, Literal

from fastapi import Path, Query, Request
from fastapi.responses import HTMLResponse, Response

from lintra_analysis.estimators.svg import Theme, svg_of
from lintra_analysis.estimators.trend import TrendEstimate, trend
from lintra_analyzer.service import Service
from lintra_analyzer.storage.pages import PAGE
from lintra_analyzer.web.admission import ThisService, holder_of, while_present
from lintra_analyzer.web.analyses import Analysis, Form
from lintra_analyzer.web.combining import combine
from lintra_analyzer.web.console.analyses import PICTURE_HEADERS, SVG, file_of, form_and_table
from lintra_analyzer.web.console.analysis_forms import AnalysisForm
from lintra_analyzer.web.console.pages import page
from lintra_analyzer.web.console.routing import console_router
from lintra_analyzer.web.trends import TrendRequest, parse_trend, promise_of_all
from lintra_analyzer.web.views import together_view, window_view
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.fields.windows import MAX_WINDOWS

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
    task, asked = service.task(task_id), AnalysisForm(TREND, request.query_params.multi_items())
    listed = service.windows(task_id, start, PAGE + 1)
    complaint, found = "", None
    try:
        if asked.complete:
            found = await _trend(request, service, task_id, asked)
    except InvalidAnalysisError as error:
        complaint = error.detail
    return page(
        request,
        "windows.html",
        status=400 if complaint else 200,
        task=task,
        windows=[window_view(window) for window in listed[:PAGE]],
        states=STATES,
        following=start + PAGE if len(listed) > PAGE else None,
        start=start,
        together=together_view(task),
        **form_and_table(asked, found, complaint),
        columns=[column.name for column in task.columns],
        text="" if found is None else found.summary(promise_of_all(task)),
    )


@router.get("/tasks/{task_id}/windows/picture.svg")
async def picture(request: Request, service: ThisService, task_id: TaskId, theme: Theme = "light") -> Response:
    """Draw a mean over the windows. New windows come, so nothing is kept."""
    found = await _trend(request, service, task_id, AnalysisForm(TREND, request.query_params.multi_items()))
    return Response(await asyncio.to_thread(svg_of, found.plot, theme), media_type=SVG, headers=PICTURE_HEADERS)


@router.get("/tasks/{task_id}/windows/table.{ending}")
async def table(
    request: Request, service: ThisService, task_id: TaskId, ending: Literal["csv", "npz", "parquet"]
) -> Response:
    """Return a mean over the windows as a file."""
    found = await _trend(request, service, task_id, AnalysisForm(TREND, request.query_params.multi_items()))
    return file_of(found, ending, f"lintra-windows-{task_id}")


async def _trend(request: Request, service: Service, task_id: str, asked: AnalysisForm) -> TrendEstimate:
    wanted = parse_trend(json.dumps(asked.document()).encode())
    return await while_present(request, combine(service, task_id, wanted, holder_of(request).name, "trend"))
