"""Rows of the transform: the bare product, and reading, decrypting and multiplying from the store."""

import shutil

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from scipy.sparse import csc_array

from lintra_protocol.crypto.randomness import bulk_system_randomness
from lintra_protocol.crypto.ring import RingArray
from lintra_protocol.mechanisms import Osnap
from lintra_server.batches.executor import InProcessExecutor, ReleaseRequest, sketch_share
from lintra_server.batches.merged_batches import ranked
from lintra_server.batches.transform import add_reports
from lintra_server.web.app import create_app
from scale.cohort import COLUMNS, Collection, collect, settings_of
from scale.figures import Asked, Measured, best, cpu, row

MILLION, BLOCK = 10**6, 10**5
PRODUCT_ROWS = 256


def bare_product(shares: RingArray, rows: int, sparsity: int, times: int = 3) -> float:
    """Return the CPU seconds of a random sparse matrix times shares of shape `(n, w)`, whose columns are ready."""
    count, rng = len(shares), np.random.default_rng(1)
    numbers = rng.integers(0, rows, count * sparsity).astype(np.int32)
    signs = rng.choice(np.array([1, 2**64 - 1], np.uint64), count * sparsity)
    # In blocks, as any program does it that does not hold all shares.
    pieces = []
    for start in range(0, count, BLOCK):
        size = len(shares[start : start + BLOCK])
        here = slice(start * sparsity, (start + size) * sparsity)
        starts = np.arange(0, size * sparsity + 1, sparsity, dtype=np.int32)
        pieces.append(csc_array((signs[here], numbers[here], starts), shape=(rows, size)))

    def multiply() -> None:
        total = np.zeros((rows, shares.shape[1]), np.uint64)
        for number, piece in enumerate(pieces):
            total += piece @ shares[number * BLOCK : (number + 1) * BLOCK]

    return best(times, multiply)


@row("product", "sparse product 10^6 x 10, s = 1, m = 256", "ms", 10.5)
def _product(asked: Asked) -> Measured:
    count = asked.of(MILLION)
    shares = np.random.default_rng(1).integers(0, 2**64, (count, COLUMNS), np.uint64)
    matrix = Osnap(row_bound="1", fraction_bits=0, sigma=4, rows=PRODUCT_ROWS).public_matrix(count, bytes(32))
    sketch, ranks = np.zeros((PRODUCT_ROWS, COLUMNS), np.uint64), np.arange(count)

    def in_blocks() -> None:
        for start in range(0, count, BLOCK):
            add_reports(matrix, sketch, ranks[start : start + BLOCK], shares[start : start + BLOCK])

    reading = best(5, np.sum, shares)
    floor = bare_product(shares, PRODUCT_ROWS, 1, 5)
    remark = f"one read of the shares {1e3 * reading:.1f}"
    return Measured(1e3 * best(5, in_blocks), 1e3 * floor, "bare SciPy CSC product, columns ready", remark)


@row("transform", "read, decrypt, product from the store: 10^6 x 10, s = 4, m = 1024", "CPU s", 0.56)
def _transform(asked: Asked) -> Measured:
    count = asked.of(MILLION)
    made = collect(asked.folder / "transform", count, 2)
    try:
        seconds = _transform_seconds(made)
    finally:
        shutil.rmtree(made.folder)
    shares, cipher = bulk_system_randomness()(8 * COLUMNS * count), AESGCM(bytes(32))
    sealed = cipher.encrypt(bytes(12), shares, None)
    opening = cpu(cipher.decrypt, bytes(12), sealed, None)
    mechanism = made.task.mechanism
    words = np.frombuffer(shares, np.uint64).reshape(-1, COLUMNS)
    product = bare_product(words, mechanism.num_rows, getattr(mechanism, "sparsity", 1))
    return Measured(seconds, opening + product, "decrypting as one piece, bare SciPy CSC product")


def _transform_seconds(made: Collection) -> float:
    app = create_app(settings_of(made, 0))
    held, store = app.node.registry.find_batch(made.task.task_id), app.node.store
    matrix = made.task.mechanism.public_matrix(store.num_reports(held.number), bytes(32))

    def add_up() -> None:
        ((ranks, stored),) = ranked(store, [held.number])
        sketch_share(ReleaseRequest(made.task, 0, matrix, bytes(32), held.number, ranks, stored), InProcessExecutor())

    seconds = cpu(add_up)
    app.node.close()
    return seconds
