"""A census: what every server holds of an open batch, before the analyst decides to close it.

It decides nothing. What was signed is kept, and every report in it must be in that server's inventory later; otherwise
the two signatures prove that the server lied.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from lintra_analyzer.exchange.servers import Server
from lintra_analyzer.storage.store import Store
from lintra_protocol.canonical import HASH_BYTES, base64url
from lintra_protocol.errors import InventoryMismatchError
from lintra_protocol.messages import BATCH, Census, Inventory, Signed
from lintra_protocol.report_ids import ReportIds, intersection, num_distinct
from lintra_protocol.rules import verify_census
from lintra_protocol.task import Task


@dataclass(frozen=True)
class ServerCount:
    """What one server holds.

    Attributes:
        reports: how many reports it has counted.
        missing: how many of those that some other server holds it lacks.
        counted_at: in the task's units.
    """

    server: int
    reports: int
    missing: int
    counted_at: int


@dataclass(frozen=True)
class CensusResult:
    """Who lacks how many reports, and how many a release would have now.

    Attributes:
        common: reports that every server holds.
        anywhere: reports that some server holds.
    """

    servers: tuple[ServerCount, ...]
    common: int
    anywhere: int


async def take_census(task: Task, servers: Sequence[Server], store: Store) -> CensusResult:
    """Ask every server what it holds, keep what it signed, and compare the lists.

    Raises:
        InventoryMismatchError: a list is not the one that its server signed.
        LintraError: a server does not answer, or refuses.
    """
    found = await asyncio.gather(*(_ask(task, server, store) for server in servers))
    lists = [report_ids for _, report_ids in found]
    anywhere = num_distinct(lists)
    counts = tuple(
        ServerCount(census.server, census.count, anywhere - len(report_ids), census.counted_at)
        for census, report_ids in found
    )
    return CensusResult(counts, len(intersection(lists)), anywhere)


def require_honest_inventory(
    task: Task, server: int, inventory: Signed[Inventory], held_ids: ReportIds, store: Store
) -> None:
    """Check that a server still holds what it signed in its last census, if one was taken.

    Raises:
        InventoryMismatchError: it does not.
    """
    census, ids = (store.document(task.task_id, kind, server) for kind in ("census", "census_ids"))
    if census is not None and ids is not None:
        signed = Signed[Census].from_canonical(census)
        verify_census(task, signed, ReportIds.parse(ids, len(ids)), inventory, held_ids)


async def _ask(task: Task, server: Server, store: Store) -> tuple[Census, ReportIds]:
    path = f"/v1/tasks/{task.task_id}/batches/{BATCH}/census"
    body = await server.ask("GET", path, "census")
    with server.blame():
        signed = Signed[Census].from_canonical(body)
        census = signed.verified(task.servers[server.index].identity_key)
        if (census.task_id, census.batch, census.server) != (task.task_id, BATCH, server.index):
            raise InventoryMismatchError("its census is of another task, batch or server")
        if census.count > task.max_clients:
            raise InventoryMismatchError(f"its census counts {census.count} reports, more than the task can have")
    listed = await server.ask("GET", f"{path}/ids", "ids", limit=HASH_BYTES * max(census.count, 1))
    with server.blame():
        report_ids = ReportIds.parse(listed, census.count)
        if len(report_ids) != census.count or base64url(report_ids.root) != census.root:
            raise InventoryMismatchError("its list is not the one of its census")
    await asyncio.to_thread(store.replace_documents, task.task_id, server.index, {"census": body, "census_ids": listed})
    return census, report_ids
