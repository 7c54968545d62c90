"""Registering a task with all of its servers: only what every one of them accepted can be used."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lintra_analyzer.exchange.servers import Server
from lintra_analyzer.storage.rows import ServerState
from lintra_analyzer.storage.store import Store
from lintra_protocol import errors
from lintra_protocol.crypto.sealing import PUBLIC_KEY_BYTES, seal
from lintra_protocol.crypto.tokens import key_context
from lintra_protocol.encoding.canonical import base64url, parse_base64url
from lintra_protocol.errors import LintraError, TaskConflictError, UnavailableError
from lintra_protocol.http.problems import to_problem
from lintra_protocol.http.requests import MessageName
from lintra_protocol.messages.documents import Counters, KeyList, Registration, Signed, TaskRecord
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


@dataclass(frozen=True)
class Bringing:
    """What an author brings with a task."""

    record: bytes  #: `Signed[TaskRecord]` by the author, encoded
    token_keys: Sequence[bytes] = field(repr=False)  #: with which the servers check tokens, in the task's order
    now: Callable[[], int]  #: the clock, in seconds since the epoch


async def register(task: Task, brought: Bringing, servers: Sequence[Server], store: Store) -> None:
    """Bring a signed task to every server, again to one that has it: somebody may have deleted it there.

    `brought` is the signed task, and what belongs to it; `servers` are in the task's order. `store` keeps every
    server's answer, but for a refusal of one that accepted it before.
    """
    accepted = {state.server for state in store.registrations(task.task_id) if state.state == "accepted"}

    async def register_one(server: Server) -> None:
        state = await _register_one(task, brought, server)
        if state.state == "accepted" or server.index not in accepted:
            await asyncio.to_thread(store.set_registration, task.task_id, state)

    await asyncio.gather(*map(register_one, servers))


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


async def _register_one(task: Task, brought: Bringing, server: Server) -> ServerState:
    try:
        message: MessageName = "registration" if task.uses_tokens else "task"
        sent = await _with_token_key(task, brought, server) if task.uses_tokens else brought.record
        body = await server.ask("PUT", f"/v1/tasks/{task.task_id}", "task", body=sent, message=message)
        with server.blame():
            _require_same(task, server, body)
    except LintraError as error:
        return ServerState(server.index, "refused", to_problem(error))
    return ServerState(server.index, "accepted")


async def _with_token_key(task: Task, brought: Bringing, server: Server) -> bytes:
    """Seal a server's key for tokens to it, and return the whole registration."""
    body = await server.ask("GET", "/v1/keys", "keys")
    with server.blame():
        keys = Signed[KeyList].from_canonical(body).verified(task.servers[server.index].identity_key)
        now = brought.now()
        valid = [each for each in keys.keys if each.suite == task.suite and each.valid_from <= now < each.valid_until]
        if not valid:
            raise UnavailableError(f"it has no {task.suite} key that is valid now")
        context = key_context(task.id_bytes, server.index)
        public_key = parse_base64url(valid[0].public_key, PUBLIC_KEY_BYTES[task.suite])
        sealed = seal(brought.token_keys[server.index], task.suite, public_key, context)
    record = Signed[TaskRecord].from_canonical(brought.record)
    return Registration(record=record, key_id=valid[0].key_id, token_key=base64url(sealed)).canonical()


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
