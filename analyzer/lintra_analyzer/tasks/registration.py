"""Registering a task with all of its servers: only what every one of them accepted can be used."""

import asyncio
from collections.abc import Sequence

from lintra_analyzer.exchange.servers import Server
from lintra_analyzer.storage.store import ServerState, Store
from lintra_protocol import errors
from lintra_protocol.errors import LintraError, TaskConflictError
from lintra_protocol.messages import Counters, Signed, TaskRecord
from lintra_protocol.problems import to_problem
from lintra_protocol.task import Task

# What a server may say about a task in the analyst's face. Anything else is trouble between the two services.
_ABOUT_THE_TASK = (
    errors.PolicyRefusedError,
    errors.InvalidTaskError,
    errors.UnsupportedFeatureError,
    errors.FalseClaimError,
    errors.RowUnderfilledError,
    errors.UnavailableError,
    errors.OverloadedError,
)


async def register(task: Task, record: bytes, servers: Sequence[Server], store: Store) -> None:
    """Bring a signed task to every server that has not accepted it yet; a repetition changes nothing.

    Args:
        task: the task.
        record: `Signed[TaskRecord]` by the author, encoded.
        servers: in the task's order.
        store: keeps every server's answer.
    """
    accepted = {state.server for state in store.registrations(task.task_id) if state.state == "accepted"}

    async def register_one(server: Server) -> None:
        state = await _register_one(task, record, server)
        await asyncio.to_thread(store.set_registration, task.task_id, state)

    await asyncio.gather(*(register_one(server) for server in servers if server.index not in accepted))


def require_registered(states: Sequence[ServerState]) -> None:
    """Check that every server accepted a task.

    Raises:
        LintraError: the first refusal's own kind; the detail names every server that refused, and why.
    """
    open_states = [state for state in states if state.state != "accepted"]
    if not open_states:
        return
    details = [_why(state) for state in open_states]
    kinds = {error.token: error for error in _ABOUT_THE_TASK}
    token = str((open_states[0].problem or {}).get("type", "")).rpartition(":")[2]
    raise kinds.get(token, TaskConflictError)(
        f"{len(open_states)} of {len(states)} servers have not taken the task: {'; '.join(details)}"
    )


async def current_state(task: Task, server: Server) -> tuple[ServerState, Counters | None]:
    """Ask one server for the task and its counters now."""
    path = f"/v1/tasks/{task.task_id}"
    try:
        body = await server.ask("GET", path, "task")
        with server.blame():
            _require_same(task, server, body)
            counters = Counters.from_canonical(await server.ask("GET", f"{path}/counters", "counters"))
    except LintraError as error:
        return ServerState(server.index, "refused", to_problem(error)), None
    return ServerState(server.index, "accepted"), counters


async def _register_one(task: Task, record: bytes, server: Server) -> ServerState:
    try:
        body = await server.ask("PUT", f"/v1/tasks/{task.task_id}", "task", body=record, message="task")
        with server.blame():
            _require_same(task, server, body)
    except LintraError as error:
        return ServerState(server.index, "refused", to_problem(error))
    return ServerState(server.index, "accepted")


def _require_same(task: Task, server: Server, body: bytes) -> None:
    """Check that a server signed the very same definition."""
    signed = Signed[TaskRecord].from_canonical(body)
    record = signed.verified(task.servers[server.index].identity_key)
    if record.definition.canonical() != task.canonical():
        raise TaskConflictError("it holds another definition")


def _why(state: ServerState) -> str:
    if state.problem is None:
        return f"server {state.server}: was not asked yet"
    return f"{state.problem['title']} {state.problem['detail']}".strip()
