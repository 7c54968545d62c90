"""The pages about tasks: the list, one task, and what its servers hold."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

from fastapi import Path, Query, Request
from fastapi.responses import HTMLResponse, Response

from lintra_analyzer.service import Service
from lintra_analyzer.storage.readable import task_in
from lintra_analyzer.storage.rows import StoredTask
from lintra_analyzer.web.admission import Before, ThisService, holder_of
from lintra_analyzer.web.console.pages import page
from lintra_analyzer.web.console.routing import console_router, see
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
from lintra_protocol.messages.documents import BATCH
from lintra_protocol.task import Task

REGISTRATIONS = {"accepted": "accepted", "pending": "not asked yet", "refused": "refused"}
"""What a server said to a task."""

router = console_router()

TaskId = Annotated[str, Path(max_length=64)]
Batch = Annotated[int, Query(ge=0, lt=MAX_WINDOWS)]


@dataclass(frozen=True)
class TaskLine:
    """One line of the list; of a task that cannot be read only why."""

    task_id: str
    population: str
    unreadable: str = ""
    task: Task | None = None
    standing: TaskStatus | None = None
    left: str = ""


@router.get("/")
def tasks(request: Request, service: ThisService, cursor: Before = None) -> HTMLResponse:
    """List the tasks in the holder's scope, the newest first, a page at a time."""
    found = service.store.listed.tasks(holder_of(request).scope, cursor)
    lines = _lines(service, found.rows)
    return page(request, "tasks.html", tasks=lines, following=found.following, cursor=cursor)


@router.get("/tasks/{task_id}")
def task(request: Request, service: ThisService, task_id: TaskId) -> HTMLResponse:
    """Show how a task stands, what opens the gate, and what devices are asked for."""
    stored = service.store.task(task_id)
    definition, states = task_in(stored), service.store.registrations(task_id)
    released = service.store.num_releases(task_id) if definition.windows is not None else 0
    standing = standing_of(definition, states, service.store.job(task_id), service.now(), released)
    return page(
        request,
        "task.html",
        task=definition,
        population=stored.population,
        standing=standing,
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


def _lines(service: Service, rows: list[StoredTask]) -> list[TaskLine]:
    task_ids, listed, now = [stored.task_id for stored in rows], service.store.listed, service.now()
    states, jobs, released = listed.registrations(task_ids), listed.jobs(task_ids), listed.num_releases(task_ids)
    lines = []
    for stored in rows:
        task_id, population = stored.task_id, stored.population
        try:
            definition = task_in(stored)
        except LintraError as error:
            lines.append(TaskLine(task_id, population, error.detail))
            continue
        count = released.get(task_id, 0) if definition.windows is not None else 0
        standing = standing_of(definition, states[task_id], jobs.get(task_id), now, count)
        lines.append(TaskLine(task_id, population, "", definition, standing, time_left(definition, now, standing)))
    return lines
