"""Vectors of projected rows from their parts, word by word."""

import numpy as np

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.mechanisms.joint_rows import JointWords
from lintra_protocol.mechanisms.layout import Triangle


def packed(joint: JointWords, classes: IntArray, vectors: IntArray, cells: IntArray, indicator: int) -> IntArray:
    """Return rows as vectors of shape `(n, w)`, of their class, clipped integers and cells."""
    counts = joint.by_class(classes, np.full((len(vectors), 1), indicator))
    own = classes if joint.per_class else np.zeros_like(classes)
    first, second = np.triu_indices(joint.num_coordinates)
    products = np.zeros((len(vectors), joint.num_blocks, joint.triangle), np.int64)
    products[np.arange(len(vectors)), own] = vectors[:, first] * vectors[:, second]
    parts = [joint.by_class(classes, vectors), products.reshape(len(vectors), -1), joint.cell_words(cells, indicator)]
    return np.concatenate([*[counts] * (joint.num_counts > 0), *parts], axis=1)


def spread(joint: JointWords, counts: float, sums: float, squares: float, products: float, cells: float) -> FloatArray:
    """Return one number for every word, shape `(w,)`, by what the word is."""
    pattern = Triangle(joint.num_coordinates, 0, 1, joint.num_blocks).spelled()
    parts = [
        np.full(joint.num_counts, counts),
        np.full(joint.num_classes * joint.num_coordinates, sums),
        np.where(pattern == 1, squares, products),
        np.full(sum(joint.bins) + sum(joint.tables), cells),
    ]
    return np.concatenate(parts).astype(np.float64)
