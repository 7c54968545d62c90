"""What shares of verified reports show beyond sums, and what it takes off delta (docs/explanation/verified.md#privacy).

A word of a share is uniform on 2^g numbers, and with the row's word added it is so but for the two ends of its range:
shares of integers hide a row almost, and not exactly as shares in the ring do. Nothing here is assumed to be small.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import exp, isqrt

from lintra_protocol.encoding.documents import fraction, real_below
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.privacy.statement import Claim, PrivacyStatement

LARGEST_PART = Fraction(1, 1000)
"""Of delta: a task whose shares show more is refused."""

GIVEN_AWAY = 1
"""How many clients more than the claim's are taken for corrupt: one whose share is at an end of its range."""

_REDRAWN = Fraction(1, 2**80)
_A_SHADE_UP = 1 + Fraction(1, 10**12)
_PRICED_UP_TO = Fraction(100)
"""With this epsilon a price is above 1 already, since `shifted` is at least 2^-80; e^epsilon need not fit a float."""


@dataclass(frozen=True)
class SharesSeen:
    """The parts of delta that shares cost: `twice + (1 + e^epsilon) shifted`.

    Attributes:
        shifted: eta + n 2^-80, how far the shares of one row, and noise that is drawn again, are from saying nothing.
        several: n eta', an upper bound of the expected number of clients whose noise their shares bound.
        given_away: how many clients more than the claim's are taken for corrupt; 0 where servers add the noise, so that
            no share bounds any.
    """

    shifted: Fraction
    several: Fraction
    given_away: int = GIVEN_AWAY

    @classmethod
    def of(
        cls, padded: int, squared_bound: int, word_bits: int, num_clients: int, *, clients_noise: bool = True
    ) -> "SharesSeen":
        """Compute eta = sqrt(W) R / 2^g and eta' = 2 W R / 2^g, both rounded up.

        `padded` is W; `squared_bound` is R^2. `word_bits` is g; `num_clients` is n, the largest cohort. `clients_noise`
        says whether reports carry noise; without, eta alone is left.
        """
        size = 1 << word_bits
        eta = Fraction(isqrt(padded * squared_bound) + 1, size)
        if not clients_noise:
            return cls(eta, Fraction(0), 0)
        several = Fraction(2 * padded * (isqrt(squared_bound) + 1) * num_clients, size)
        return cls(eta + num_clients * _REDRAWN, several)

    @property
    def of_nobody_else(self) -> "SharesSeen":
        """Return what is left where no other client's noise counts: none is given away."""
        return replace(self, several=Fraction(0), given_away=0)

    def of_reports(self, reports: int) -> "SharesSeen":
        """Return what the shares of so many reports of a source show together."""
        return replace(self, shifted=reports * self.shifted, several=reports * self.several)

    @property
    def twice(self) -> Fraction:
        """Return (n eta')^2, a bound of the chance that two clients or more have such shares."""
        return self.several**2

    def price(self, epsilon: Fraction) -> Fraction:
        """Return what is taken off delta at an epsilon, rounded up; above an epsilon of 100, something above 1."""
        return self.twice + (1 + Fraction(exp(min(epsilon, _PRICED_UP_TO))) * _A_SHADE_UP) * self.shifted

    def beside(self, of_noise: PrivacyStatement, delta: float) -> PrivacyStatement:
        """Return the privacy, at a delta, of a release beside which these shares are seen."""
        statement = replace(
            of_noise,
            delta=delta,
            delta_coalition=min(1.0, of_noise.delta_coalition + float(self.twice) * (1 + 1e-15)),
            delta_shares=float(self.shifted) * (1 + 1e-15),
        )
        return replace(statement, epsilon=statement.epsilon_at(delta))

    def left_of(self, claim: Claim) -> Claim:
        """Return what the noise has to keep of a claim: less delta, of clients' noise against one corrupt client more.

        Raises:
            InvalidTaskError: shares would cost more than a thousandth of delta, or too few clients are left.
        """
        return _against_more(claim, fraction(claim.delta) - self.require_room(claim), self.given_away)

    def require_room(self, claim: Claim) -> Fraction:
        """Return the price at the claim's epsilon, which is at most a thousandth of its delta.

        Raises:
            InvalidTaskError: it is more.
        """
        price, delta = self.price(fraction(claim.epsilon)), fraction(claim.delta)
        if price > LARGEST_PART * delta:
            raise InvalidTaskError(
                f"verification: shares of verified reports cost delta {float(price):.3g}, more than a thousandth of "
                f"{claim.delta}; a larger delta, fewer clients or a coarser grid would do, or verification 'none'"
            )
        return price


def claim_for_noise(claim: Claim, *, clients_noise: bool = True) -> Claim:
    """Return the claim that noise is calibrated to where reports are verified: the most that shares may cost is left.

    Raises:
        InvalidTaskError: too few clients are left.
    """
    return _against_more(claim, (1 - LARGEST_PART) * fraction(claim.delta), GIVEN_AWAY if clients_noise else 0)


def _against_more(claim: Claim, delta: Fraction, given_away: int) -> Claim:
    corrupt = claim.max_corrupt_clients + given_away
    if corrupt >= claim.min_clients or delta <= fraction(claim.delta_coalition):
        raise InvalidTaskError(
            f"verification: {claim.min_clients} clients of which {claim.max_corrupt_clients} are corrupt leave nobody "
            "to give away; one client's noise is not counted where reports are verified"
        )
    return claim.model_copy(update={"delta": real_below(delta), "max_corrupt_clients": corrupt})
