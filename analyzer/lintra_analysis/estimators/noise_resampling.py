"""Estimates the cost of fits under several penalties by drawing the noise of a release again.

The released matrix M is moved to the nearest second moment, that is, its eigenvalues below 0 are set to 0; then noise
of the known law is added again and again, every penalty is fitted as a regression is (point.py), and its cost is that
on the moved matrix (a parametric bootstrap; Efron 1982). An unbiased estimate of the cost exists (Stein 1981), but
where noise is large it varies more from penalty to penalty than the costs themselves do, and chose worse on nearly
every table (docs/explanation/benchmarks.md).
"""

import numpy as np

from lintra_analysis.estimators.design import Design
from lintra_analysis.estimators.point import drawn_to_zero, released_means, with_intercept
from lintra_analysis.estimators.spectral import floor_eigenvalues
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.canonical import domain_hash

PAIRS = 20


def redrawn_costs(design: Design, penalties: FloatArray) -> FloatArray | None:
    """Return the mean sum of squared residuals of the fit under each penalty, shape `(k,)`, over 20 pairs +-N of draws.

    The draws come from the release itself, so that the same release has the same answer. `penalties` holds lambda,
    shape `(k,)`.

    Returns:
        None if the noise has no known Gaussian law.
    """
    gram = design.gram
    size = gram.matrix.shape[0]
    random_bytes = expand(domain_hash("regression path", np.ascontiguousarray(gram.matrix).tobytes()), "perturbations")
    noise = gram.errors.draws(PAIRS, size, random_bytes)
    sigma = gram.errors.spectral_sigma
    if noise is None or sigma is None:
        return None
    truth = floor_eigenvalues(gram.matrix, 0.0)
    constant = design.constant is not None
    costs = np.zeros(penalties.size)
    for one in noise:
        for sign in (1, -1):
            theta = _fits(truth + sign * one, penalties, sigma, constant)
            costs += np.sum(theta @ truth * theta, axis=1) / (2 * PAIRS)
    return costs


def _fits(matrix: FloatArray, penalties: FloatArray, sigma: float, constant: bool) -> FloatArray:
    """Return theta = (-b, 1) under penalties of shape `(k,)`; theta has shape `(k, p + 1)`."""
    means = released_means(matrix, sigma) if constant else None
    solution = with_intercept(drawn_to_zero(matrix, sigma, means, penalties)[0], means)
    return np.column_stack([-solution, np.ones(len(penalties))])
