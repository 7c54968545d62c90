"""Which reports make a cohort: Merkle roots over sorted identifiers, differences between lists, intersections.

A report identifier is 32 bytes; a list of them is always sorted and free of repetitions before it is hashed.
"""

import hashlib
from collections.abc import Iterable, Sequence

from lintra_protocol.canonical import HASH_BYTES, domain_hash, framed
from lintra_protocol.errors import InvalidMessageError, InventoryMismatchError

# `framed(label, part)` for the two hot hashes, with everything but the part computed once.
_LEAF = framed("merkle leaf") + HASH_BYTES.to_bytes(8, "big")
_NODE = framed("merkle node") + (2 * HASH_BYTES).to_bytes(8, "big")
_EMPTY = domain_hash("merkle empty")


def sorted_ids(report_ids: Iterable[bytes]) -> list[bytes]:
    """Return the identifiers in ascending order.

    Raises:
        InvalidMessageError: one of them is not 32 bytes, or stands twice.
    """
    result = sorted(report_ids)
    if any(len(report_id) != HASH_BYTES for report_id in result):
        raise InvalidMessageError(f"a report identifier has {HASH_BYTES} bytes")
    if any(map(bytes.__eq__, result, result[1:])):
        raise InvalidMessageError("a report identifier is listed twice")
    return result


def merkle_root(report_ids: Sequence[bytes]) -> bytes:
    """Return the Merkle root of sorted identifiers; an odd node at the end of a level moves up unchanged."""
    sha256 = hashlib.sha256
    level = [sha256(_LEAF + report_id).digest() for report_id in report_ids]
    while len(level) > 1:
        paired = [sha256(_NODE + left + right).digest() for left, right in zip(level[::2], level[1::2], strict=False)]
        level = paired + level[len(paired) * 2 :]
    return level[0] if level else _EMPTY


def merkle_path(report_ids: Sequence[bytes], position: int) -> list[tuple[bool, bytes]]:
    """Return the siblings from a leaf to the root, each with whether it stands on the left."""
    sha256 = hashlib.sha256
    level = [sha256(_LEAF + report_id).digest() for report_id in report_ids]
    path = []
    while len(level) > 1:
        sibling = position ^ 1
        if sibling < len(level):
            path.append((sibling < position, level[sibling]))
        paired = [sha256(_NODE + left + right).digest() for left, right in zip(level[::2], level[1::2], strict=False)]
        level = paired + level[len(paired) * 2 :]
        position //= 2
    return path


def verify_merkle_path(root: bytes, report_id: bytes, path: Sequence[tuple[bool, bytes]]) -> None:
    """Check that an identifier is in the list with this root.

    Raises:
        InventoryMismatchError: the path does not lead from the identifier to the root.
    """
    node = hashlib.sha256(_LEAF + report_id).digest()
    for sibling_is_left, sibling in path:
        pair = sibling + node if sibling_is_left else node + sibling
        node = hashlib.sha256(_NODE + pair).digest()
    if node != root:
        raise InventoryMismatchError("the path does not lead to the root")


def difference(own: Sequence[bytes], other: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Return (missing, extra): what `other` lacks of `own`, and what it has beyond it, each sorted."""
    own_set, other_set = set(own), set(other)
    return sorted(own_set - other_set), sorted(other_set - own_set)


def apply_difference(own: Sequence[bytes], missing: Sequence[bytes], extra: Sequence[bytes]) -> list[bytes]:
    """Rebuild another server's list from one's own and the difference to it.

    Raises:
        InventoryMismatchError: the difference does not fit one's own list.
    """
    own_set, missing_set = set(own), set(missing)
    if not missing_set <= own_set or not own_set.isdisjoint(extra):
        raise InventoryMismatchError("the difference does not fit this server's own list")
    return sorted_ids([*(own_set - missing_set), *extra])


def intersection(lists: Sequence[Sequence[bytes]]) -> list[bytes]:
    """Return the identifiers that stand in every list, sorted."""
    first, *others = lists
    common = set(first)
    for other in others:
        common.intersection_update(other)
    return sorted(common)
