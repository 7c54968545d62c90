"""The start page: what is going on with every task, a page at a time, narrowed to what somebody looks for."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query, Request
from fastapi.responses import HTMLResponse

from lintra_analyzer.service import Service
from lintra_analyzer.storage.pages import PAGE
from lintra_analyzer.storage.readable import record_in, task_in
from lintra_analyzer.storage.rows import StoredRelease, StoredTask
from lintra_analyzer.tasks.task_index import GROUPS, Group
from lintra_analyzer.web.admission import Before, ThisService, holder_of
from lintra_analyzer.web.console.pages import page
from lintra_analyzer.web.console.routing import console_router
from lintra_analyzer.web.console.stages import Bar, TaskStep, reports_bar, steps_of, windows_bar
from lintra_analyzer.web.console.task_text import TaskStatus, standing_of, time_left
from lintra_protocol.errors import LintraError
from lintra_protocol.task import Task

MOST_LETTERS = 200
MOST_KEPT = 2000

router = console_router()


@dataclass(frozen=True)
class ReleasedRows:
    """What a line says of a release."""

    rows: int
    at: int  #: seconds since the epoch


@dataclass(frozen=True)
class TaskLine:
    """One task of the list; of one that cannot be read only why."""

    task_id: str
    population: str
    unreadable: str = ""
    task: Task | None = None
    standing: TaskStatus | None = None
    left: str = ""
    steps: tuple[TaskStep, ...] = ()
    bar: Bar | None = None
    released: ReleasedRows | None = None


_releases: OrderedDict[str, ReleasedRows] = OrderedDict()
"""Of the releases that were listed last; a release never changes."""


@router.get("/")
async def start(
    request: Request,
    service: ThisService,
    cursor: Before = None,
    words: Annotated[str, Query(max_length=MOST_LETTERS)] = "",
    group: Group = "today",
) -> HTMLResponse:
    """List the tasks in the holder's scope, the newest first, a page at a time."""
    arguments = holder_of(request).scope, words, group, service.now(), cursor, PAGE
    found, counts = await asyncio.to_thread(service.index.page, *arguments)
    lines = await asyncio.to_thread(_lines, service, found.rows)
    service.counts.refresh(line.task_id for line in lines if line.standing and line.standing.collects)
    return page(
        request,
        "start.html",
        tasks=lines,
        following=found.following,
        cursor=cursor,
        words=words,
        group=group,
        groups=GROUPS,
        counts=counts,
        query=urlencode({name: value for name, value in (("words", words), ("group", group)) if value}),
    )


def _lines(service: Service, rows: list[StoredTask]) -> list[TaskLine]:
    task_ids, listed, now = [stored.task_id for stored in rows], service.store.listed, service.now()
    states, jobs, released = listed.registrations(task_ids), listed.jobs(task_ids), listed.num_releases(task_ids)
    records = _released(listed.records([one for one in task_ids if one in jobs]))
    lines = []
    for stored in rows:
        task_id, population = stored.task_id, stored.population
        try:
            definition = task_in(stored)
        except LintraError as error:
            lines.append(TaskLine(task_id, population, error.detail))
            continue
        count, job, bar = released.get(task_id, 0), jobs.get(task_id), None
        standing = standing_of(definition, states[task_id], job, now, count)
        steps: list[TaskStep] = []
        if definition.windows is not None:
            bar = windows_bar(definition, count)
        else:
            steps = steps_of(definition, standing, job, {})
            bar = reports_bar(definition, service.counts.known(task_id), now) if standing.collects else None
        left, done = time_left(definition, now, standing), None if definition.windows else records.get(task_id)
        line = TaskLine(task_id, population, "", definition, standing, left, tuple(steps), bar, done)
        lines.append(line)
    return lines


def _released(found: Mapping[str, StoredRelease]) -> dict[str, ReleasedRows]:
    """Return what lines say of the releases of some tasks; one that cannot be read is left to its own page."""
    said = {}
    for task_id, stored in found.items():
        if stored.release_id not in _releases:
            try:
                record = record_in(stored.release_id, stored.record).record
            except LintraError:
                continue
            _releases[stored.release_id] = ReleasedRows(record.num_clients, record.released_at)
        _releases.move_to_end(stored.release_id)
        said[task_id] = _releases[stored.release_id]
    while len(_releases) > MOST_KEPT:
        _releases.popitem(last=False)
    return said
