"""A release with Wishart noise, audited exactly: its curve by another quadrature than the service's.

The service states a mu and a failure that lie above the whole curve, from tables of its own. Here the same curve is
computed for the three worst pairs from incomplete gamma functions (`lintra_curator.second_moment.curves`), and held
against the claim, and against the statement at many epsilons.
"""

from collections.abc import Callable
from dataclasses import replace
from math import exp, expm1, hypot, sqrt
from typing import cast

import numpy as np

from lintra_audit.exact.gaussian_release import sketch_of
from lintra_audit.exact.task_audit import TaskAudit
from lintra_audit.gaussian.verdict import GaussianAudit, GaussianVerdict
from lintra_curator.ndis.certified_value import CertifiedValue
from lintra_curator.ndis.gaussian_pair import GaussianPair
from lintra_curator.ndis.linear import ltm_certificate
from lintra_curator.second_moment.curves import wishart_delta
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.mechanisms.layout import CLIPPED
from lintra_protocol.mechanisms.second_moment_wishart import WishartSecondMoment
from lintra_protocol.privacy.bisection import bisect
from lintra_protocol.privacy.gaussian import gaussian_delta
from lintra_protocol.task import Task
from lintra_protocol.transforms.base import PublicMatrix

RTOL = 1e-9
"""Relative error that a delta of the curve may have; docs/reference/mechanisms/central_second_moment.md."""

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
"""For expectations over the clip counter's noise."""

_EPSILONS = np.linspace(0, 1.25, 11)
"""Where the statement is compared with the curve, in multiples of the task's epsilon."""


def audit_wishart_release(task: Task, matrix: PublicMatrix) -> TaskAudit:
    """Audit what a sum of products and random examples tells.

    `mu` is the smallest that, with the failure that the statement allows, lies above the curve at all epsilons tried.
    The privacy of a client's absence, together with its example, is not known. `matrix` is that of a cohort: one row of
    ones.
    """
    mechanism, claim = cast("WishartSecondMoment", task.mechanism), task.claim
    measurement = replace(task.measurement, claim=claim)
    stated = measurement.release_privacy(matrix)
    corrupt = min(measurement.quota, claim.max_corrupt_clients)
    freedom = matrix.num_clients - corrupt - task.num_columns + 1
    weight = mechanism.squared_bound / mechanism.variance
    epsilon, delta = claim.float_epsilon, claim.float_delta

    def curve(at: float) -> float:
        return wishart_delta(at, freedom, weight, claim.neighbours)

    # The failure that joins the coalition's share in the statement.
    failure = stated.delta_coalition - float(fraction(claim.delta_coalition))
    # Beside the products a clip counter is a Gaussian release of its own.
    steps = measurement.layout[CLIPPED].bound if CLIPPED in measurement.layout else 0
    counter = steps / (sqrt(matrix.num_clients - corrupt) * mechanism.sigma)
    mu = hypot(max(_mu_above(at, curve(at), failure) for at in _EPSILONS * epsilon), counter)
    found = beside_gaussian(curve, counter, epsilon) if counter else curve(epsilon)
    promised = (epsilon, delta - float(fraction(claim.delta_coalition)))
    finding = GaussianVerdict(
        promised, "the worst of three pairs of rows", "forward", CertifiedValue.of(found, RTOL * found)
    )
    sketch = sketch_of(matrix)
    certificate = ltm_certificate(
        sketch,
        sigma=float(mechanism.sigma),
        distance=sqrt(mechanism.squared_distance(claim.neighbours, task.num_columns, task.setting)),
        epsilon=epsilon,
        corrupt=corrupt,
    )
    audit = GaussianAudit((finding,), GaussianPair([0.0], [1.0], [mu**2]), RTOL)
    return TaskAudit(stated, certificate, mu, corrupt, audit, None)


def beside_gaussian(curve: Callable[[float], float], mu: float, epsilon: float) -> float:
    """Return delta of a release with a curve and, with noise of its own, a Gaussian one: an integral over the latter.

    delta = E curve(epsilon - L), L = mu Z + mu^2/2 the loss of the Gaussian pair under its first law. For negative
    arguments delta(-e) = 1 - exp(-e) + exp(-e) delta'(e), delta' of the other order of the pair; `curve` is the larger
    delta of both orders of the pair, for epsilon of at least 0, so this is an upper bound. `mu` is that of the Gaussian
    release; `epsilon` is at least 0.
    """
    losses = mu * _NODES + mu**2 / 2  # under the first law
    values = [_whole_curve(curve, epsilon - loss) for loss in losses.tolist()]
    return float(_WEIGHTS @ np.array(values) / _WEIGHTS.sum())


def _whole_curve(curve: Callable[[float], float], epsilon: float) -> float:
    """Return the curve also for negative epsilon."""
    return curve(epsilon) if epsilon >= 0 else -expm1(epsilon) + exp(epsilon) * curve(-epsilon)


def _mu_above(epsilon: float, delta: float, failure: float) -> float:
    """Return the smallest mu with failure + (1 - failure) delta_G(epsilon, mu) at least delta."""
    needed = (delta * (1 - RTOL) - failure) / (1 - failure)
    if needed <= 0:
        return 0.0
    return bisect(0.0, 64.0, lambda mu: mu == 0 or gaussian_delta(epsilon, mu) <= needed, width=1e-13)[0]
