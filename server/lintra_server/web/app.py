"""The public application: the control plane of a server. Uploads are answered before it, in `upload_route`.

A handler reads its body within a limit, checks who sends it, and calls one function in a worker thread. The routes are
built once in a process; which server a request is for stands in its state.
"""

import hashlib
import time
from collections.abc import Callable
from functools import cache, partial
from math import ceil

from fastapi import FastAPI, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from lintra_protocol.cohort.differences import PIECE_BYTES, most_bytes
from lintra_protocol.crypto.randomness import RandomBytes, system_randomness
from lintra_protocol.encoding.canonical import HASH_BYTES, parse_base64url
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import BatchOpenError, LintraError, UnavailableError, UnknownBatchError
from lintra_protocol.fields.missing_reports import most_reports
from lintra_protocol.http.requests import MessageName, SignedRequest, media_type, require_media_type
from lintra_protocol.messages.documents import (
    AggregateRequest,
    BatchStatus,
    CohortRequest,
    Registration,
    Signed,
    StepName,
    TaskRecord,
)
from lintra_protocol.report.wire import KEY_ID_BYTES
from lintra_protocol.rules.verification import ChecksRequest, VerdictRequest, VerifiedAggregateRequest
from lintra_server.batches.executor import Tell
from lintra_server.batches.intake import nearest_batch
from lintra_server.batches.jobs import ReleaseStep
from lintra_server.batches.registry import RegisteredBatch, RegisteredTask
from lintra_server.durability.disk_reserve import is_full
from lintra_server.durability.journal import Halt
from lintra_server.node import Node
from lintra_server.settings import Settings
from lintra_server.storage.keys import CACHE_SECONDS
from lintra_server.web.body_upload import receive_bodies
from lintra_server.web.description import DescribedApp
from lintra_server.web.ranges import listed
from lintra_server.web.upload_route import UploadRoute
from lintra_service.byte_budget import ByteBudget
from lintra_service.responses import answer, as_lintra_error, problem, read_body
from lintra_service.supervisor import end_process

MAX_TASK_BYTES = 4 << 20
MAX_AGGREGATE_BYTES = 1 << 20
MAX_COHORT_BYTES = 8 << 20
"""Longer differences are sent before it, in pieces."""

RETRY_AFTER_SECONDS = 1
"""After which whoever waits for a step may ask how far it is."""

_DOCUMENTS: dict[StepName, MessageName] = {
    "inventory": "inventory", "cohort": "cohort", "checks": "check-share", "verdict": "verdict",
    "aggregate": "sketch-share",
}  # fmt: skip
_BATCH = "/v1/tasks/{task_id}/batches/{batch}"


def create_app(
    settings: Settings,
    *,
    random_bytes: RandomBytes = system_randomness,
    now: Callable[[], float] = time.time,
    running: Callable[[], float] = time.monotonic,
    halt: Halt = end_process,
) -> UploadRoute:
    """Return the public ASGI application of one server; close its `node` when it has stopped.

    `now` is the machine's clock, in seconds since the epoch; `running` counts seconds, and nobody sets it.
    """
    return UploadRoute(Node(settings, random_bytes, now, running, halt), _control_plane())


@cache
def _control_plane() -> FastAPI:
    """Return what answers everything but uploads, for every server of this process."""
    app = DescribedApp(title="Lintra server", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.add_exception_handler(LintraError, _refuse)
    app.add_exception_handler(HTTPException, _refuse)
    app.add_exception_handler(Exception, _refuse)
    _add_task_routes(app)
    _add_census_routes(app)
    _add_inventory_routes(app)
    _add_check_routes(app)
    _add_release_routes(app)
    return app


def _node(request: Request) -> Node:
    node: Node = request.state.node
    return node


def _add_task_routes(app: FastAPI) -> None:
    @app.get("/v1/keys")
    async def keys(request: Request) -> Response:
        return answer("keys", _node(request).keys.signed_list, headers={"cache-control": f"max-age={CACHE_SECONDS}"})

    @app.get("/v1/tasks/{task_id}")
    async def task(task_id: str, request: Request) -> Response:
        held = await run_in_threadpool(_node(request).registry.find, task_id)
        return answer("task", held.record)

    @app.put("/v1/tasks/{task_id}")
    async def register(task_id: str, request: Request) -> Response:
        node = _node(request)
        signed, sealed_key = await _registration(node, request)
        held, created = await run_in_threadpool(node.register, task_id, signed, sealed_key)
        return answer("task", held.record, status=201 if created else 200)

    @app.get("/v1/tasks/{task_id}/counters")
    async def counters(task_id: str, request: Request) -> Response:
        node, held, _ = await _analyzer(request, task_id)
        return answer("counters", await run_in_threadpool(_counters, node, held))

    @app.get("/v1/tasks/{task_id}/batches")
    async def batches(task_id: str, request: Request) -> Response:
        node, held, _ = await _analyzer(request, task_id)
        statuses = await run_in_threadpool(_statuses, node, held)
        return answer("batches", b'{"batches":[%b]}' % b",".join(status.canonical() for status in statuses))


def _counters(node: Node, held: RegisteredBatch) -> bytes:
    return node.census.counters(_current(node, held))


def _statuses(node: Node, held: RegisteredBatch) -> list[BatchStatus]:
    return [node.census.status(_current(node, held))]


def _current(node: Node, held: RegisteredBatch) -> RegisteredBatch:
    """Return the batch that this server takes reports of now: of a task with windows the one of its clock."""
    number = nearest_batch(held.task, int(node.now()) // held.task.time_precision)
    return node.registry.find_batch(held.task.task_id, number)


def _add_census_routes(app: FastAPI) -> None:
    @app.get(_BATCH)
    async def batch_status(task_id: str, batch: str, request: Request) -> Response:
        node, held, _ = await _analyzer(request, task_id, batch)
        status = await run_in_threadpool(node.census.status, held)
        return answer("batches", b'{"batches":[%b]}' % status.canonical())

    @app.get(f"{_BATCH}/census")
    async def census(task_id: str, batch: str, request: Request) -> Response:
        node, held, _ = await _analyzer(request, task_id, batch)
        return answer("census", await run_in_threadpool(node.census.take, held))

    @app.get(f"{_BATCH}/census/ids")
    async def census_ids(task_id: str, batch: str, request: Request) -> Response:
        node, held, _ = await _analyzer(request, task_id, batch)
        return await run_in_threadpool(lambda: listed(node.census.ids(held), request.headers))


def _add_inventory_routes(app: FastAPI) -> None:
    @app.post(f"{_BATCH}/inventory")
    async def close(task_id: str, batch: str, request: Request) -> Response:
        node, held, _ = await _analyzer(request, task_id, batch)
        try:
            first = _first(request)
            asked = b"" if first is None else str(first).encode()
            return await _step(request, node, held, "inventory", asked, lambda _: node.gate.close(held, first))
        except BatchOpenError:
            request.state.retry_after = max(1, ceil(held.ends_of(held.batch) - node.now()))
            raise

    @app.get(f"{_BATCH}/inventory")
    async def inventory(task_id: str, batch: str, request: Request) -> Response:
        node, held, _ = await _analyzer(request, task_id, batch)
        return await _document(request, node, held, "inventory", node.gate.inventory)

    @app.get(f"{_BATCH}/inventory/ids")
    async def ids(task_id: str, batch: str, request: Request) -> Response:
        node, held, _ = await _analyzer(request, task_id, batch)
        return await run_in_threadpool(lambda: listed(node.gate.inventory_ids(held), request.headers))


def _add_check_routes(app: FastAPI) -> None:
    @app.put(f"{_BATCH}/checks")
    async def check(task_id: str, batch: str, request: Request) -> Response:
        node, held, body = await _analyzer(request, task_id, batch, "checks-request", MAX_AGGREGATE_BYTES)
        wanted = ChecksRequest.from_canonical(body)
        return await _step(request, node, held, "checks", body, partial(node.judge.check, held, wanted))

    @app.get(f"{_BATCH}/checks")
    async def checks(task_id: str, batch: str, request: Request) -> Response:
        node, held, _ = await _analyzer(request, task_id, batch)
        return await _document(request, node, held, "checks", node.judge.check_share)

    @app.get(f"{_BATCH}/checks/body")
    async def checks_body(task_id: str, batch: str, request: Request) -> Response:
        node, held, _ = await _analyzer(request, task_id, batch)
        size, pieces = await run_in_threadpool(node.judge.body, held)
        headers = {"content-type": media_type("checks"), "content-length": str(size)}
        return StreamingResponse(pieces, headers=headers)

    @app.put(f"{_BATCH}/verdict")
    async def judge(task_id: str, batch: str, request: Request) -> Response:
        node, held, signed = await _asked(request, task_id, batch)
        require_media_type(request.headers.get("content-type"), "verdict-request")
        sizes = [await run_in_threadpool(node.judge.body_bytes, held)] * (held.task.num_servers - 1)
        length = request.headers.get("content-length")
        with node.judging:
            head, digests = await receive_bodies(request.receive, length, signed, node.judge.bodies, sizes)
        wanted = VerdictRequest.from_canonical(head)
        node.judge.expect(held, digests)
        asked, work = b"".join((head, *digests)), partial(node.judge.judge, held, wanted, digests)
        return await _step(request, node, held, "verdict", asked, work)

    @app.get(f"{_BATCH}/verdict")
    async def verdict(task_id: str, batch: str, request: Request) -> Response:
        node, held, _ = await _analyzer(request, task_id, batch)
        return await _document(request, node, held, "verdict", node.judge.verdict)


def _add_release_routes(app: FastAPI) -> None:
    @app.put(f"{_BATCH}/cohort")
    async def freeze(task_id: str, batch: str, request: Request) -> Response:
        node, held, body = await _analyzer(request, task_id, batch, "cohort-request", MAX_COHORT_BYTES)

        wanted = await run_in_threadpool(_wanted, node, held, body)
        return await _step(request, node, held, "cohort", body, lambda _: node.gate.freeze(held, wanted))

    @app.put(f"{_BATCH}/cohort/pieces/{{name}}")
    async def piece(task_id: str, batch: str, name: str, request: Request) -> Response:
        node, held, body = await _analyzer(request, task_id, batch, "piece", PIECE_BYTES)
        await run_in_threadpool(_keep_piece, node, held, name, body)
        return answer("piece", b"")

    @app.get(f"{_BATCH}/cohort")
    async def cohort(task_id: str, batch: str, request: Request) -> Response:
        node, held, _ = await _analyzer(request, task_id, batch)
        return await _document(request, node, held, "cohort", node.gate.cohort)

    @app.put(f"{_BATCH}/aggregate")
    async def release(task_id: str, batch: str, request: Request) -> Response:
        verified = request.headers.get("content-type") == media_type("verified-aggregate-request")
        name: MessageName = "verified-aggregate-request" if verified else "aggregate-request"
        node, held, body = await _analyzer(request, task_id, batch, name, MAX_AGGREGATE_BYTES)
        wanted = (VerifiedAggregateRequest if verified else AggregateRequest).from_canonical(body)
        return await _step(request, node, held, "aggregate", body, lambda tell: node.gate.release(held, wanted, tell))

    @app.get(f"{_BATCH}/aggregate")
    async def aggregate(task_id: str, batch: str, request: Request) -> Response:
        node, held, _ = await _analyzer(request, task_id, batch)
        return await _document(request, node, held, "aggregate", node.gate.aggregate)

    @app.get(f"{_BATCH}/inclusion/{{report_id}}")
    async def inclusion(task_id: str, batch: str, report_id: str, request: Request) -> Response:
        node = _node(request)
        held = await run_in_threadpool(node.registry.find_batch, task_id, _number(batch))
        with node.proving:
            wanted = parse_base64url(report_id, HASH_BYTES)
            proof = await run_in_threadpool(node.prover.inclusion, held, wanted)
        return answer(proof.kind, proof.canonical())


def _wanted(node: Node, held: RegisteredBatch, body: bytes) -> CohortRequest:
    """Return what a request to freeze says, if what it names is here or is not needed any more."""
    request = CohortRequest.from_canonical(body)
    if node.gate.batch(held).state == "closed":
        node.lists.pieces.require(held.number, request)
    return request


def _keep_piece(node: Node, held: RegisteredBatch, name: str, piece: bytes) -> None:
    node.gate.inventory(held)  # without one there is nothing that a list could differ from
    if node.gate.batch(held).state == "closed":
        longest = most_reports(held.task.max_clients, fraction(held.task.max_missing))
        node.lists.pieces.put(held.number, name, piece, most_bytes(held.task.num_servers, longest))


async def _step(
    request: Request, node: Node, held: RegisteredBatch, step: StepName, body: bytes, work: Callable[[Tell], bytes]
) -> Response:
    """Do a step of a release, or say how far it is."""
    digest = hashlib.sha256(body).digest()
    return _outcome(request, node, step, await node.jobs.run(held.number, step, digest, work))


async def _document(
    request: Request, node: Node, held: RegisteredBatch, step: StepName, read: Callable[[RegisteredBatch], bytes]
) -> Response:
    """Return what a step made, or say how far it is."""
    found = await node.jobs.join(held.number, step)
    return _outcome(request, node, step, await run_in_threadpool(read, held) if found is None else found)


def _outcome(request: Request, node: Node, step: StepName, outcome: bytes | ReleaseStep) -> Response:
    if isinstance(outcome, bytes):
        return answer(_DOCUMENTS[step], outcome)
    # Each step's document lies where the step was asked for.
    headers = {"location": request.scope["raw_path"].decode("latin-1"), "retry-after": str(RETRY_AFTER_SECONDS)}
    return answer("progress", outcome.progress(node.jobs.running()).canonical(), status=202, headers=headers)


async def _registration(node: Node, request: Request) -> tuple[Signed[TaskRecord], tuple[bytes, bytes] | None]:
    """Return a task and the sealed key of its tokens; a task without them may come alone."""
    room = node.registrations
    if request.headers.get("content-type") != media_type("registration"):
        return Signed[TaskRecord].from_canonical(await _body(room, node, request, "task", MAX_TASK_BYTES)), None
    registration = Registration.from_canonical(await _body(room, node, request, "registration", MAX_TASK_BYTES))
    if not registration.token_key:
        return registration.record, None
    key_id = parse_base64url(registration.key_id, KEY_ID_BYTES)
    return registration.record, (key_id, parse_base64url(registration.token_key))


async def _analyzer(
    request: Request, task_id: str, batch: str = "0", name: MessageName | None = None, limit: int = 0
) -> tuple[Node, RegisteredBatch, bytes]:
    """Return the server asked, the batch, and the body of a request that its task's analyzer signed."""
    node, held, signed = await _signed(request, task_id)
    body = await _body(node.control, node, request, name, limit)
    signed.require_body(body)
    return node, await _asked_batch(request, node, held, batch), body


async def _asked(request: Request, task_id: str, batch: str) -> tuple[Node, RegisteredBatch, SignedRequest]:
    """Return the server asked, the batch, and what the analyzer's signature says of a body that comes in pieces."""
    node, held, signed = await _signed(request, task_id)
    return node, await _asked_batch(request, node, held, batch), signed


async def _signed(request: Request, task_id: str) -> tuple[Node, RegisteredTask, SignedRequest]:
    """Check who asks before anything is read: the signature covers the digest of the body."""
    node = _node(request)
    held = await run_in_threadpool(node.registry.find, task_id)
    url = _asked_url(node, request)
    return (
        node,
        held,
        node.doorkeeper.require_analyzer(held.task, request.method, url, request.headers, int(node.now())),
    )


async def _asked_batch(request: Request, node: Node, held: RegisteredTask, batch: str) -> RegisteredBatch:
    first = _first(request)
    if first is not None:
        await run_in_threadpool(node.open_group, held, _number(batch), first)
    return await run_in_threadpool(node.registry.find_batch, held.task.task_id, _number(batch))


def _asked_url(node: Node, request: Request) -> str:
    """Return what the analyzer asked for, as it signed it: behind a proxy only the settings know this server's name."""
    path = request.scope["raw_path"].decode("latin-1")
    query = request.scope["query_string"].decode("latin-1")
    return f"{node.settings.public_url}{path}{'?' if query else ''}{query}"


async def _body(room: ByteBudget, node: Node, request: Request, name: MessageName | None, limit: int) -> bytes:
    if name is not None:
        require_media_type(request.headers.get("content-type"), name)
    with room.lease(node.peer(request.scope)) as lease:
        return await read_body(request.receive, request.headers.get("content-length"), limit, lease)


def _number(batch: str) -> int:
    number = int(batch) if batch.isascii() and batch.isdecimal() and len(batch) < 8 else -1
    if str(number) != batch:
        raise UnknownBatchError("a batch has a number; that of a task without windows is 0")
    return number


def _first(request: Request) -> int | None:
    """Return the first of the windows that are to be merged, if the request names one."""
    named = request.query_params.get("first")
    return None if named is None else _number(named)


async def _refuse(request: Request, error: Exception) -> Response:
    known = UnavailableError("the disk is full") if is_full(error) else as_lintra_error(error)
    request.state.error = known.token
    response = problem(known, request.state.request_id)
    if (seconds := getattr(request.state, "retry_after", None)) is not None:
        response.headers["retry-after"] = str(seconds)
    response.headers.update(getattr(error, "headers", None) or {})
    return response
