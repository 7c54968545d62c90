"""Rows of lists of report identifiers: sorting, hashing, comparing, proving."""

import hashlib
import time

import numpy as np

from lintra_protocol.cohort.merkle import LEAF_IDS, merkle_root, verify_absence, verify_inclusion
from lintra_protocol.cohort.report_ids import ComparedLists, ReportIds
from lintra_protocol.crypto.randomness import bulk_system_randomness
from lintra_service.mapped_lists import ListFolder
from lintra_service.scratch import Scratch
from scale.figures import Asked, Measured, best, row

MILLION, TEN_MILLION = 10**6, 10**7
PROOFS = 1000


def _array(count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.frombuffer(bulk_system_randomness()(32 * count), np.uint8).reshape(count, 32)


def _sorted(count: int) -> ReportIds:
    return ReportIds.sorted(_array(count))


def _sorting(count: int) -> Measured:
    ids = _array(count)
    words = ids.view(np.uint64)[:, 0].copy()
    floor = best(2, np.sort, words)
    return Measured(best(2, ReportIds.sorted, ids), floor, "NumPy's sort of the first eight bytes")


@row("sort_1e6", "sort and unique, 10^6 ids", "CPU s", 0.10)
def _sort(asked: Asked) -> Measured:
    return _sorting(asked.of(MILLION))


@row("sort_1e7", "sort and unique, 10^7 ids", "CPU s", 1.75, large=True)
def _sort_many(asked: Asked) -> Measured:
    return _sorting(asked.of(TEN_MILLION))


@row("root_1e6", "Merkle root of 10^6 ids", "CPU s", 0.04)
def _root(asked: Asked) -> Measured:
    ids = _sorted(asked.of(MILLION))
    data = ids.encode()
    nodes = 2 * -(-len(ids) // LEAF_IDS) - 1
    calls = best(3, lambda: [hashlib.sha256(b"").digest() for _ in range(nodes)])
    floor = best(3, lambda: hashlib.sha256(data).digest()) + calls
    remark = f"of the floor {calls:.3f} are {nodes} hashes of nothing"
    return Measured(best(3, merkle_root, ids.array), floor, "one SHA-256 over the bytes, a call for each node", remark)


def _comparing(count: int) -> Measured:
    whole = _sorted(count)
    first, second = (whole.where(np.arange(count) % 200 != rest) for rest in (0, 100))

    def compare() -> None:
        compared = ComparedLists.of([first, second])
        compared.common()
        compared.difference(0, 1)
        compared.difference(1, 0)

    held = [each.array.view(np.uint64) for each in (first, second)]
    floor = best(2, lambda: [np.bitwise_xor.reduce(each, axis=None) for each in held])
    return Measured(best(2, compare), floor, "both lists read once")


@row("compare_1e6", "intersection and differences of two lists of 10^6 ids, 1 % apart", "CPU s", 0.10)
def _compare(asked: Asked) -> Measured:
    return _comparing(asked.of(MILLION))


@row("compare_1e7", "intersection and differences of two lists of 10^7 ids, 1 % apart", "CPU s", 1.0, large=True)
def _compare_many(asked: Asked) -> Measured:
    return _comparing(asked.of(TEN_MILLION))


@row("proof_1e6", "inclusion proof at 10^6, made from the stored tree and verified", "ms", 0.05)
def _proof(asked: Asked) -> Measured:
    ids, folder = _sorted(MILLION), ListFolder(asked.folder / "lists")
    root = folder.write(ids).root
    folder.write_tree(ids.tree)
    scratch = Scratch(asked.folder / "scratch")
    began = time.process_time()
    stored, tree = folder.copied(root, MILLION, scratch), folder.copied_tree(root, MILLION, scratch)
    copying = time.process_time() - began
    if stored is None or tree is None:
        raise ValueError("what was just written is not there")
    wanted = [ids[place] for place in range(0, MILLION, MILLION // PROOFS)]
    absent = [bytes([own[0] ^ 1]) + own[1:] for own in wanted]
    made = best(3, lambda: [stored.prove(own, tree) for own in wanted]) / PROOFS
    proofs = [stored.prove(own, tree)[0] for own in wanted]
    pairs = list(zip(wanted, proofs, strict=True))
    checked = best(3, lambda: [verify_inclusion(root, MILLION, own, one) for own, one in pairs]) / PROOFS
    apart = best(3, lambda: [verify_absence(root, MILLION, own, stored.prove(own, tree)) for own in absent]) / PROOFS
    size = len(proofs[0].leaf_ids) + 32 * len(proofs[0].siblings)
    nodes = [sibling + sibling + bytes(8) for sibling in proofs[0].siblings]
    floor = best(3, lambda: [_hashed(proofs[0].leaf_ids, nodes) for _ in range(PROOFS)]) / PROOFS
    remark = (
        f"made alone {1e3 * made:.3f}, {copying:.3f} s before the first while list and tree are copied and hashed; "
        f"of absence {1e3 * apart:.3f}; {size} bytes"
    )
    return Measured(1e3 * (made + checked), 1e3 * floor, "SHA-256 of a leaf and of each node on its way", remark)


def _hashed(leaf_ids: bytes, nodes: list[bytes]) -> None:
    for part in (leaf_ids, *nodes):
        hashlib.sha256(part).digest()
