"""How one promise is shared by two rounds, before any row exists; and that two tasks have kept it."""

from decimal import ROUND_FLOOR, Decimal
from math import sqrt

from lintra_protocol.encoding.documents import Real, fraction, real
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms.ron_gauss import RonGauss
from lintra_protocol.privacy.composition import Spending
from lintra_protocol.privacy.discrete import discrete_epsilon, discrete_mu
from lintra_protocol.privacy.statement import MAX_SLACK, Claim
from lintra_protocol.task import Task

MEANS_ONLY: Real = "1.4142135623"
"""The largest `mean_weight`: sums are as exact as the promise allows, and counts and products are free."""

KAPPA = 1.5
"""Weight of the means' error against that of the covariance in a fitted Gaussian's quadratic divergence."""

HALF: Real = "0.5"
"""The part of mu^2 that each round of a range finder has."""

_EPSILON_STEP = Decimal("1e-9")


def first_share(mechanism: RonGauss, ratio: float = 1.0) -> float:
    """Return which part of mu^2 the first round should have (docs/reference/mechanisms/ron_gauss_centred.md#shares).

    1 / (1 + x sqrt(1.5 p (p + 1) / 8) / K), with K = 1 if each class has a covariance of its own. `ratio` is x, the
    bound that the second round is expected to need over that of the first.
    """
    size = mechanism.num_coordinates
    classes = mechanism.num_classes if mechanism.covariance == "pooled" else 1
    return 1 / (1 + ratio * sqrt(KAPPA * size * (size + 1) / 8) / classes)


def first_round(total: Claim, mechanism: RonGauss) -> tuple[Claim, RonGauss]:
    """Return claim and mechanism of the first of two rounds, not yet calibrated.

    `total` is what both rounds promise together; `mechanism` is as one round would have it. Raises InvalidTaskError if
    the total leaves nothing for one of the rounds, or a coalition has a share of it.
    """
    if fraction(total.delta_coalition):
        raise InvalidTaskError("delta_coalition: in two rounds all of delta belongs to the noise; leave it at 0")
    mu = mu_of_rounds(total) * sqrt(first_share(mechanism))
    return claim_with_mu(total, mu), mechanism.model_copy(update={"mean_weight": MEANS_ONLY})


def mu_of_rounds(total: Claim) -> float:
    """Return mu that both rounds may have together: the square is the sum of their squares."""
    return discrete_mu(total.float_epsilon, total.noise_delta, 2 * MAX_SLACK)


def claim_with_mu(total: Claim, mu: float) -> Claim:
    """Return the claim with the largest epsilon of nine digits that `mu` keeps at the same delta.

    Raises InvalidTaskError if there is none.
    """
    epsilon = Decimal(discrete_epsilon(mu, total.noise_delta, MAX_SLACK)).quantize(_EPSILON_STEP, ROUND_FLOOR)
    if epsilon <= 0:
        raise InvalidTaskError("so small a promise cannot be shared by two rounds")
    return total.model_copy(update={"epsilon": real(epsilon)})


def claim_of_half(total: Claim) -> Claim:
    """Return what each of two rounds promises that keep a promise together: half of mu^2."""
    return claim_with_mu(total, mu_of_rounds(total) * sqrt(0.5))


def require_together(total: Claim, first: Task, second: Task) -> None:
    """Refuse, with InvalidTaskError, two tasks that do not keep one promise together."""
    spent = [Spending.of(task.privacy(task.claim.min_clients)) for task in (first, second)]
    found = (spent[0] + spent[1]).delta_at(total.float_epsilon)
    if not found <= total.float_delta:
        raise InvalidTaskError(f"together both rounds have delta {found:.6g}, promised are {total.delta}")
