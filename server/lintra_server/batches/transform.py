"""The heavy step: the public matrix times the stored shares, over the ring, one block of reports at a time.

A block is one SciPy product in `uint64`, which wraps exactly. Memory holds a block, the sketch and two integers per
report, never all shares.
"""

from collections.abc import Iterable, Iterator

import numpy as np
from scipy.sparse import csc_array

from lintra_protocol.report import share_words
from lintra_protocol.ring import IntArray, RingArray, ring_from_bytes
from lintra_protocol.task import Task
from lintra_protocol.transforms.base import PublicMatrix
from lintra_protocol.wire import FULL, payload_bytes, share_form

BLOCK_BYTES = 8 << 20
"""Ring words of a block: large enough for the product to be fast, small beside everything else."""


def add_reports(matrix: PublicMatrix, sketch: RingArray, ranks: IntArray, shares: RingArray) -> None:
    """Do what `matrix.add_reports` does, bit for bit, as one sparse product.

    Args:
        matrix: of shape `(m, n)`.
        sketch: ring elements of shape `(m, w/c)`, c copies in a report, added to in place; with t words that bypass
            the matrix, `(m, (w - t)/c + t)`.
        ranks: shape `(k,)`.
        shares: ring elements of shape `(k, w)`.
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
    sketch[0, words:] += shares[:, matrix.copies * words :].sum(axis=0, dtype=np.uint64)


def sketch_share(
    task: Task,
    server: int,
    matrix: PublicMatrix,
    places: tuple[IntArray, IntArray],
    payloads: Iterable[tuple[int, bytes]],
) -> RingArray:
    """Add up one server's shares of a cohort; the result has shape `(m, w/c)`.

    Args:
        task: the task.
        server: this server's index.
        matrix: the public matrix of the cohort.
        places: segment number and position in it by rank, each of shape `(n,)`.
        payloads: (segment number, its payloads), in ascending order.

    Raises:
        ValueError: a report of the cohort is in none of the segments.
    """
    sketch = np.zeros((matrix.rows, task.sketch_words), np.uint64)
    done = 0
    for ranks, shares in _blocks(task, server, places, payloads):
        add_reports(matrix, sketch, ranks, shares)
        done += len(ranks)
    if done != matrix.num_clients:
        raise ValueError(f"{matrix.num_clients - done} stored shares of the cohort are missing")
    return sketch


def _blocks(
    task: Task, server: int, places: tuple[IntArray, IntArray], payloads: Iterable[tuple[int, bytes]]
) -> Iterator[tuple[IntArray, RingArray]]:
    """Yield ranks and shares of about `BLOCK_BYTES` at a time."""
    segment_of, position_of = places
    by_segment = np.argsort(segment_of, kind="stable")
    numbers, firsts = np.unique(segment_of[by_segment], return_index=True)
    ranks_in = dict(zip(numbers.tolist(), np.split(by_segment, firsts[1:]), strict=False))
    ranks: list[IntArray] = []
    shares: list[RingArray] = []
    size = 0
    for number, segment in payloads:
        if number not in ranks_in:
            continue
        ranks.append(ranks_in[number])
        shares.append(_words(task, server, segment, position_of[ranks[-1]]))
        size += shares[-1].nbytes
        if size >= BLOCK_BYTES:
            yield np.concatenate(ranks), np.concatenate(shares)
            ranks, shares, size = [], [], 0
    if ranks:
        yield np.concatenate(ranks), np.concatenate(shares)


def _words(task: Task, server: int, segment: bytes, positions: IntArray) -> RingArray:
    """Return the shares at some positions of a segment, shape `(k, w)`."""
    if share_form(task, server) == FULL:
        words: RingArray = ring_from_bytes(segment).reshape(-1, task.num_words)[positions]
        return words
    size = payload_bytes(task, server)
    return np.stack([share_words(task, server, segment[at : at + size]) for at in (positions * size).tolist()])
