"""The pages about models: the list, and one model with its rounds, its picture, and why it has no interval."""

from typing import Annotated

from fastapi import Path, Request
from fastapi.responses import HTMLResponse, Response

from lintra_analysis.estimators.figures import INSTALL
from lintra_analysis.estimators.svg import can_draw
from lintra_analyzer.storage.readable import purpose_in
from lintra_analyzer.web.admission import Before, ThisService, holder_of
from lintra_analyzer.web.console.analyses import table_of
from lintra_analyzer.web.console.pages import page
from lintra_analyzer.web.console.routing import console_router, see
from lintra_analyzer.web.models import model_view

STATES = {
    "collecting": "takes reports",
    "running": "is being released",
    "waiting": "waits for reports or servers",
    "failed": "somebody must act",
    "released": "released",
    "refused": "not at all servers yet",
}

router = console_router()

TaskId = Annotated[str, Path(max_length=64)]


@router.get("/models")
def models(request: Request, service: ThisService, cursor: Before = None) -> HTMLResponse:
    """List the models in the holder's scope, the newest first, a page at a time."""
    found = service.store.listed.models(holder_of(request).scope, cursor)
    tasks = service.store.listed.some_tasks([stored.task_id for stored in found.rows])
    purposes = {stored.task_id: purpose_in(stored) for stored in tasks}
    lines = [(stored, purposes[stored.task_id]) for stored in found.rows]
    return page(request, "models.html", models=lines, following=found.following, cursor=cursor)


@router.get("/models/{task_id}")
def model(request: Request, service: ThisService, task_id: TaskId) -> HTMLResponse:
    """Show the rounds of a model, the coefficients of the last, and what keeps them from having intervals."""
    found = service.models.show(task_id)
    estimate = found.estimate
    return page(
        request,
        "model.html",
        model=model_view(service, found),
        states=STATES,
        estimate=estimate,
        table=None if estimate is None else table_of(estimate),
        missing="" if can_draw() else INSTALL,
        may=holder_of(request).may("analyst"),
    )


@router.post("/models/{task_id}/stop")
async def stop(service: ThisService, task_id: TaskId) -> Response:
    """Make no further round of a model."""
    service.models.stop(task_id)
    return see(f"/models/{task_id}")
