"""A census: what every server holds of an open batch, before the analyst decides to close it.

It decides nothing. What was signed is kept, and every report in it must be in that server's inventory later; otherwise
the two signatures prove that the server lied. One that began again in between may have been restored from an older copy
instead, which is said and not held against it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from lintra_analyzer.exchange.servers import Server
from lintra_analyzer.storage.store import Store
from lintra_protocol.cohort.report_ids import ComparedLists, ReportIds
from lintra_protocol.errors import InventoryMismatchError
from lintra_protocol.messages.documents import Census, Inventory, Signed
from lintra_protocol.rules.release import verify_census
from lintra_protocol.task import Task

log = structlog.get_logger()


@dataclass(frozen=True)
class ServerCount:
    """What one server holds."""

    server: int
    reports: int  #: how many reports it has counted
    missing: int  #: how many of those that some other server holds it lacks
    counted_at: int  #: in the task's units
    start: int  #: how often it had begun, as it says
    #: the largest number it ever said to this analyzer; if `start` is less, the server was set back, or shows a census
    #: from before its last start
    highest_start: int


@dataclass(frozen=True)
class CensusResult:
    """Who lacks how many reports, and how many a release would have now.

    `common` holds reports that every server holds; `anywhere` holds reports that some server holds.
    """

    servers: tuple[ServerCount, ...]
    common: int
    anywhere: int


async def take_census(task: Task, batch: int, servers: Sequence[Server], store: Store) -> CensusResult:
    """Ask every server what it holds, keep what it signed, and compare the lists."""
    found = await asyncio.gather(*(_ask(task, batch, server, store) for server in servers))
    lists = [report_ids for _, report_ids, _ in found]
    compared = await asyncio.to_thread(ComparedLists.of, lists)
    anywhere = len(compared.union)
    counts = tuple(
        ServerCount(census.server, census.count, anywhere - len(report_ids), census.counted_at, census.start, highest)
        for census, report_ids, highest in found
    )
    return CensusResult(counts, len(compared.common()), anywhere)


def require_honest_inventory(
    task: Task, server: int, inventory: Signed[Inventory], held_ids: ReportIds, store: Store
) -> None:
    """Check that a server still holds what it signed in its last census, if one was taken.

    Raises:
        InventoryMismatchError: it does not.
    """
    batch = inventory.message.batch
    census = store.document(task.task_id, batch, "census", server)
    counted_ids = store.lists.get(task.task_id, batch, "census_ids", server)
    if census is not None and counted_ids is not None:
        signed = Signed[Census].from_canonical(census)
        gone = verify_census(task, signed, counted_ids, inventory, held_ids)
        if gone:
            began, now = signed.message.start, inventory.message.start
            log.warning(
                "a server began again and lacks reports that it had counted: it was restored, or it hides them",
                server=server, lacks=gone, counted_at_start=began, start=now,
            )  # fmt: skip


def watch_start(task: Task, server: int, start: int, store: Store) -> int:
    """Remember how often a server had begun, and say so if it said a larger number before; return the largest.

    Nothing is refused for it: an answer from before its last start is rightly shown again. But a server whose number
    falls for good was set back, with all that it had released, and its operator may not know.
    """
    highest = store.servers.highest_start(task.servers[server].identity_key, start)
    if start < highest:
        log.warning(
            "a server's start number fell: it was set back, or gave an answer from before its last start",
            server=server, start=start, highest=highest,
        )  # fmt: skip
    return highest


async def _ask(task: Task, batch: int, server: Server, store: Store) -> tuple[Census, ReportIds, int]:
    """Return a server's census, its list, and the largest start number that this server ever said."""
    path = f"/v1/tasks/{task.task_id}/batches/{batch}/census"
    body = await server.ask("GET", path, "census")
    with server.blame():
        signed = Signed[Census].from_canonical(body)
        census = signed.verified(task.servers[server.index].identity_key)
        if (census.task_id, census.batch, census.server) != (task.task_id, batch, server.index):
            raise InventoryMismatchError("its census is of another task, batch or server")
        if census.count > task.max_clients:
            raise InventoryMismatchError(f"its census counts {census.count} reports, more than the task can have")
    wrong = "its list is not the one of its census"
    report_ids = await server.fetch_list(f"{path}/ids", store.lists.files, census.count, census.root, wrong)
    await asyncio.to_thread(store.replace_census, task.task_id, batch, server.index, body, report_ids)
    return census, report_ids, await asyncio.to_thread(watch_start, task, server.index, census.start, store)
