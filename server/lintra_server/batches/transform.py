"""The heavy step: the public matrix times the stored shares, over the ring, one block of reports at a time.

A block is one SciPy product in `uint64`, which wraps exactly. Memory holds a block, the sketch and a rank per report,
never all shares.

A sum carries one more column, which is computed apart from it: the same matrix times what the shares' words weigh
together (Freivalds, 1977: T v = S (U v)). Whoever has added everything up compares it with the sum, so that a fault of
memory or of a processor in the product is found before anything leaves. Against a server that lies it does nothing.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from lintra_protocol.crypto.ring import IntArray, RingArray
from lintra_protocol.report.report import shares_words
from lintra_protocol.report.wire import expanded_bytes, payload_bytes
from lintra_protocol.task import Task
from lintra_protocol.transforms.base import PublicMatrix
from lintra_server.storage.segments import EXCLUDED, BatchSegments

BLOCK_BYTES = 8 << 20
"""Ring words of a block: large enough for the product to be fast, small beside everything else."""

BLOCK_REPORTS = 1 << 15
"""Reports of a block of short rows: what is computed of their columns stays in a cache."""


@lru_cache(maxsize=4)
def weights(num_words: int) -> RingArray:
    """Return what each word of a sum weighs in its check, shape `(num_words,)`, always the same.

    A fault does not choose its place by them. They are odd, so one wrong word in a row of the sum is always found. An
    even number of words in one row of which the highest bit alone is wrong is never found: under odd weights these
    errors cancel.
    """
    drawn = hashlib.shake_256(b"weights of the words of a sum").digest(8 * num_words)
    return np.frombuffer(drawn, "<u8").astype(np.uint64) | np.uint64(1)


def is_right(checked: RingArray) -> bool:
    """Return whether a sum, shape `(m, k)`, is what its check says, which is its last column."""
    sketch = checked[:, :-1]
    return bool(np.array_equal(sketch @ weights(sketch.shape[1]), checked[:, -1]))


def add_reports(
    matrix: PublicMatrix, sketch: RingArray, ranks: IntArray, shares: RingArray, checks: RingArray | None = None
) -> None:
    """Do what `matrix.add_reports` does, bit for bit, as one sparse product.

    `matrix` is of shape `(m, n)`. `sketch` holds ring elements of shape `(m, w/c)`, c copies in a report, added to in
    place; with t words that bypass the matrix, `(m, (w - t)/c + t)`. `ranks` has shape `(k,)`; `shares` are ring
    elements of shape `(k, w)`. To `checks`, shape `(m,)`, is added what `weights` make of the sum.
    """
    row_numbers, signs = matrix.entries(ranks)
    num_reports, sparsity = row_numbers.shape
    num_copies, own = num_reports * matrix.copies, sparsity // matrix.copies
    # In the ring -1 is 2^64 - 1, so the sign is one more wrapping factor. A copy is a column of its own.
    columns = csc_array(
        (
            signs.astype(np.int64, copy=False).view(np.uint64).ravel(),
            row_numbers.ravel(),
            np.arange(0, num_copies * own + 1, own),
        ),
        shape=(matrix.rows, num_copies),
    )
    words = sketch.shape[1] - matrix.totals
    own_words = shares[:, : matrix.copies * words].reshape(num_copies, words)
    sketch[:, :words] += np.asarray(columns @ own_words, np.uint64)
    totals = shares[:, matrix.copies * words :]
    sketch[0, words:] += totals.sum(axis=0, dtype=np.uint64)
    if checks is not None:
        weighed = weights(sketch.shape[1])
        # Twice as fast as `@`, which has no fast form for integers.
        checks += np.asarray(columns @ np.einsum("ij,j->i", own_words, weighed[:words]), np.uint64)
        checks[:1] += np.einsum("ij,j->", totals, weighed[words:])  # a scalar would warn when it wraps


@dataclass(frozen=True)
class Segments:
    """A run of segments of a batch: what one part of a release adds up."""

    first: int  #: number of the first of them
    last: int  #: number of the last of them
    begins: int  #: reports of the batch that were stored before it
    ends: int  #: those, and the run's own


def runs(stored: BatchSegments, most: int) -> list[Segments]:
    """Cut the segments of a batch into runs of at most so many reports each, or of one segment."""
    found: list[Segments] = []
    begins, first, before = 0, 0, 0
    for place, (number, total) in enumerate(zip(stored.numbers.tolist(), stored.totals.tolist(), strict=True)):
        if place and total - begins > most and before > begins:
            found.append(Segments(first, int(stored.numbers[place - 1]), begins, before))
            begins = before
        if begins == before:
            first = number
        before = total
    return [*found, Segments(first, int(stored.numbers[-1]), begins, before)] if before else []


def part_share(
    task: Task, server: int, matrix: PublicMatrix, ranks: NDArray[np.uint32], stored: BatchSegments, part: Segments
) -> tuple[RingArray, int]:
    """Add up one server's shares in a run of segments; return the sum with its check, and how many shares it adds.

    The sum is of shape `(m, w/c + 1)`; its last column is the check. `server` is this server's index; `matrix` is the
    public matrix of the cohort. `ranks` are those of the reports of the run in the order of storing, or `EXCLUDED`;
    shape `(k,)`.
    """
    sketch = np.zeros((matrix.rows, task.sketch_words + 1), np.uint64)
    done = 0
    for block, payloads in blocks(task, server, ranks, stored, part):
        add_reports(matrix, sketch[:, :-1], block, shares_words(task, server, payloads), sketch[:, -1])
        done += len(block)
    return sketch, done


def blocks(
    task: Task, server: int, ranks: NDArray[np.uint32], stored: BatchSegments, part: Segments
) -> Iterator[tuple[IntArray, memoryview]]:
    """Yield ranks, shape `(k,)`, and joined payloads of the cohort, `BLOCK_BYTES` or `BLOCK_REPORTS` at a time."""
    size, width = payload_bytes(task, server), expanded_bytes(task)
    ends = dict(zip(stored.numbers.tolist(), (stored.totals - part.begins).tolist(), strict=True))
    places: list[IntArray] = []
    parts: list[bytes] = []
    held, num_held = 0, 0
    for number, payloads in stored.payloads(part.first, part.last):
        count = len(payloads) // size
        places.append(np.arange(ends[number] - count, ends[number]))
        parts.append(payloads)
        held, num_held = held + count * width, num_held + count
        if held >= BLOCK_BYTES or num_held >= BLOCK_REPORTS:
            yield _chosen(ranks[np.concatenate(places)], b"".join(parts), size)
            places, parts, held, num_held = [], [], 0, 0
    if parts:
        yield _chosen(ranks[np.concatenate(places)], b"".join(parts), size)


def _chosen(ranks: NDArray[np.uint32], payloads: bytes, size: int) -> tuple[IntArray, memoryview]:
    """Return the ranks of those of some reports that are in the cohort, and their payloads."""
    kept = np.flatnonzero(ranks != EXCLUDED)
    chosen = ranks[kept].astype(np.int64)
    if len(kept) == len(ranks):
        return chosen, memoryview(payloads)
    return chosen, np.frombuffer(payloads, f"V{size}").take(kept).view(np.uint8).data
