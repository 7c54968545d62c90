"""What a penalised fit costs the cohort, read on the released matrix itself, by Stein's estimate of its optimism.

A fit W = theta theta^T adapts to the noise N of M = S + N, so <W, M> is not <W, S>. For Gaussian N the difference has
the mean E <N, W> = E <N', DW[N']>, N' drawn anew (Stein 1981), and that derivative is taken by solving again for
M +- .3 N'. It asks nothing of the fit but that it is a function of M: eigenvalues may have been raised.
"""

import numpy as np

from lintra_analysis.estimators.design import Design
from lintra_analysis.estimators.spectral import floor_eigenvalues, smallest_eigenvalue
from lintra_protocol.canonical import domain_hash
from lintra_protocol.randomness import expand
from lintra_protocol.ring import FloatArray

PAIRS = 20
STEP = 0.3


def stein_costs(design: Design, penalties: FloatArray) -> FloatArray | None:
    """Return estimates of the cohort's sum of squared residuals at the fit of each penalty, shape `(k,)`.

    The perturbations are drawn from the release itself, so that the same release has the same answer.

    Args:
        design: the columns.
        penalties: lambda, shape `(k,)`.

    Returns:
        None if the noise has no known Gaussian law.
    """
    gram = design.gram
    size = gram.matrix.shape[0]
    random_bytes = expand(domain_hash("regression path", np.ascontiguousarray(gram.matrix).tobytes()), "perturbations")
    noise = gram.errors.draws(PAIRS, size, random_bytes)
    if noise is None:
        return None
    unit = design.penalty(1.0)
    floor = gram.errors.floor(size)
    theta = _fits(gram.matrix, penalties, unit, floor)
    seen = np.sum(theta @ gram.matrix * theta, axis=1)
    optimism = np.zeros(penalties.size)
    for one in noise:
        above, below = (_fits(gram.matrix + sign * STEP * one, penalties, unit, floor) for sign in (1, -1))
        moved = np.sum(above @ one * above, axis=1) - np.sum(below @ one * below, axis=1)
        optimism += moved / (2 * STEP * PAIRS)
    return np.asarray(seen - optimism)


def _fits(matrix: FloatArray, penalties: FloatArray, unit: FloatArray, floor: float) -> FloatArray:
    """Return theta = (-b, 1) for every penalty, as `solve` finds b, shape `(k, q)`."""
    joint = matrix if smallest_eigenvalue(matrix) >= floor else floor_eigenvalues(matrix, floor)
    left = joint[:-1, :-1] + penalties[:, np.newaxis, np.newaxis] * np.diag(unit)
    right = np.tile(joint[:-1, -1], (penalties.size, 1))
    solution = np.linalg.solve(left, right[:, :, np.newaxis])[:, :, 0]
    return np.column_stack([-solution, np.ones(penalties.size)])
