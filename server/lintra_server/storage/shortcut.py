"""The short way of a commit: one statement, if memory knows all that a transaction would find out.

Nearly every commit is of new reports, for an open batch whose end is where this process left it. Then the statement has
nothing to look for, only to confirm: that the batch is open, has room and ends there (see `segments.FOLLOW`). If it
does not, nothing is written, and the transaction that looks first decides. So what is stored, and what is counted, is
decided inside the transaction that commits, as on the long way; memory only says which way is worth trying.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lintra_server.disk.vault import BatchKey
from lintra_server.storage.chains import Chains
from lintra_server.storage.database import AnyDatabase
from lintra_server.storage.known import KnownIds
from lintra_server.storage.segments import FOLLOW, Written, new_segments
from lintra_server.storage.spent import SpentTables


class Arrived(NamedTuple):
    """Reports that came for one batch, in the order in which they came.

    `serials` are those of their tokens; empty in an open task. `capacity` is most reports that the batch may hold.
    """

    report_ids: Sequence[bytes]
    payloads: Sequence[bytes]
    serials: Sequence[bytes]
    key: BatchKey
    capacity: int


class Shortcut:
    """The short way; the store uses it, one commit at a time."""

    def __init__(self, database: AnyDatabase, chains: Chains, known: KnownIds, spent: SpentTables) -> None:
        """Know of no batch yet.

        `database` says where reports are stored; `chains` says where batches end. `spent` says which tokens were used.
        """
        self._database = database
        self._chains = chains
        self._known = known
        self._spent = spent

    def store(self, arrived: Mapping[int, Arrived]) -> bool:
        """Store reports of some batches, all or none; return whether they were stored.

        If it raises, nobody knows what became of them: who asked forgets the tables of these batches.
        """
        stored: dict[int, list[Written]] = {}
        for batch, reports in arrived.items():
            end = self._chains.known(batch)
            if end is None or end.number < 0 or end.total + len(reports.report_ids) > reports.capacity:
                return False
            new = self._new(batch, reports, end.number)
            if new is None:
                return False
            stored[batch] = new_segments(batch, end, new, reports.serials, reports.key, self._chains.marks(batch))
        for batch, written in stored.items():
            self._chains.attempt(batch, written[-1].end)
        if not self._database.at_once(FOLLOW, [each.row for written in stored.values() for each in written]):
            for batch in stored:
                self._chains.failed(batch)
            return False
        for batch, written in stored.items():
            self._chains.reached(batch, written[-1].end)
            self._known.add(batch, written)
            if serials := arrived[batch].serials:
                self._spent.add(batch, serials)
        return True

    def _new(self, batch: int, reports: Arrived, last: int) -> dict[bytes, bytes] | None:
        """Return the payloads of reports by identifier, or None if one of them may be stored, or its token used."""
        new = dict(zip(reports.report_ids, reports.payloads, strict=True))
        if not new or len(new) != len(reports.report_ids):
            return None
        if serials := reports.serials:
            table = self._spent.ready(batch)
            if table is None or len(set(serials)) != len(serials) or table.has(b"".join(serials)).any():
                return None
        return new if self._known.lacks(batch, reports.report_ids, last) else None
