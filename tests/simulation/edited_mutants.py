"""Servers that believe their database in one thing: each must be found by an editor."""

import pytest

from lintra_server.storage import chains
from lintra_server.storage.chains import Chains
from lintra_server.storage.history import BatchHistory
from lintra_server.storage.marks import End, Marks, Row
from simulation.mutants import SILENT, TWO, UNLISTED, UNSTORED, Planted, no_notes

STRANGERS = "an inventory lists reports that never arrived"
TWICE = "a report is in two inventories of one server"
OTHER_LIST = "an inventory is not of its list"


def unmarked(patch: pytest.MonkeyPatch) -> None:
    """Marks are not checked, nor where a batch ends."""

    def follows(self: Marks, before: End, row: Row) -> bool:
        return row.number > before.number and row.total > before.total

    def confirmed(self: Chains, connection: object, batch: int) -> End:
        return chains._tail(connection, batch)

    patch.setattr(Marks, "follows", follows)
    patch.setattr(Chains, "confirmed", confirmed)
    patch.setattr(Chains, "end", lambda self, batch: _shown(self, batch))
    patch.setattr(Chains, "known", lambda *_: None)


def _shown(self: Chains, batch: int) -> End:
    with self._reading() as connection:
        return chains._tail(connection, batch)


def columns_believed(patch: pytest.MonkeyPatch) -> None:
    """What a batch's columns hold is not compared with the journal's lines."""
    patch.setattr(BatchHistory, "contradiction", lambda *_: "")


EDITED: dict[str, Planted] = {
    "marks not checked": Planted(unmarked, (UNLISTED, STRANGERS, TWICE, OTHER_LIST)),
    "notes left out": Planted(no_notes, (UNLISTED, SILENT, UNSTORED)),
    "columns not held against lines": Planted(columns_believed, (TWO,)),
}
"""By the rule that is missing."""
