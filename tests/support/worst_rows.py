"""Rows of a range finder that are as far apart as any can be shown to be."""

from math import sqrt

import numpy as np

from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.mechanisms.range_finder import RangeFinder
from lintra_protocol.noise.clipping import quantise


def worst_pair(mechanism: RangeFinder, columns: int, seed: int) -> IntArray:
    """Return integer rows a + b and a - b that share the longest projection."""
    signs = mechanism.signs(columns)
    frame, lengths, _ = np.linalg.svd(signs, full_matrices=False)
    a = frame[:, 0] * (float(mechanism.projected_bound) * sqrt(mechanism.rank) / lengths[0])
    b = np.random.default_rng(seed).normal(size=columns)
    b -= frame @ (frame.T @ b)
    b *= sqrt(1 - a @ a) / np.linalg.norm(b)
    return quantise(np.stack([a + b, a - b]) * 2.0**mechanism.fraction_bits, mechanism.squared_bound)
