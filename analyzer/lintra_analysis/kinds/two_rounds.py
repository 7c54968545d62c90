"""How one promise is shared by two rounds, before any row exists; and that two tasks have kept it."""

from collections.abc import Sequence
from decimal import ROUND_FLOOR, Decimal
from math import sqrt

from lintra_protocol.encoding.documents import Real, fraction, real
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms.ron_gauss import RonGauss
from lintra_protocol.privacy.composition import Spending
from lintra_protocol.privacy.discrete import discrete_epsilon, discrete_mu
from lintra_protocol.privacy.statement import MAX_SLACK, Claim, PrivacyStatement
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
    return claim_of_part(total, first_share(mechanism)), mechanism.model_copy(update={"mean_weight": MEANS_ONLY})


def mu_of_rounds(total: Claim) -> float:
    """Return mu that both rounds may have together: the square is the sum of their squares."""
    return discrete_mu(total.float_epsilon, total.noise_delta, 2 * MAX_SLACK)


def claim_of_part(total: Claim, part: float, *, spare: float = 1.0) -> Claim:
    """Return what a task promises that has this part of mu^2 of a total, if all others are invented, too.

    Of mu it leaves what is beyond `spare`. Raises InvalidTaskError if nothing is left.
    """
    mu = mu_of_rounds(total) * sqrt(part) * spare
    mu_alone = mu_of_rounds(total.alone) * sqrt(part) * spare
    return claim_with_mu(total, mu, mu_alone)


def claim_with_mu(total: Claim, mu: float, mu_alone: float) -> Claim:
    """Return the claim with the largest epsilon of nine digits that `mu` keeps at the same delta.

    Where the total says so, `mu_alone` is what may be seen of a client of whom all others are invented. Raises
    InvalidTaskError if there is none.
    """
    epsilon = _epsilon_of(total, mu)
    if total.epsilon_alone is None:
        return total.model_copy(update={"epsilon": real(epsilon)})
    alone = max(_epsilon_of(total.alone, mu_alone), epsilon)
    return total.model_copy(update={"epsilon": real(epsilon), "epsilon_alone": real(alone)})


def _epsilon_of(total: Claim, mu: float) -> Decimal:
    epsilon = Decimal(discrete_epsilon(mu, total.noise_delta, MAX_SLACK)).quantize(_EPSILON_STEP, ROUND_FLOOR)
    if epsilon <= 0:
        raise InvalidTaskError("so small a promise cannot be shared by two rounds")
    return epsilon


def require_together(total: Claim, first: Task, second: Task) -> None:
    """Refuse, with InvalidTaskError, two tasks that do not keep one promise together."""
    found = _both_rounds([task.privacy(task.claim.min_clients) for task in (first, second)], total)
    if not found <= total.float_delta:
        raise InvalidTaskError(f"together both rounds have delta {found:.6g}, promised are {total.delta}")
    if total.epsilon_alone is None:
        return
    alone = [statement for task in (first, second) if (statement := task.alone_privacy()) is not None]
    if len(alone) < 2:
        raise InvalidTaskError(
            f"epsilon_alone {total.epsilon_alone}: a round has no bound if all other clients are invented; leave it out"
        )
    if not (found := _both_rounds(alone, total.alone)) <= total.float_delta:
        raise InvalidTaskError(
            f"with all other clients invented both rounds have delta {found:.6g} together, promised are {total.delta}"
        )


def _both_rounds(statements: Sequence[PrivacyStatement], total: Claim) -> float:
    """Return delta of two rounds together at the total's epsilon."""
    return sum(map(Spending.of, statements), Spending.zero()).delta_at(total.float_epsilon)
