"""A release with pure epsilon, audited exactly: the law of its noise by convolution, and its losses one by one.

The service states an epsilon from the ratio of two neighbouring probabilities of a Laplace law. Here the law of one
client's share is written down term by term, convolved with itself for all honest clients by a Fourier transform, and
shifted by the largest distance of neighbours.
"""

from collections.abc import Iterable
from math import ceil, exp, log, log1p, sqrt
from typing import cast

import numpy as np
from scipy import fft

from lintra_audit.exact.gaussian_release import sketch_of
from lintra_audit.exact.task_audit import TaskAudit
from lintra_audit.gaussian.verdict import GaussianAudit, GaussianVerdict
from lintra_curator.ndis.certified_value import CertifiedValue
from lintra_curator.ndis.gaussian_pair import GaussianPair
from lintra_curator.ndis.linear import ltm_certificate
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.mechanisms.laplace_law import LaplaceNoise
from lintra_protocol.privacy.bisection import bisect
from lintra_protocol.privacy.gaussian import gaussian_delta
from lintra_protocol.task import Task
from lintra_protocol.transforms.base import PublicMatrix

SEEN = 1e-9
"""Probabilities below this part of the largest are lost in the rounding of the transform, and no loss is read there."""

TOLERANCE = 1e-5
"""By how much a loss may exceed epsilon, relatively, for the rounding of the transform."""

_EPSILONS = np.linspace(0.1, 1.0, 10)
"""Where the stated mu is compared with the law, in multiples of the task's epsilon."""


def summed_law(scale: int, shares: int, clients: int, beyond: int = 0) -> FloatArray:
    """Return the probabilities of the noise of so many clients at 0, 1, .., N/2 - 1, -N/2, .., -1, shape `(N,)`.

    N leaves room for 32 scales and a shift `beyond`, behind which too little is left to be seen.
    """
    half = 32 * scale * max(1, ceil(clients / shares)) + beyond
    size = 2 * fft.next_fast_len(half, real=True)
    steps = np.arange(size // 2)
    shape = 1 / shares
    ratios = np.log(scale / (scale + 1)) + np.log((steps[:-1] + shape) / (steps[:-1] + 1))
    one = np.zeros(size)
    one[: size // 2] = np.exp(np.concatenate([[0.0], np.cumsum(ratios)]) - shape * log(scale + 1))
    transformed = fft.rfft(one)
    power = transformed.real**2 + transformed.imag**2
    found: FloatArray = fft.irfft(np.exp(clients * np.log(power)), size)
    return np.maximum(found, 0.0)


def largest_loss(law: FloatArray, shift: int) -> float:
    """Return the largest log-ratio of a law, shape `(N,)`, and of the same law shifted, where both can be seen."""
    moved = np.roll(law, shift)
    seen = (law > SEEN * law.max()) & (moved > SEEN * law.max())
    return float(np.log(law[seen] / moved[seen]).max())


def deltas_of(law: FloatArray, shift: int, epsilons: Iterable[float]) -> list[float]:
    """Return delta at each epsilon of a law, shape `(N,)`, and of the same law shifted, where the first can be seen."""
    seen = law > SEEN * law.max()
    first, second = law[seen], np.roll(law, shift)[seen]
    return [float(np.maximum(first - exp(epsilon) * second, 0.0).sum()) for epsilon in epsilons]


def audit_laplace_release(task: Task, matrix: PublicMatrix) -> TaskAudit:
    """Audit what a sum tells whose noise is that of all honest clients together.

    `mu` is the smallest that lies above the law's deltas at all epsilons tried. A loss above epsilon counts as a delta
    of 1, since pure epsilon allows none. The privacy of a client's absence, with its noise, is not known.
    """
    mechanism, claim = cast("LaplaceNoise", task.mechanism), task.claim
    measurement = task.measurement
    stated = measurement.release_privacy(matrix)
    corrupt = min(measurement.quota, claim.max_corrupt_clients)
    honest = matrix.num_clients - corrupt
    words = mechanism.moved_words(claim.neighbours, task.num_columns, task.setting)
    shift = int(sqrt(words * measurement.squared_distance))
    law, epsilon = summed_law(mechanism.sigma, mechanism.shares, honest, shift), claim.float_epsilon
    epsilons = (_EPSILONS * epsilon).tolist()
    mu = max(map(_mu_above, epsilons, deltas_of(law, shift, epsilons)))
    broken = max(largest_loss(law, shift), shift * log1p(1 / mechanism.sigma)) > epsilon * (1 + TOLERANCE)
    found = CertifiedValue.of(1.0 if broken else 0.0, 0.0)
    promised = (epsilon, claim.float_delta)
    finding = GaussianVerdict(promised, "two rows that differ in one word", "forward", found)
    certificate = ltm_certificate(
        sketch_of(matrix), sigma=float(mechanism.sigma), distance=float(shift), epsilon=epsilon, corrupt=corrupt
    )
    audit = GaussianAudit((finding,), GaussianPair([0.0], [1.0], [mu**2]), TOLERANCE)
    return TaskAudit(stated, certificate, mu, corrupt, audit, None)


def _mu_above(epsilon: float, delta: float) -> float:
    """Return the smallest mu whose delta at epsilon is at least a given one, up to the transform's rounding."""
    needed = delta * (1 - TOLERANCE)
    if needed <= SEEN:
        return 0.0
    return bisect(0.0, 64.0, lambda mu: mu == 0 or gaussian_delta(epsilon, mu) <= needed, width=1e-12)[0]
