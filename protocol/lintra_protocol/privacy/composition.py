"""The accountant's mathematics: what all releases about the same clients give together.

Releases here are Gaussian up to a stated slack, so squared mu and slacks add up and their sums say everything; what
shares of verified reports show beside them adds up by itself (docs/proofs/together.md#composition).
"""

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Self

from pydantic import model_validator

from lintra_protocol.encoding.documents import Frozen, Real, fraction, omitted, real
from lintra_protocol.privacy.discrete_shift import shifted_delta, shifted_epsilon
from lintra_protocol.privacy.statement import PrivacyStatement

# What is spent keeps twenty digits, rounded up; the sums of what is kept are exact.
_TWENTY_DIGITS = Context(prec=20, rounding=ROUND_CEILING)
_EXACT = Context(prec=200)
_LAST_PLACE = Decimal("1e-40")


class Spending(Frozen):
    """The privacy that releases about the same clients have used up together; immutable, and a document.

    Sums are exact in decimal digits, so they do not depend on the order of the releases.

    Attributes:
        mu_squared: sum of the squared Gaussian privacy parameters (Dong, Roth, Su 2022, Corollary 2).
        slack: sum of the K of Theorems D1 and D2 (docs/proofs/integers.md#integers).
        delta_coalition: sum of the probabilities that a static coalition fills a row beyond its quota.
        delta_shares: sum of how far what is seen besides the releases is from saying nothing; all of it counts 1 +
            e^epsilon times, with the epsilon of all releases together. A document without it says 0.
        mu_squared_alone: the second sum: mu^2 of each release if all other clients are invented. A document without it
            says 0.
        unbounded: how many releases are not in the second sum, since nothing bounds them; likewise.
    """

    mu_squared: Real
    slack: Real
    delta_coalition: Real
    delta_shares: Real = omitted("0")
    mu_squared_alone: Real = omitted("0")
    unbounded: Real = omitted("0")

    @model_validator(mode="after")
    def _not_negative(self) -> "Spending":
        if min(self._parts()) < 0:
            raise ValueError("privacy that is spent is never negative")
        return self

    @classmethod
    def zero(cls) -> Self:
        """Return what no release has spent."""
        return cls(mu_squared="0", slack="0", delta_coalition="0")

    @classmethod
    def of(cls, statement: PrivacyStatement) -> Self:
        """Return what one release spends; every number is rounded up to twenty digits.

        Raises:
            ValueError: the release has no privacy worth the name (mu of 1e9 or more).
        """
        return cls.gaussian(statement.mu, statement.slack, statement.delta_coalition, statement.delta_shares)

    @classmethod
    def gaussian(cls, mu: float, slack: float = 0.0, failure: float = 0.0, shift: float = 0.0) -> Self:
        """Return what a mu-Gaussian release spends; every number is rounded up to twenty digits.

        Args:
            mu: its Gaussian privacy parameter.
            slack: K of Theorem D1 or D2, the price of integers.
            failure: probability with which the release promises nothing.
            shift: how far what is seen besides it is from saying nothing.

        Raises:
            ValueError: the release has no privacy worth the name (mu of 1e9 or more).
        """
        exact = Decimal(mu)
        return cls(
            mu_squared=_rounded_up(_EXACT.multiply(exact, exact)),
            slack=_rounded_up(Decimal(slack)),
            delta_coalition=_rounded_up(Decimal(failure)),
            delta_shares=_rounded_up(Decimal(shift)),
        )

    def with_alone(self, alone: PrivacyStatement | None) -> Self:
        """Return the same of a release of which so much is bounded if all others are invented; None for nothing.

        The slack is the larger of both.
        """
        if alone is None:
            return self.model_copy(update={"unbounded": "1"})
        other = self.of(alone)
        slack = max(self.slack, other.slack, key=fraction)
        return self.model_copy(update={"mu_squared_alone": other.mu_squared, "slack": slack})

    def __add__(self, other: "Spending") -> "Spending":
        """Return what both spend together, also if the second was chosen after seeing the results of the first.

        Raises:
            ValueError: the sum has more than eighteen digits before the point.
        """
        return Spending(
            mu_squared=_sum(self.mu_squared, other.mu_squared),
            slack=_sum(self.slack, other.slack),
            delta_coalition=_sum(self.delta_coalition, other.delta_coalition),
            delta_shares=_sum(self.delta_shares, other.delta_shares),
            mu_squared_alone=_sum(self.mu_squared_alone, other.mu_squared_alone),
            unbounded=_sum(self.unbounded, other.unbounded),
        )

    def fits_into(self, other: "Spending") -> bool:
        """Return whether no part of this is more than the same part of another."""
        return all(own <= others for own, others in zip(self._parts(), other._parts(), strict=True))

    @property
    def mu(self) -> float:
        """Return the Gaussian privacy parameter of all releases together, rounded up."""
        return math.sqrt(fraction(self.mu_squared)) * (1 + 1e-15)

    @property
    def rho(self) -> float:
        """Return mu^2 / 2, the parameter of zero-concentrated privacy, for mixing (Bun, Steinke 2016); rounded up."""
        return float(fraction(self.mu_squared) / 2) * (1 + 1e-15)

    def delta_at(self, epsilon: float) -> float:
        """Return the smallest delta for which everything together is (epsilon, delta)-differentially private."""
        noise = shifted_delta(epsilon, self.mu, self._slack, self._shift)
        return min(1.0, float(fraction(self.delta_coalition)) + noise * (1 + 1e-15))

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest epsilon for which everything together is (epsilon, delta)-differentially private.

        Infinite if `delta` does not even cover the coalitions, or no epsilon covers what is seen besides releases.

        Raises:
            ValueError: `delta` does not lie strictly between 0 and 1.
        """
        if not 0 < delta < 1:
            raise ValueError(f"delta must lie strictly between 0 and 1, got {delta}")
        left = Fraction(delta) - fraction(self.delta_coalition)
        if left <= 0:
            return math.inf
        return shifted_epsilon(self.mu, float(left) * (1 - 1e-15), self._slack, self._shift)

    def epsilon_alone_at(self, delta: float) -> float:
        """Return the smallest epsilon of all bounded releases together if all other clients are invented."""
        mu = math.sqrt(fraction(self.mu_squared_alone)) * (1 + 1e-15)
        return shifted_epsilon(mu, delta, self._slack, self._shift)

    def to_document(self) -> dict[str, str]:
        """Return the numbers as canonical decimal strings, ready for canonical JSON; what shares show only if not 0."""
        document: dict[str, str] = self.model_dump()
        return document

    @classmethod
    def from_document(cls, document: object) -> Self:
        """Read what `to_document` wrote.

        Raises:
            InvalidMessageError: a field is missing, unknown, negative or not a canonical decimal string.
        """
        return cls.from_value(document)

    @property
    def _slack(self) -> float:
        return float(fraction(self.slack)) * (1 + 1e-15)

    @property
    def _shift(self) -> float:
        return float(fraction(self.delta_shares)) * (1 + 1e-15)

    def _parts(self) -> tuple[Fraction, ...]:
        return tuple(fraction(getattr(self, name)) for name in type(self).model_fields)


def _rounded_up(number: Decimal) -> Real:
    """Spell a number from 0 on with at most twenty digits and forty places, rounded up."""
    short = _TWENTY_DIGITS.plus(number)
    if short.is_finite() and short != short.quantize(_LAST_PLACE, context=_EXACT):
        short = short.quantize(_LAST_PLACE, rounding=ROUND_CEILING, context=_EXACT)
    return real(short)


def _sum(first: Real, second: Real) -> Real:
    """Add two reals exactly: both end within forty places, and so does their sum."""
    return real(_EXACT.add(Decimal(first), Decimal(second)))
