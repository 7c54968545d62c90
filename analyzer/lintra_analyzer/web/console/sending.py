"""How people send: what to type, what to write in a program, and a code that a phone reads, for one task."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from shlex import quote

from fastapi import Request
from fastapi.responses import HTMLResponse

from lintra_analyzer.web.admission import ThisService
from lintra_analyzer.web.console.pages import page
from lintra_analyzer.web.console.qr import MOST_BYTES, path_of, qr_code
from lintra_analyzer.web.console.routing import console_router
from lintra_analyzer.web.console.tasks import TaskId
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.fields.schema import Column
from lintra_protocol.task import Task

IN_TYPESCRIPT = frozenset({"sum", "second_moment", "histogram", "osnap"})
"""Kinds that the client for pages and apps knows."""

MOST_COLUMNS = 12
"""Columns that an example row names."""

router = console_router()


@dataclass(frozen=True)
class Snippet:
    """Something to copy."""

    title: str
    text: str
    words: str  #: what it does


@router.get("/tasks/{task_id}/sending")
def sending(request: Request, service: ThisService, task_id: TaskId) -> HTMLResponse:
    """Show how a task is answered."""
    task = service.task(task_id)
    content = address_of(task)
    grid = qr_code(content.encode()) if len(content.encode()) <= MOST_BYTES else None
    return page(
        request,
        "sending.html",
        task=task,
        snippets=list(snippets_of(task)),
        content=content,
        code=None if grid is None else path_of(grid),
        size=0 if grid is None else len(grid) + 8,
    )


def address_of(task: Task) -> str:
    """Return what a client must know of a task: its identifier and all servers, a line each."""
    return "\n".join([task.task_id, *(server.url for server in task.servers)])


def snippets_of(task: Task) -> Iterator[Snippet]:
    """Yield commands and programs that send to a task."""
    servers = " ".join(f"--server {quote(server.url)}" for server in task.servers)
    yield Snippet(
        "Look first",
        f"lintra client check {task.task_id} {servers}",
        "asks every server for the task, computes its promise anew, and sends nothing",
    )
    yield Snippet(
        "Try a file",
        f"lintra client rehearse rows.csv {task.task_id} {servers}",
        "shows what would become of a file, and sends nothing",
    )
    if task.contributors is not None:
        yield Snippet(
            "An organisation, all its rows in one report",
            f"lintra client contribute rows.csv {task.task_id} {servers}{' --token TOKEN' * task.uses_tokens}",
            "the file has a line of column names, and stays where it is",
        )
        return
    yield Snippet(
        "A file, each row a report of its own",
        f"lintra client send {task.task_id} rows.csv {servers}{' --tokens tokens.txt' * task.uses_tokens}",
        "the file has a line of column names",
    )
    yield Snippet("A program in Python", _python(task), "in a device or an app, which has Lintra with the extra client")
    if task.mechanism.kind in IN_TYPESCRIPT and task.stream is None:
        yield Snippet("A page or an app in TypeScript", _typescript(task), "the reader sees the promise, then agrees")


def _python(task: Task) -> str:
    urls = ", ".join(json.dumps(server.url) for server in task.servers)
    token = ', token="TOKEN"' * task.uses_tokens
    return (
        "from lintra_client import Client\n\n"
        f"servers = [{urls}]\n"
        f"async with Client({json.dumps(task.task_id)}, servers{token}) as client:\n"
        f"    receipt = await client.send({{{_row(task, 'True')}}})\n"
    )


def _typescript(task: Task) -> str:
    urls = ", ".join(json.dumps(server.url) for server in task.servers)
    token = ', { token: "TOKEN" }' * task.uses_tokens
    return (
        'import { Client } from "@lintra/client";\n\n'
        f"const client = await Client.open({json.dumps(task.task_id)}, [{urls}]{token});\n"
        'consent.textContent = client.promise.text().join("\\n"); // the user reads it, then agrees\n'
        f"const receipt = await client.send({{ {_row(task, 'true')} }});\n"
    )


def _row(task: Task, true: str) -> str:
    shown = [f"{json.dumps(column.name)}: {_example(column, true)}" for column in task.columns[:MOST_COLUMNS]]
    return ", ".join(shown)


def _example(column: Column, true: str) -> str:
    if column.kind == "boolean":
        return true
    if column.kind == "category":
        return json.dumps(column.levels[0])
    middle = (fraction(column.lower) + fraction(column.upper)) / 2
    return f"{int(middle)}" if column.kind == "integer" else f"{float(middle):.4g}"
