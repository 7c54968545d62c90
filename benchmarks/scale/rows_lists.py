"""Rows of lists of report identifiers: sorting, hashing, comparing, proving."""

import hashlib

import numpy as np

from lintra_protocol.manifest import merkle_root, verify_inclusion
from lintra_protocol.randomness import bulk_system_randomness
from lintra_protocol.report_ids import ComparedLists, ReportIds
from scale.figures import Asked, Measured, best, cpu, row

MILLION, TEN_MILLION = 10**6, 10**7
PROOFS = 20


def _array(count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.frombuffer(bulk_system_randomness()(32 * count), np.uint8).reshape(count, 32)


def _sorted(count: int) -> ReportIds:
    return ReportIds.sorted(_array(count))


def _sorting(count: int) -> Measured:
    ids = _array(count)
    words = ids.view(np.uint64)[:, 0].copy()
    floor = best(2, np.argsort, words, kind="stable")
    return Measured(best(2, ReportIds.sorted, ids), floor, "NumPy's argsort of the first eight bytes")


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
    floor = best(3, lambda: hashlib.sha256(data).digest())
    return Measured(best(3, merkle_root, ids.array), floor, "one SHA-256 over the bytes")


def _comparing(count: int) -> Measured:
    whole = _sorted(count)
    first, second = (whole.where(np.arange(count) % 200 != rest) for rest in (0, 100))

    def compare() -> None:
        compared = ComparedLists.of([first, second])
        compared.common()
        compared.difference(0, 1)
        compared.difference(1, 0)

    words = np.concatenate([each.array.view(np.uint64)[:, 0] for each in (first, second)])
    return Measured(best(2, compare), best(2, np.sort, words, kind="stable"), "NumPy's sort of all first eight bytes")


@row("compare_1e6", "intersection and differences of two lists of 10^6 ids, 1 % apart", "CPU s", 0.10)
def _compare(asked: Asked) -> Measured:
    return _comparing(asked.of(MILLION))


@row("compare_1e7", "intersection and differences of two lists of 10^7 ids, 1 % apart", "CPU s", 1.0, large=True)
def _compare_many(asked: Asked) -> Measured:
    return _comparing(asked.of(TEN_MILLION))


@row("proof_1e6", "inclusion proof at 10^6, made and verified", "ms", 0.05)
def _proof(asked: Asked) -> Measured:
    count = asked.of(MILLION)
    ids = _sorted(count)
    tree, root = ids.tree, ids.root  # made once, when a batch is closed
    places = range(0, count, count // PROOFS)
    wanted = [ids[place] for place in places]
    made = cpu(lambda: [ids.prove(one, tree) for one in wanted]) / PROOFS
    proofs = [ids.prove(one, tree)[0] for one in wanted]
    checked = cpu(lambda: [verify_inclusion(root, count, ids[at], one) for at, one in zip(places, proofs, strict=True)])
    size = len(proofs[0].leaf_ids) + 32 * len(proofs[0].siblings)
    leaf = best(5, lambda: hashlib.sha256(proofs[0].leaf_ids).digest())
    return Measured(1e3 * (made + checked / PROOFS), 1e3 * leaf, "SHA-256 of one leaf", f"{size} bytes")
