"""How far weighted slopes may be from ordinary ones, learned from rows of a public sample.

A release of weighted rows tells the slopes of the weighted regression. On a sample of the same population both
regressions can be computed, and so can the error of their difference. An interval of a weighted slope that is widened
by the allowance, both ways, is one for the ordinary slope.
"""

import numpy as np

from lintra_protocol.crypto.ring import FloatArray

_TWO_SIDED = 1.959964
_CUT_OFF = 1e-12


def allowances(
    plain: FloatArray, weighted: FloatArray, weights: FloatArray, num_rows: float | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return by how much intervals of slopes are widened, and weighted less ordinary slopes; both of shape `(p,)`.

    The allowance is |d_j| + 1.96 s_j sqrt(1 + m/n) for the difference d_j of the slopes of the m rows of the sample;
    s_j is its deviation, from the rows' influences on both slopes, psi = G_w^-1 x w e_w - G^-1 x e.

    Args:
        plain: a constant, features and the target of the sample's rows, shape `(m, p + 2)`.
        weighted: the same rows as they are collected, values moved to their bounds, before the row's weight.
        weights: of the rows, shape `(m,)`.
        num_rows: n, rows of the release; None where the sample is the collected rows themselves: nothing varies.
    """
    ordinary, influence = _slopes(plain, np.ones(len(plain)))
    theirs, influence_weighted = _slopes(weighted, weights)
    difference = (theirs - ordinary)[1:]
    if num_rows is None:
        return np.abs(difference), difference
    deviation = np.sqrt(np.sum((influence_weighted - influence)[:, 1:] ** 2, axis=0))
    return np.abs(difference) + _TWO_SIDED * deviation * np.sqrt(1 + len(plain) / num_rows), difference


def _slopes(rows: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the weighted least squares of the last column, shape `(k,)`, and each row's influence, shape `(m, k)`."""
    features, target = rows[:, :-1], rows[:, -1]
    scaled = features * weights[:, np.newaxis]
    inverse = np.linalg.pinv(scaled.T @ features, rcond=_CUT_OFF, hermitian=True)
    slopes = inverse @ (scaled.T @ target)
    influence = (scaled * (target - features @ slopes)[:, np.newaxis]) @ inverse
    return np.asarray(slopes), np.asarray(influence)
