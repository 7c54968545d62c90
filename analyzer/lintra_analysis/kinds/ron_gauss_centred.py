"""`ron_gauss` in two rounds: how one promise is shared by two tasks, and what the second asks about the first's means.

The first round is an ordinary `ron_gauss` task at the largest weight of the means, at which its products cost nothing;
the second is `ron_gauss_centred`. Both promises follow from the total before any row exists, and add up to it.
"""

from fractions import Fraction
from math import sqrt

import numpy as np

from lintra_analysis.kinds.kind import Asking, no_warnings
from lintra_analysis.kinds.two_rounds import claim_with_mu, mu_of_rounds
from lintra_analysis.releases.joint_sums import ProjectedSums
from lintra_analysis.releases.release import Release
from lintra_analysis.synthetic.model import RELIABLE, GaussianModel, fit
from lintra_protocol.encoding.documents import real
from lintra_protocol.errors import InvalidAnalysisError, InvalidTaskError
from lintra_protocol.mechanisms.encoder import MIN_SIGMA
from lintra_protocol.mechanisms.joint_rows import FEATURE_BITS
from lintra_protocol.mechanisms.ron_gauss import RonGauss
from lintra_protocol.mechanisms.ron_gauss_centred import MAX_CENTRE, RonGaussCentred
from lintra_protocol.privacy.composition import Spent
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import Task

FIRST_KIND = "ron_gauss"
ROOM = 2.0
"""Squared bound of the second round over the rows' mean squared distance to their class's mean."""


def second_round(
    total: Claim, first: Task, release: ProjectedSums, model: GaussianModel, bound: Fraction | None
) -> tuple[Claim, RonGaussCentred]:
    """Return claim and mechanism of the second of two rounds, not yet calibrated.

    `total` is what both rounds promise together. `bound` is that of rows about their centres in feature units; None to
    take it from the release.

    Raises:
        InvalidTaskError: the first task is no `ron_gauss`, or noise drowned what the second needs of it.
    """
    mechanism = first.mechanism
    if mechanism.kind != FIRST_KIND:
        raise InvalidTaskError(f"the first of two rounds is a {FIRST_KIND} task, not {mechanism.kind}")
    if total.model_copy(update={"epsilon": first.claim.epsilon}) != first.claim:
        raise InvalidTaskError("the first round promised to other neighbours, cohorts or coalitions, or another delta")
    left = mu_of_rounds(total) ** 2 - first.privacy(first.claim.min_clients).mu ** 2
    if left <= 0:
        raise InvalidTaskError("the first round has used up the whole promise")
    if bound is not None and bound <= 0:
        raise InvalidTaskError(f"row_bound: must be positive, got {bound}")
    chosen = centred_bound(release, model) if bound is None else float(bound)
    kept = ("dimension", "frame_seed", "frame_digest", "label", "levels", "covariance")
    return claim_with_mu(total, sqrt(left)), RonGaussCentred(
        row_bound=real(f"{chosen:.6g}"),
        fraction_bits=0,
        sigma=MIN_SIGMA,
        after=first.task_id,
        centers=_centers(release, model),
        **{name: getattr(mechanism, name) for name in kept},
    )


def second_of_two(
    total: Claim, first: Task, mechanism: RonGauss, release: Release, bound: Fraction | None
) -> tuple[Claim, RonGaussCentred]:
    """Return claim and mechanism of the second of two rounds (see `second_round`).

    Raises:
        InvalidTaskError: also where the release is that of a second round, or no joint sums.
    """
    del mechanism
    try:
        sums, second = release.need("joint_sums"), release.centred
    except InvalidAnalysisError as error:
        raise InvalidTaskError(error.detail) from None
    if second is not None:
        raise InvalidTaskError("the first round is not a released ron_gauss task; release it first")
    return second_round(total, first, sums, fit(sums), bound)


def require_together(total: Claim, first: Task, second: Task) -> None:
    """Refuse two tasks that do not keep one promise together.

    Raises:
        InvalidTaskError: they do not.
    """
    spent = [Spent.of(task.privacy(task.claim.min_clients)) for task in (first, second)]
    found = (spent[0] + spent[1]).delta_at(total.float_epsilon)
    if not found <= total.float_delta:
        raise InvalidTaskError(f"together both rounds have delta {found:.6g}, promised are {total.delta}")


def centred_bound(release: ProjectedSums, model: GaussianModel) -> float:
    """Return tau of the second round: tau^2 is `ROOM` times the mean squared distance that the first released.

    Two deviations of that number's noise are added. A numeric label of 1 is half of tau, so tau^2 is what the features
    need over 1 - `ROOM` y^2 / 4, y^2 the label's variance. Never more than the bound of the first round.
    """
    covariance, noise, n = model.covariance, release.noise, release.num_clients
    dimension = release.dimension
    of_means = float(np.square(release.noise.sum) * 4 * np.square(model.means).sum()) / n**2
    deviation = sqrt(dimension * noise.diagonal**2 / n**2 + of_means)
    needed = ROOM * (max(float(np.trace(covariance[:dimension, :dimension])), 0.0) + 2 * deviation)
    if release.label_features:
        variance = min(max(float(covariance[-1, -1]) / release.label_scale**2, 0.0), 1.0)
        needed /= 1 - ROOM * variance / 4
    return min(sqrt(needed), release.radius)


def _centers(release: ProjectedSums, model: GaussianModel) -> tuple[tuple[int, ...], ...]:
    """Return the means in steps of 2^-15, a numeric label's as a part of its range."""
    means = model.means.copy()
    if release.label_features:
        means[:, -1] /= release.label_scale
        if abs(means[0, -1]) > 1:
            raise InvalidTaskError("noise moved the label's mean beyond its bounds; more clients are needed")
    elif (release.counts < RELIABLE * release.noise.count).any():
        raise InvalidTaskError(
            "a class of the first round cannot be told from noise, and has no mean to take products about; leave "
            "that level out, or merge it with another"
        )
    steps = np.rint(means * 2**FEATURE_BITS)
    if np.abs(steps).max() > MAX_CENTRE:
        raise InvalidTaskError("a mean of the first round is drowned by its noise; more clients are needed")
    return tuple(tuple(int(entry) for entry in row) for row in steps)


ASKING = Asking(RonGaussCentred, None, no_warnings)
"""A second round is not asked for by itself: it follows a first one (see `second_round`)."""
