"""The pages about tasks: the list, one task, and what its servers hold."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

from fastapi import Path, Query, Request
from fastapi.responses import HTMLResponse, Response

from lintra_analyzer.service import Service
from lintra_analyzer.storage.store import StoredTask
from lintra_analyzer.web.admission import ThisService, holder_of, visible_tasks
from lintra_analyzer.web.console.pages import page
from lintra_analyzer.web.console.routing import console_router, see
from lintra_analyzer.web.console.task_words import (
    Standing,
    asked_of_device,
    gate_now,
    gate_of,
    in_words,
    span_in_words,
    standing_of,
    time_left,
    warnings_in,
)
from lintra_protocol.errors import LintraError
from lintra_protocol.messages import BATCH
from lintra_protocol.task import Task
from lintra_protocol.windows import MAX_WINDOWS

router = console_router()

TaskId = Annotated[str, Path(max_length=64)]
Batch = Annotated[int, Query(ge=0, lt=MAX_WINDOWS)]


@dataclass(frozen=True)
class TaskLine:
    """One line of the list."""

    task: Task
    population: str
    standing: Standing
    left: str


@router.get("/")
def tasks(request: Request, service: ThisService) -> HTMLResponse:
    """List the tasks in the holder's scope, the newest first."""
    found = [
        TaskLine(task, stored.population, _standing(service, stored), time_left(task, service.now()))
        for stored in visible_tasks(request)
        for task in [service.described(stored)[0]]
    ]
    return page(request, "tasks.html", tasks=found)


@router.get("/tasks/{task_id}")
def task(request: Request, service: ThisService, task_id: TaskId) -> HTMLResponse:
    """Show how a task stands, what opens the gate, and what devices are asked for."""
    stored = service.store.task(task_id)
    definition, states = service.described(stored)
    return page(
        request,
        "task.html",
        task=definition,
        population=stored.population,
        standing=_standing(service, stored),
        left=time_left(definition, service.now()),
        states=[
            (definition.servers[each.server].url, each, each.problem and in_words(each.problem)) for each in states
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
    lines = [
        (definition.servers[state.server].url, state.problem and in_words(state.problem), counters)
        for state, counters in found
    ]
    unit = span_in_words(definition.time_precision)
    return page(request, "servers.html", task=definition, lines=lines, now=service.now(), unit=unit)


@router.get("/tasks/{task_id}/census")
async def census(request: Request, service: ThisService, task_id: TaskId, batch: Batch = BATCH) -> HTMLResponse:
    """Ask every server which reports it holds, and say who lacks how many, and whether the gate would open."""
    definition = service.task(task_id)
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
    """Bring a task to the servers that have not accepted it; its page says what each of them answered."""
    service.task(task_id)
    with suppress(LintraError):
        await service.register_task(task_id)
    return see(f"/tasks/{task_id}")


def _standing(service: Service, stored: StoredTask) -> Standing:
    definition, states = service.described(stored)
    released = service.store.num_releases(stored.task_id) if definition.windows is not None else 0
    return standing_of(definition, states, service.store.job(stored.task_id), service.now(), released)
