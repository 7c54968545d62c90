"""The tree over a sorted list of report identifiers: its root stands for the list, and a proof shows who is in it."""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lintra_protocol.encoding.canonical import HASH_BYTES, domain_hash, framed
from lintra_protocol.errors import InventoryMismatchError

LEAF_IDS = 64
"""Identifiers in a leaf: hashing a list costs one call for so many, and a proof carries so many."""

# `framed(label, part)` of the hot hash, with everything but the part computed once.
_NODE = framed("merkle node") + (2 * HASH_BYTES).to_bytes(8, "big")
_LEAF = framed("merkle leaf") + (8).to_bytes(8, "big")
_LEAF_BYTES = LEAF_IDS * HASH_BYTES
_LEAF_LENGTH = _LEAF_BYTES.to_bytes(8, "big")
_EMPTY = domain_hash("merkle empty")


class InclusionProof(NamedTuple):
    """That a leaf is part of a list, for somebody who knows the list's root and length."""

    leaf: int  #: number of the leaf
    leaf_ids: bytes  #: the identifiers of that leaf, one after the other
    siblings: tuple[bytes, ...]  #: hashes beside the way from the leaf to the root, 32 bytes each


class Tree:
    """The tree over one list: its levels from the leaves to the root, which can be stored, 1 byte an identifier."""

    def __init__(self, count: int, nodes: bytes | memoryview) -> None:
        """Take a tree as `nodes` gives it; nothing is checked but its length.

        `nodes` are all hashes, level by level, the leaves first. Raises InventoryMismatchError if these are not as many
        as a list of this length has.
        """
        self.count = count
        self.nodes = nodes
        self._sizes = list(_level_sizes(count))
        if len(nodes) != HASH_BYTES * sum(self._sizes):
            raise InventoryMismatchError(f"a tree over {count} identifiers has {sum(self._sizes)} nodes")

    @property
    def root(self) -> bytes:
        """Return what stands for the whole list."""
        return bytes(self.nodes[-HASH_BYTES:]) if self.count else _EMPTY

    def prove(self, leaf: int, leaf_ids: bytes) -> InclusionProof:
        """Prove that a leaf with these identifiers is part of the list."""
        place, begins, siblings = leaf, 0, []
        for size in self._sizes:
            if place ^ 1 < size:
                start = HASH_BYTES * (begins + (place ^ 1))
                siblings.append(bytes(self.nodes[start : start + HASH_BYTES]))
            place, begins = place // 2, begins + size
        return InclusionProof(leaf, leaf_ids, tuple(siblings))


class TreeBuilder:
    """Hashes a sorted list as it comes, in chunks of any length; kept are hashes, half a byte an identifier."""

    def __init__(self) -> None:
        """Begin with an empty list."""
        self._count = 0
        self._leaves: list[bytes] = []
        self._rest = b""

    def add(self, data: bytes | memoryview) -> None:
        """Take the next identifiers, one after the other."""
        self._count += len(data) // HASH_BYTES
        if self._rest:
            need = min(_LEAF_BYTES - len(self._rest), len(data))
            self._rest += bytes(data[:need])
            data = data[need:]
            if len(self._rest) == _LEAF_BYTES:
                self._hash(self._rest)
                self._rest = b""
        whole = len(data) // _LEAF_BYTES * _LEAF_BYTES
        self._hash(data[:whole])
        self._rest += bytes(data[whole:])

    def _hash(self, data: bytes | memoryview) -> None:
        sha256, number = hashlib.sha256, len(self._leaves)
        for start in range(0, len(data), _LEAF_BYTES):
            head = _LEAF + number.to_bytes(8, "big") + _LEAF_LENGTH
            self._leaves.append(sha256(b"".join((head, data[start : start + _LEAF_BYTES]))).digest())
            number += 1

    def tree(self) -> Tree:
        """End the list; return its tree. An odd node at a level's end moves up as it is."""
        level = self._leaves
        if self._rest:
            level = [*level, _leaf(len(level), self._rest)]
        levels = [b"".join(level)]
        while len(level) > 1:
            level = _paired(level)
            levels.append(b"".join(level))
        return Tree(self._count, b"".join(levels))


def merkle_root(report_ids: npt.NDArray[np.uint8]) -> bytes:
    """Return the Merkle root of sorted identifiers, shape `(n, 32)`."""
    return _tree(report_ids).root


def prove_inclusion(report_ids: npt.NDArray[np.uint8], position: int) -> InclusionProof:
    """Prove that the identifier at a position is in a sorted list, shape `(n, 32)`, which is hashed for it."""
    leaf = position // LEAF_IDS
    leaf_ids = report_ids[leaf * LEAF_IDS : (leaf + 1) * LEAF_IDS].tobytes()
    return _tree(report_ids).prove(leaf, leaf_ids)


def verify_inclusion(root: bytes, count: int, report_id: bytes, proof: InclusionProof) -> None:
    """Check that an identifier is in the list of this root and length.

    Raises InventoryMismatchError if the proof does not show it.
    """
    _require_leaf(root, count, proof)
    if not _holds(proof.leaf_ids, report_id):
        raise InventoryMismatchError("the proof is not of this identifier")


def verify_absence(root: bytes, count: int, report_id: bytes, proofs: Sequence[InclusionProof]) -> None:
    """Check that an identifier is not in the list of this root and length, which is sorted.

    The leaf where it would stand shows it, or two neighbours between which it would; of an empty list its root alone.
    That the list is sorted is the word of those who signed its root; of the leaves shown it is checked. Raises
    InventoryMismatchError if the proofs do not show it.
    """
    if not count:
        if proofs or root != _EMPTY:
            raise InventoryMismatchError("this is not the root of an empty list, or an empty list has leaves")
        return
    if len(proofs) not in (1, 2):
        raise InventoryMismatchError("one leaf shows that an identifier is absent, or two neighbours")
    first, last = proofs[0].leaf, proofs[-1].leaf
    for proof in proofs:
        _require_leaf(root, count, proof)
    held = [own for proof in proofs for own in _cut(proof.leaf_ids)]
    if last - first != len(proofs) - 1 or any(left >= right for left, right in pairwise(held)):
        raise InventoryMismatchError("the leaves of the proof are no neighbours, or not sorted")
    if report_id in held:
        raise InventoryMismatchError("the list holds this identifier")
    begins = first == 0 or held[0] < report_id
    ends = last == (count - 1) // LEAF_IDS or report_id < held[-1]
    if not begins or not ends:
        raise InventoryMismatchError("the identifier would stand in another leaf")


def _require_leaf(root: bytes, count: int, proof: InclusionProof) -> None:
    """Check that a leaf is part of the list of this root and length.

    The shape of the tree, and on which side each sibling stands, follow from the length and the leaf's number alone.
    """
    place, size = proof.leaf, -(-count // LEAF_IDS)
    if not 0 <= place < size or len(proof.leaf_ids) != HASH_BYTES * min(LEAF_IDS, count - place * LEAF_IDS):
        raise InventoryMismatchError("the list has no such leaf")
    node, used = _leaf(place, proof.leaf_ids), 0
    sha256, siblings = hashlib.sha256, proof.siblings
    while size > 1:
        if place ^ 1 < size:
            if used == len(siblings):
                raise InventoryMismatchError("the proof does not reach the root")
            sibling = siblings[used]
            used += 1
            node = sha256(_NODE + (sibling + node if place & 1 else node + sibling)).digest()
        place, size = place // 2, (size + 1) // 2
    if used < len(siblings) or node != root:
        raise InventoryMismatchError("the proof does not lead to the root")


def _cut(leaf_ids: bytes) -> list[bytes]:
    """Return the identifiers of a leaf."""
    return [leaf_ids[start : start + HASH_BYTES] for start in range(0, len(leaf_ids), HASH_BYTES)]


def _holds(leaf_ids: bytes, report_id: bytes) -> bool:
    """Return whether an identifier is one of a leaf: its bytes alone may also stand where two others meet."""
    at = leaf_ids.find(report_id)
    while at > 0 and at % HASH_BYTES:
        at = leaf_ids.find(report_id, at + 1)
    return at >= 0 and len(report_id) == HASH_BYTES


def _tree(report_ids: npt.NDArray[np.uint8]) -> Tree:
    builder = TreeBuilder()
    builder.add(np.ascontiguousarray(report_ids).reshape(-1).data)
    return builder.tree()


def _level_sizes(count: int) -> Iterator[int]:
    """Yield the nodes of each level of the tree over so many identifiers, the leaves first."""
    size = -(-count // LEAF_IDS)
    while size > 1:
        yield size
        size = (size + 1) // 2
    if size:
        yield size


def _paired(level: Sequence[bytes]) -> list[bytes]:
    sha256 = hashlib.sha256
    paired = [sha256(_NODE + left + right).digest() for left, right in zip(level[::2], level[1::2], strict=False)]
    return [*paired, *level[len(paired) * 2 :]]


def _leaf(number: int, leaf_ids: bytes) -> bytes:
    return hashlib.sha256(_LEAF + number.to_bytes(8, "big") + len(leaf_ids).to_bytes(8, "big") + leaf_ids).digest()
