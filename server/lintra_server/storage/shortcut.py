"""The short way of a commit: one statement, if memory knows all that a transaction would find out.

Nearly every commit is of new reports, for an open batch whose end is where this process left it. Then the statement has
nothing to look for, only to confirm: that the batch is open, has room and ends there (see `segments.FOLLOW`). If it
does not, nothing is written, and the transaction that looks first decides. So what is stored, and what is counted, is
decided inside the transaction that commits, as on the long way; memory only says which way is worth trying.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lintra_server.disk.vault import DataKey
from lintra_server.storage.database import AnyDatabase
from lintra_server.storage.known import KnownIds
from lintra_server.storage.segments import FOLLOW, Tail, Written, new_segments
from lintra_server.storage.spent import SpentTables


class Arrived(NamedTuple):
    """Reports that came for one batch, in the order in which they came.

    Attributes:
        serials: of their tokens; empty in an open task.
        key: of the batch.
    """

    report_ids: Sequence[bytes]
    payloads: Sequence[bytes]
    serials: Sequence[bytes]
    key: DataKey


class Shortcut:
    """Where batches ended when this process last wrote to them; the store uses it, one commit at a time."""

    def __init__(self, database: AnyDatabase, known: KnownIds, spent: SpentTables) -> None:
        """Know of no batch yet.

        Args:
            database: where reports are stored.
            known: which reports are.
            spent: which tokens were used.
        """
        self._database = database
        self._known = known
        self._spent = spent
        self._ends: dict[int, Tail] = {}

    def leads_to(self, batch: int) -> bool:
        """Return whether it is worth trying."""
        return batch in self._ends

    def store(self, arrived: Mapping[int, Arrived]) -> dict[int, int] | None:
        """Store reports of some batches, all or none; return how many each holds now, or None if none was stored.

        If it raises, whoever asked forgets the batches: nobody knows what became of them.
        """
        stored: dict[int, list[Written]] = {}
        for batch, reports in arrived.items():
            new = self._new(batch, reports)
            if new is None:
                return None
            stored[batch] = new_segments(batch, self._ends[batch], new, reports.serials, reports.key)
        if not self._database.at_once(FOLLOW, [each.row for written in stored.values() for each in written]):
            return None
        totals: dict[int, int] = {}
        for batch, written in stored.items():
            totals[batch] = self._ends[batch].total + len(arrived[batch].report_ids)
            self._ends[batch] = Tail(written[-1].number, totals[batch])
            self._known.add(batch, written)
            if serials := arrived[batch].serials:
                self._spent.add(batch, serials)
        return totals

    def found(self, batch: int, before: Tail, now: Tail) -> None:
        """Note where a batch ended before and after a commit of the long way."""
        expected = self._ends.pop(batch, before)
        if expected == before:  # else another process writes to it, too, and will again
            self._ends[batch] = now

    def forget(self, batch: int) -> None:
        """Let the next commit look for itself."""
        self._ends.pop(batch, None)

    def forget_all(self) -> None:
        """Let every next commit look for itself."""
        self._ends.clear()

    def _new(self, batch: int, reports: Arrived) -> dict[bytes, bytes] | None:
        """Return the payloads of reports by identifier, or None if one of them may be stored, or its token used."""
        new = dict(zip(reports.report_ids, reports.payloads, strict=True))
        if not new or len(new) != len(reports.report_ids):
            return None
        if serials := reports.serials:
            table = self._spent.ready(batch)
            if table is None or len(set(serials)) != len(serials) or table.has(b"".join(serials)).any():
                return None
        if not self._known.lacks(batch, reports.report_ids, self._ends[batch].number):
            return None
        return new
