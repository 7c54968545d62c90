"""A release with Wishart noise, audited exactly: its curve by another quadrature than the service's.

The service states a mu and a failure that lie above the whole curve, from tables of its own. Here the same curve is
computed for the three worst pairs from incomplete gamma functions (`lintra_curator.second_moment.curves`), and held
against the claim, and against the statement at many epsilons.
"""

from math import sqrt
from typing import cast

import numpy as np

from lintra_audit.exact.gaussian_release import sketch_of
from lintra_audit.exact.task_audit import TaskAudit
from lintra_audit.gaussian.verdict import Finding, GaussianAudit
from lintra_curator.ndis.certified import Certified
from lintra_curator.ndis.linear import ltm_certificate
from lintra_curator.ndis.pair import Pair
from lintra_curator.second_moment.curves import wishart_delta
from lintra_protocol.documents import fraction
from lintra_protocol.mechanisms.second_moment_wishart import WishartSecondMoment
from lintra_protocol.privacy.boundary import bisect
from lintra_protocol.privacy.gaussian import gaussian_delta
from lintra_protocol.task import Task
from lintra_protocol.transforms.base import PublicMatrix

RTOL = 1e-9
"""Relative error that a delta of the curve may have; docs/mechanisms/central_second_moment.md."""

_EPSILONS = np.linspace(0, 1.25, 11)
"""Where the statement is compared with the curve, in multiples of the task's epsilon."""


def audit_wishart_release(task: Task, matrix: PublicMatrix) -> TaskAudit:
    """Audit what a sum of products and random examples tells.

    `mu` is the smallest that, with the failure that the statement allows, lies above the curve at all epsilons tried.
    What it would tell that a client stays away with its example is not known.

    Args:
        task: the task.
        matrix: of a cohort: one row of ones.

    Raises:
        LintraError: the service itself refuses this cohort.
    """
    mechanism, claim = cast("WishartSecondMoment", task.mechanism), task.claim
    stated = mechanism.release_privacy(claim, task.num_columns, matrix)
    corrupt = min(mechanism.quota(claim), claim.max_corrupt_clients)
    freedom = matrix.num_clients - corrupt - task.num_columns + 1
    weight = mechanism.squared_bound / mechanism.variance
    epsilon, delta = claim.float_epsilon, claim.float_delta

    def curve(at: float) -> float:
        return wishart_delta(at, freedom, weight, claim.neighbours)

    # The failure that joins the coalition's share in the statement.
    failure = stated.delta_coalition - float(fraction(claim.delta_coalition))
    mu = max(_mu_above(at, curve(at), failure) for at in _EPSILONS * epsilon)
    found = curve(epsilon)
    promised = (epsilon, delta - float(fraction(claim.delta_coalition)))
    finding = Finding(promised, "the worst of three pairs of rows", "forward", Certified.of(found, RTOL * found))
    sketch = sketch_of(matrix)
    certificate = ltm_certificate(
        sketch,
        sigma=float(mechanism.sigma),
        distance=sqrt(mechanism.squared_distance(claim, task.num_columns)),
        epsilon=epsilon,
        corrupt=corrupt,
    )
    audit = GaussianAudit((finding,), Pair([0.0], [1.0], [mu**2]), RTOL)
    return TaskAudit(stated, certificate, mu, corrupt, audit, None)


def _mu_above(epsilon: float, delta: float, failure: float) -> float:
    """Return the smallest mu with failure + (1 - failure) delta_G(epsilon, mu) at least delta."""
    needed = (delta * (1 - RTOL) - failure) / (1 - failure)
    if needed <= 0:
        return 0.0
    return bisect(0.0, 64.0, lambda mu: mu == 0 or gaussian_delta(epsilon, mu) <= needed, width=1e-13)[0]
