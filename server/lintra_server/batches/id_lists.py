"""The sorted identifiers of closed batches, and the trees over frozen cohorts: files, so that memory holds a slice.

All of it follows from the store, so no file is trusted. Only copies that nobody else can change are used: a list is
hashed while its copy is made, and a proof is verified before it leaves. A file that is missing or wrong after a crash,
an edit or a restore is made again.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeVar

from lintra_protocol.cohort.merkle import InclusionProof, Tree, verify_absence, verify_inclusion
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.encoding.canonical import JsonValue, parse_base64url, parse_canonical_json
from lintra_protocol.errors import InvalidMessageError, InventoryMismatchError, UnavailableError
from lintra_server.batches.chunks import PendingChunks
from lintra_server.storage.history import edited
from lintra_server.storage.store import Store
from lintra_service.mapped_lists import ListFolder, copy_of
from lintra_service.scratch import Scratch

K = TypeVar("K")
V = TypeVar("V", ReportIds, tuple[ReportIds, Tree])

MOST_HELD, MOST_HELD_IDS = 64, 1 << 25
"""Lists that stay open, and identifiers in all of them: each has a copy, of 32 bytes an identifier."""


@dataclass(frozen=True)
class FrozenList:
    """What a frozen cohort consists of: its batch, the list of this server's inventory, and the cohort's own."""

    batch: int
    inventory_root: bytes = field(repr=False)
    num_own: int  #: reports in the inventory
    root: bytes = field(repr=False)
    count: int  #: reports in the cohort
    judged: bool = False  #: whether it is what was accepted of the cohort, and root and count are those of the verdict


class BatchLists:
    """The lists of one server; thread-safe. `pieces` are what came of the other servers' lists, until it is used."""

    def __init__(self, store: Store, folder: ListFolder, scratch: Scratch, pieces: PendingChunks) -> None:
        """Keep the lists of a store's batches in a folder of their own, of which only copies are used."""
        self.pieces = pieces
        self._store = store
        self._folder = folder
        self._scratch = scratch
        self._lock = Lock()
        self._checked: OrderedDict[tuple[int, bytes], ReportIds] = OrderedDict()
        self._proving: OrderedDict[FrozenList, tuple[ReportIds, Tree]] = OrderedDict()

    def write(self, batch: int, members: Sequence[int] = ()) -> ReportIds:
        """Sort the identifiers of a batch that takes no more reports, store them, and return a copy.

        `members` are the batches that become one with it, itself included, before the store knows.
        """
        report_ids = self._store.report_ids(*(members or self._store.history.members(batch)))
        # A full disk must not keep a batch from being closed: then the list stays in memory.
        with suppress(UnavailableError):
            report_ids = copy_of(report_ids, self._scratch)
        with suppress(OSError):
            report_ids = ReportIds(report_ids.rows, self._folder.write(report_ids).root)
        self._hold(self._checked, (batch, report_ids.root), report_ids)
        return report_ids

    def inventory(self, batch: int, root: bytes, count: int) -> ReportIds:
        """Return the list that this server's inventory describes, by its root and length."""
        held = self._checked.get((batch, root))
        if held is not None:
            return held
        found = self._folder.copied(root, count, self._scratch)
        if found is None:
            return self._written(batch, root)
        self._hold(self._checked, (batch, root), found)
        return found

    def _written(self, batch: int, root: bytes) -> ReportIds:
        """Make the list of a batch again."""
        report_ids = self.write(batch)
        if report_ids.root != root:
            named = self._store.history.batches[batch].batch
            raise edited(f"{named}: table segments does not hold the reports of its inventory")
        return report_ids

    def cohort(self, frozen: FrozenList) -> ReportIds:
        """Return the list of a frozen cohort, as a look at the inventory's (see `Store.report_ids` for errors)."""
        own = self.inventory(frozen.batch, frozen.inventory_root, frozen.num_own)
        return self._chosen(frozen, own)

    def _chosen(self, frozen: FrozenList, own: ReportIds) -> ReportIds:
        cohort = own.without(self._store.missing(frozen.batch))
        return cohort.without(self._store.rejected(frozen.batch)) if frozen.judged else cohort

    def keep_tree(self, tree: Tree) -> None:
        """Store the tree over a cohort, for proofs."""
        with suppress(OSError):
            self._folder.write_tree(tree)

    def prove(self, frozen: FrozenList, report_id: bytes) -> tuple[InclusionProof, ...]:
        """Prove that a report is in a frozen cohort by the leaf that holds it, or that it is not, by the gap."""
        with suppress(InventoryMismatchError):
            found = self._read(frozen)
            if found is not None:
                return self._proven(frozen, report_id, *found)
        report_ids = self.cohort(frozen)
        self.keep_tree(report_ids.tree)
        self._hold(self._proving, frozen, (report_ids, report_ids.tree))
        return self._proven(frozen, report_id, report_ids, report_ids.tree)

    def _read(self, frozen: FrozenList) -> tuple[ReportIds, Tree] | None:
        """Return a cohort's list, and its tree as the file has it; None if there is no tree."""
        held = self._proving.get(frozen)
        if held is not None:
            return held
        tree = self._folder.copied_tree(frozen.root, frozen.count, self._scratch)
        if tree is None:
            return None
        found = self.cohort(frozen), tree
        self._hold(self._proving, frozen, found)
        return found

    @staticmethod
    def _proven(frozen: FrozenList, report_id: bytes, report_ids: ReportIds, tree: Tree) -> tuple[InclusionProof, ...]:
        proofs = report_ids.prove(report_id, tree)
        if shows(proofs, report_id):
            verify_inclusion(frozen.root, frozen.count, report_id, proofs[0])
        else:
            verify_absence(frozen.root, frozen.count, report_id, proofs)
        return proofs

    def keep_only(self, roots: Iterable[bytes]) -> None:
        """Remove the files of lists that nothing describes any more, and let go of all."""
        with self._lock:
            self._checked.clear()
            self._proving.clear()
        self._folder.keep_only(roots)

    def _hold(self, held: OrderedDict[K, V], key: K, value: V) -> None:
        with self._lock:
            held[key] = value
            while len(held) > MOST_HELD or (len(held) > 1 and _num_ids(held.values()) > MOST_HELD_IDS):
                held.popitem(last=False)


def _num_ids(held: Iterable[ReportIds | tuple[ReportIds, Tree]]) -> int:
    return sum(len(each[0] if isinstance(each, tuple) else each) for each in held)


def roots_of(documents: Iterable[bytes]) -> list[bytes]:
    """Return the roots that signed inventories and cohorts name."""
    roots = list[bytes]()
    for document in documents:
        with suppress(InvalidMessageError, TypeError):  # it was edited; the list of its batch is made again
            root = _root(parse_canonical_json(document))
            if root is not None:
                roots.append(parse_base64url(root))
    return roots


def _root(document: JsonValue) -> str | None:
    match document:
        case {"message": {"root": str(root)}}:
            return root
    return None


def shows(proofs: Sequence[InclusionProof], report_id: bytes) -> bool:
    """Return whether what `BatchLists.prove` returned shows that the report is in the cohort."""
    ids = proofs[0].leaf_ids if len(proofs) == 1 else b""
    return any(ids[start : start + len(report_id)] == report_id for start in range(0, len(ids), len(report_id)))
