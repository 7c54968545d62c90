"""The tree over a sorted list of report identifiers: its root stands for the list, and a proof shows who is in it."""

import hashlib
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lintra_protocol.canonical import HASH_BYTES, domain_hash, framed
from lintra_protocol.errors import InventoryMismatchError

LEAF_IDS = 64
"""Identifiers in a leaf: hashing a list costs one call for so many, and a proof carries so many."""

# `framed(label, part)` of the hot hash, with everything but the part computed once.
_NODE = framed("merkle node") + (2 * HASH_BYTES).to_bytes(8, "big")
_LEAF = framed("merkle leaf") + (8).to_bytes(8, "big")
_LEAF_BYTES = LEAF_IDS * HASH_BYTES
_EMPTY = domain_hash("merkle empty")


class InclusionProof(NamedTuple):
    """That an identifier is in a list, for somebody who knows the list's root and length.

    Attributes:
        leaf: number of the leaf that holds it.
        leaf_ids: the identifiers of that leaf, one after the other.
        siblings: hashes beside the way from the leaf to the root, 32 bytes each.
    """

    leaf: int
    leaf_ids: bytes
    siblings: tuple[bytes, ...]


def merkle_root(report_ids: npt.NDArray[np.uint8]) -> bytes:
    """Return the Merkle root of sorted identifiers, shape `(n, 32)`; an odd node at a level's end moves up as it is."""
    return _levels(report_ids)[-1][0] if len(report_ids) else _EMPTY


def prove_inclusion(report_ids: npt.NDArray[np.uint8], position: int) -> InclusionProof:
    """Prove that the identifier at a position is in a sorted list, shape `(n, 32)`."""
    leaf = position // LEAF_IDS
    place, siblings = leaf, []
    for level in _levels(report_ids):
        if place ^ 1 < len(level):
            siblings.append(level[place ^ 1])
        place //= 2
    return InclusionProof(leaf, report_ids[leaf * LEAF_IDS : (leaf + 1) * LEAF_IDS].tobytes(), tuple(siblings))


def verify_inclusion(root: bytes, count: int, report_id: bytes, proof: InclusionProof) -> None:
    """Check that an identifier is in the list of this root and length.

    The shape of the tree, and on which side each sibling stands, follow from the length and the leaf's number alone.

    Raises:
        InventoryMismatchError: the proof does not show it.
    """
    place, size = proof.leaf, -(-count // LEAF_IDS)
    ids_here = min(LEAF_IDS, count - place * LEAF_IDS)
    held = {proof.leaf_ids[start : start + HASH_BYTES] for start in range(0, len(proof.leaf_ids), HASH_BYTES)}
    if not 0 <= place < size or len(proof.leaf_ids) != HASH_BYTES * ids_here or report_id not in held:
        raise InventoryMismatchError("the proof is not of this identifier")
    node, siblings = _leaf(place, proof.leaf_ids), list(proof.siblings)
    while size > 1:
        if place ^ 1 < size:
            if not siblings:
                raise InventoryMismatchError("the proof does not reach the root")
            sibling = siblings.pop(0)
            node = hashlib.sha256(_NODE + (sibling + node if place & 1 else node + sibling)).digest()
        place, size = place // 2, (size + 1) // 2
    if siblings or node != root:
        raise InventoryMismatchError("the proof does not lead to the root")


def _levels(report_ids: npt.NDArray[np.uint8]) -> list[list[bytes]]:
    """Return the tree's levels from the leaves to the root; the list is not empty."""
    sha256 = hashlib.sha256
    data = np.ascontiguousarray(report_ids).reshape(-1).data
    starts = range(0, len(data), _LEAF_BYTES)
    level = [_leaf(leaf, data[start : start + _LEAF_BYTES]) for leaf, start in enumerate(starts)]
    levels = [level]
    while len(level) > 1:
        paired = [sha256(_NODE + left + right).digest() for left, right in zip(level[::2], level[1::2], strict=False)]
        level = paired + level[len(paired) * 2 :]
        levels.append(level)
    return levels


def _leaf(number: int, leaf_ids: bytes | memoryview) -> bytes:
    head = _LEAF + number.to_bytes(8, "big") + len(leaf_ids).to_bytes(8, "big")
    return hashlib.sha256(b"".join((head, leaf_ids))).digest()
