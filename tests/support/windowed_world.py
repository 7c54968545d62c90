"""Windows in a world of servers: its clock, reports of a window, and the exchange of one window or of merged ones."""

import httpx2
import numpy as np

from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.ring import IntArray, from_ring, ring_from_bytes
from lintra_protocol.crypto.sharing import combine
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.fields.windows import Windows
from lintra_protocol.messages.documents import (
    AggregateRequest,
    Cohort,
    CohortRequest,
    Difference,
    Inventory,
    Signed,
    SketchShareRecord,
)
from lintra_protocol.report.report import Report
from lintra_protocol.report.wire import decode_sealed_document
from lintra_protocol.rules.release import aggregate_context
from lintra_protocol.task import Task
from support.server_world import START, World

HOUR = 3600
WINDOWS = Windows(window=2, grace=1, max_windows=6, reports_per_source=3)


def windowed(task: Task, windows: Windows = WINDOWS) -> Task:
    """Six windows of two hours from the hour of the clock on, each with an hour of grace."""
    first = START // HOUR
    times = {"not_before": first, "not_after": first + windows.units}
    return task.model_copy(update={"batches": "windowed", "windows": windows, **times})


def at(world: World, hours: float) -> None:
    """Set the clock to so many hours after the task began."""
    world.clock.seconds = world.task.not_before * HOUR + hours * HOUR


def reports_of(world: World, window: int, count: int = 14) -> list[Report]:
    return world.reports(count, f"window {window}", world.task.span(window)[0])


async def close(world: World, server: int, batch: int, first: int | None = None) -> httpx2.Response:
    query = "" if first is None else f"?first={first}"
    return await world.ask(server, "POST", f"/batches/{batch}/inventory{query}")


async def request_of(world: World, batch: int, server: int, first: int | None = None) -> CohortRequest:
    """Return what a server of two is asked to freeze; `first` is of merged windows, here as below."""
    answers = [await close(world, each, batch, first) for each in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200], [answer.text for answer in answers]
    inventories = tuple(Signed[Inventory].from_canonical(answer.content) for answer in answers)
    lists = [
        ReportIds.parse((await world.ask(s, "GET", f"/batches/{batch}/inventory/ids")).content, 99) for s in range(2)
    ]
    other = Difference.between(1 - server, lists[server], lists[1 - server])
    return CohortRequest(inventories=inventories, differences=(other,))


async def freeze(world: World, batch: int, server: int, first: int | None = None) -> httpx2.Response:
    body = (await request_of(world, batch, server, first)).canonical()
    return await world.ask(server, "PUT", f"/batches/{batch}/cohort", body, "cohort-request")


async def frozen(world: World, batch: int, first: int | None = None) -> tuple[list[bytes], AggregateRequest]:
    """Have both servers close and freeze; return what they said, and what they are asked to release."""
    said = [(await close(world, server, batch, first)).content for server in range(2)]
    answers = [await freeze(world, batch, server, first) for server in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200], [answer.text for answer in answers]
    request = AggregateRequest(cohorts=tuple(Signed[Cohort].from_canonical(answer.content) for answer in answers))
    return [*said, *(answer.content for answer in answers)], request


async def shares_of(world: World, batch: int, request: AggregateRequest) -> list[bytes]:
    """Have both servers release, and return what they said."""
    answers = [
        await world.ask(server, "PUT", f"/batches/{batch}/aggregate", request.canonical(), "aggregate-request")
        for server in range(2)
    ]
    assert [answer.status_code for answer in answers] == [200, 200], [answer.text for answer in answers]
    return [answer.content for answer in answers]


def opened(world: World, batch: int, shares: list[bytes], first: int | None = None) -> IntArray:
    """Return the sum of the servers' shares of a batch, lifted."""
    words = []
    for server, body in enumerate(shares):
        document, sealed = decode_sealed_document(body)
        record = Signed[SketchShareRecord].from_canonical(document).message
        assert record.batch == batch
        root, seed = parse_base64url(record.cohort_root), parse_base64url(record.seed)
        context = aggregate_context(world.task, batch, server, root, seed, first)
        words.append(ring_from_bytes(world.sealing_key.open(sealed, context)).reshape(record.rows, record.words))
    return from_ring(combine(np.stack(words)))
