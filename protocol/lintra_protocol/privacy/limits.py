"""How a server, a client or a planner judges a promise: by the epsilon at its own delta, never at the author's.

An author may write any epsilon beside a delta near 1, and the promise still holds. Noise has a curve, so that epsilon
can be read off it at another delta. What is no noise (`delta_coalition`) has none: it must fit into the judge's delta.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import inf

from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import FalseClaimError, PolicyRefusedError
from lintra_protocol.privacy.statement import ALONE, Claim, PrivacyStatement

MAX_DELTA = Fraction(1, 10_000)
"""A promise with a larger delta is refused by default: with many clients, it may well fail for one of them."""

# Epsilons are rounded up, by less than this; a promise of epsilon 1 must fit below a ceiling of 1.
_ROUNDING = 1 + 1e-9


def usual_delta(min_clients: int) -> Fraction:
    """Return the delta that is promised and judged at by default: a millionth, or less than one client in the cohort.

    With delta above 1/n a release could show a whole row and still keep its promise.
    """
    return min(Fraction(1, 10**6), Fraction(1, min_clients))


@dataclass(frozen=True)
class Ceiling:
    """What a judge accepts.

    Attributes:
        max_epsilon: largest epsilon at the judge's delta; None for any.
        max_delta: largest delta that may be promised.
        delta: the judge's; None for `usual_delta`.
        max_epsilon_alone: largest epsilon at the judge's delta if all other clients are invented; None for `ALONE`
            times `max_epsilon`.
    """

    max_epsilon: Fraction | None = None
    max_delta: Fraction = MAX_DELTA
    delta: Fraction | None = None
    max_epsilon_alone: Fraction | None = None

    def delta_for(self, claim: Claim) -> Fraction:
        """Return the delta at which a promise is judged."""
        return usual_delta(claim.min_clients) if self.delta is None else self.delta

    def epsilon_of(self, claim: Claim, worst: PrivacyStatement) -> float:
        """Return epsilon at the judge's delta: that of the worst release that a promise allows, infinite if none is.

        `claim` is the promise, which says how large the cohort is. `worst` is that of `Task.worst_privacy`, or for all
        that one source may send that of `Task.worst_together`.
        """
        return worst.epsilon_at(float(self.delta_for(claim)))

    def require(self, claim: Claim, worst: PrivacyStatement) -> None:
        """Check a promise.

        Args:
            claim: the promise, of one release.
            worst: of everything that one source may send, see `Task.worst_together`: that is what it costs its source.

        Raises:
            PolicyRefusedError: delta is too large, what is no noise does not fit, epsilon exceeds the ceiling, or the
                worst release is not proved for the promise's neighbours; the detail has the numbers.
        """
        try:
            worst.require_proof(claim)
        except FalseClaimError as error:
            raise PolicyRefusedError(error.detail) from None
        if fraction(claim.delta) > self.max_delta:
            raise PolicyRefusedError(f"delta {claim.delta} is more than {float(self.max_delta):g}")
        delta = self.delta_for(claim)
        if not worst.delta_coalition < delta:
            raise PolicyRefusedError(
                f"delta_coalition {worst.delta_coalition:g} does not fit into delta {float(delta):g}, at which "
                "epsilon is judged here"
            )
        epsilon = self.epsilon_of(claim, worst)
        if worst.delta_shares and epsilon == inf > worst.mu:
            raise PolicyRefusedError(
                f"what shares of verified reports show, {worst.delta_shares:.3g}, does not fit into delta "
                f"{float(delta):g} at any epsilon; at this delta epsilon is judged here"
            )
        if self.max_epsilon is not None and not epsilon <= float(self.max_epsilon) * _ROUNDING:
            raise PolicyRefusedError(
                f"epsilon is {epsilon:.6g} at delta {float(delta):g}, more than {float(self.max_epsilon):g}; promised "
                f"are epsilon {claim.epsilon} at delta {claim.delta}"
            )

    def require_alone(self, claim: Claim, alone: PrivacyStatement) -> None:
        """Check what is left if all other clients are invented.

        `alone` is that of everything that one source may send, see `Task.judged_alone`. Raises PolicyRefusedError if
        epsilon exceeds the ceiling; the detail has both numbers.
        """
        most = self.max_epsilon_alone
        if most is None and self.max_epsilon is not None:
            most = ALONE * self.max_epsilon
        epsilon = self.epsilon_of(claim, alone)
        if most is not None and not epsilon <= float(most) * _ROUNDING:
            raise PolicyRefusedError(
                f"if everybody else is invented epsilon is {epsilon:.6g} at delta {float(self.delta_for(claim)):g}, "
                f"more than max_epsilon_alone {float(most):g}"
            )
