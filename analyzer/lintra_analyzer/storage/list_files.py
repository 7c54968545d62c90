"""The lists of identifiers that the analyzer keeps: files beside the database, which names them by their roots.

A file is durable before the database names it. What it does not name, after a crash or because a newer list took its
place, is removed.
"""

from pathlib import Path
from typing import Literal

from sqlalchemy import ColumnElement, Connection, Engine, select
from sqlalchemy.dialects.sqlite import insert as upsert

from lintra_analyzer.storage import tables
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.errors import InvalidReleaseError
from lintra_service.mapped_lists import ListFolder

ListKind = Literal["ids", "cohort_ids", "accepted_ids", "census_ids"]

ALL_SERVERS = -1
"""The place of a document, or a list, that belongs to no single server."""

NAMING_SECONDS = 3600
"""How long a running process leaves a file alone that the database does not name: it may be about to."""

_LISTS = tables.lists


class KeptLists:
    """The lists of all batches; thread-safe.

    `files` are the folder, where a list is written before it is put here.
    """

    def __init__(self, engine: Engine, folder: Path) -> None:
        """Keep lists in a folder, which is made if need be, and their names in a database."""
        self.files = ListFolder(folder)
        self._engine = engine
        self.forget_unnamed(0)

    def get(self, task_id: str, batch: int, kind: ListKind, server: int = ALL_SERVERS) -> ReportIds | None:
        """Return the list that was put under this name, or None; whether it is still what it was is not checked.

        Raises InvalidReleaseError if its file is gone, or has another length.
        """
        query = select(_LISTS.c.root, _LISTS.c.count).where(_place(task_id, batch, kind, server))
        with self._engine.connect() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        root, count = row
        try:
            report_ids = self.files.read(root)
        except (OSError, ValueError):
            raise InvalidReleaseError("a list of identifiers is missing from the analyzer's folder") from None
        if len(report_ids) != count:
            raise InvalidReleaseError("a list of identifiers in the analyzer's folder was changed")
        return report_ids

    def has(self, task_id: str, batch: int, kind: ListKind, server: int = ALL_SERVERS) -> bool:
        """Return whether a list was put under this name."""
        query = select(_LISTS.c.count).where(_place(task_id, batch, kind, server))
        with self._engine.connect() as connection:
            return connection.execute(query).one_or_none() is not None

    def put(self, task_id: str, batch: int, kind: ListKind, report_ids: ReportIds, server: int = ALL_SERVERS) -> None:
        """Name a list that was checked, and is one of the files; the first one stays."""
        named = upsert(_LISTS).values(**_named(task_id, batch, kind, server, report_ids))
        with self._engine.begin() as connection:
            connection.execute(named.on_conflict_do_nothing())

    def replace(
        self, connection: Connection, task_id: str, batch: int, kind: ListKind, report_ids: ReportIds, server: int
    ) -> None:
        """Name a list in place of another one, in a transaction that does more."""
        row = _named(task_id, batch, kind, server, report_ids)
        changed = {"root": row["root"], "count": row["count"]}
        place = ["task_id", "batch", "kind", "server"]
        connection.execute(upsert(_LISTS).values(**row).on_conflict_do_update(index_elements=place, set_=changed))

    def forget_unnamed(self, seconds: float) -> None:
        """Remove what the database does not name, if it is older than the newest file by so many seconds."""
        with self._engine.connect() as connection:
            named = connection.execute(select(_LISTS.c.root)).scalars().all()
        self.files.keep_only(named, seconds)


def _place(task_id: str, batch: int, kind: ListKind, server: int) -> ColumnElement[bool]:
    columns = _LISTS.c
    of_batch = (columns.task_id == task_id) & (columns.batch == batch)
    return of_batch & (columns.kind == kind) & (columns.server == server)


def _named(
    task_id: str, batch: int, kind: ListKind, server: int, report_ids: ReportIds
) -> dict[str, str | int | bytes]:
    place: dict[str, str | int | bytes] = {"task_id": task_id, "batch": batch, "kind": kind, "server": server}
    return {**place, "root": report_ids.root, "count": len(report_ids)}
