"""Inventories and cohorts that every server of a test task signed."""

from collections.abc import Iterable, Sequence

from lintra_protocol.cohort.report_ids import ReportIds, intersection
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.messages.documents import BATCH, Cohort, Inventory, Signed, inventories_hash, inventory_of, sign
from lintra_protocol.task import Task
from support.seeds import identity, nonce


def signed_inventories(
    task: Task, lists: Sequence[Iterable[bytes]], closed_at: int = 2
) -> tuple[Signed[Inventory], ...]:
    """Sign one inventory per server, of the identifiers that it holds, in any order."""
    return tuple(
        sign(identity(f"server {index}"), inventory_of(task, 0, index, ReportIds.of(held), nonce(index), closed_at, 1))
        for index, held in enumerate(lists)
    )


def signed_cohorts(
    task: Task, lists: Sequence[Iterable[bytes]], inventories: tuple[Signed[Inventory], ...]
) -> tuple[Signed[Cohort], ...]:
    """Sign one cohort per server: the intersection of all lists, with that server's nonce revealed."""
    common = intersection([ReportIds.of(held) for held in lists])
    return tuple(
        sign(
            identity(f"server {index}"),
            Cohort(
                task_id=task.task_id,
                batch=BATCH,
                server=index,
                count=len(common),
                root=base64url(common.root),
                inventories=inventories_hash(inventories),
                nonce=base64url(nonce(index)),
                start=1,
            ),
        )
        for index in range(len(lists))
    )
