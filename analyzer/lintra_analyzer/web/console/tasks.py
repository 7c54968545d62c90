"""The pages about tasks: one task, and what its servers hold."""

from contextlib import suppress
from typing import Annotated

from fastapi import Path, Query, Request
from fastapi.responses import HTMLResponse, Response

from lintra_analyzer.service import Service
from lintra_analyzer.storage.readable import task_in
from lintra_analyzer.storage.rows import StoredTask
from lintra_analyzer.web.admission import ThisService, holder_of
from lintra_analyzer.web.console.pages import page
from lintra_analyzer.web.console.routing import console_router, see
from lintra_analyzer.web.console.stages import reports_bar, steps_of, windows_bar
from lintra_analyzer.web.console.task_text import (
    TaskStatus,
    asked_of_device,
    gate_of,
    in_words,
    span_in_words,
    standing_of,
    time_left,
    warnings_in,
)
from lintra_analyzer.web.views import gate_now
from lintra_protocol.errors import LintraError
from lintra_protocol.fields.windows import MAX_WINDOWS
from lintra_protocol.messages.documents import BATCH, Inventory, Signed
from lintra_protocol.task import Task

REGISTRATIONS = {"accepted": "accepted", "pending": "not asked yet", "refused": "refused"}
"""What a server said to a task."""

router = console_router()

TaskId = Annotated[str, Path(max_length=64)]
Batch = Annotated[int, Query(ge=0, lt=MAX_WINDOWS)]


@router.get("/tasks/{task_id}")
def task(request: Request, service: ThisService, task_id: TaskId) -> HTMLResponse:
    """Show how a task stands, what opens the gate, and what devices are asked for."""
    stored = service.store.task(task_id)
    definition, states = task_in(stored), service.store.registrations(task_id)
    released = service.store.num_releases(task_id) if definition.windows is not None else 0
    job = service.store.job(task_id)
    standing = standing_of(definition, states, job, service.now(), released)
    bar, steps = None, []
    if definition.windows is not None:
        bar = windows_bar(definition, released)
    else:
        steps = steps_of(definition, standing, job, _times(service, stored, definition, standing))
        bar = reports_bar(definition, service.counts.known(task_id), service.now()) if standing.collects else None
    return page(
        request,
        "task.html",
        task=definition,
        population=stored.population,
        standing=standing,
        steps=steps,
        bar=bar,
        left=time_left(definition, service.now(), standing),
        states=[
            (definition.servers[each.server].url, REGISTRATIONS[each.state], each.problem and in_words(each.problem))
            for each in states
        ],
        gate=gate_of(definition),
        device=list(asked_of_device(definition)),
        warnings=warnings_in(definition),
        may=holder_of(request).may("analyst"),
        specification=stored.specification.decode(),
    )


@router.get("/tasks/{task_id}/servers")
async def servers(request: Request, service: ThisService, task_id: TaskId) -> HTMLResponse:
    """Ask the servers of a task what they have received."""
    definition = service.task(task_id)
    found = await service.live_states(task_id)
    # A server that refused a task does not know it. Why it refused says more than that.
    reasons = {state.server: state.problem for state in service.store.registrations(task_id) if state.problem}
    lines = [
        (
            definition.servers[state.server].url,
            state.problem and in_words(reasons.get(state.server, state.problem)),
            counters,
        )
        for state, counters in found
    ]
    unit = span_in_words(definition.time_precision)
    return page(request, "servers.html", task=definition, lines=lines, now=service.now(), unit=unit)


@router.get("/tasks/{task_id}/census")
async def census(request: Request, service: ThisService, task_id: TaskId, batch: Batch = BATCH) -> HTMLResponse:
    """Ask every server which reports it holds, and say who lacks how many, and whether the gate would open."""
    definition = service.task(task_id)
    job = service.store.job(task_id, batch)
    if job is not None and (job.stage != "inventory" or job.state == "released"):
        return page(request, "closed.html", task=definition, release_id=job.release_id)
    found = await service.census(task_id, batch)
    urls = [entry.url for entry in definition.servers]
    moments = [count.counted_at * definition.time_precision for count in found.servers]
    return page(
        request,
        "census.html",
        task=definition,
        census=found,
        urls=urls,
        gate=gate_now(definition, found),
        oldest=min(moments),
        newest=max(moments),
        unit=span_in_words(definition.time_precision),
    )


@router.post("/tasks/{task_id}/release")
async def release(service: ThisService, task_id: TaskId) -> Response:
    """Start the release of a task's only batch, or try it again."""
    service.start_release(task_id)
    return see(f"/tasks/{task_id}")


@router.post("/tasks/{task_id}/registration")
async def registration(service: ThisService, task_id: TaskId) -> Response:
    """Bring a task to every server; its page says what each of them answered."""
    service.task(task_id)
    with suppress(LintraError):
        await service.register_task(task_id)
    return see(f"/tasks/{task_id}")


def _times(service: Service, stored: StoredTask, task: Task, standing: TaskStatus) -> dict[str, int]:
    """Return when a task's steps were done, as far as signed documents say it."""
    times = {"made": stored.created_at}
    bodies = (service.store.document(task.task_id, BATCH, "inventory", server) for server in range(task.num_servers))
    with suppress(LintraError, ValueError):
        closed = [Signed[Inventory].from_canonical(body).message.closed_at for body in bodies if body is not None]
        if len(closed) == task.num_servers:
            # It is told in the task's unit of time, so it may lie before the task was made.
            times["collected"] = max(stored.created_at, max(closed) * task.time_precision)
    if standing.release_id is not None:
        with suppress(LintraError):
            times["released"] = service.record(standing.release_id).record.released_at
    return times
