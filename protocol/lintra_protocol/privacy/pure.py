"""Pure epsilon: a statement that needs no delta, and the Gaussian privacy that follows from it."""

from dataclasses import dataclass, replace
from math import erfc, exp, expm1, log1p, sqrt

from lintra_protocol.privacy.statement import PrivacyStatement


@dataclass(frozen=True)
class PureStatement(PrivacyStatement):
    """A statement whose epsilon holds with a delta of 0, and whose mu is the one that follows from it.

    Whoever changes mu or epsilon alone keeps the Gaussian curve of mu, and no more.
    """

    @property
    def is_pure(self) -> bool:
        """Return whether epsilon is still the one of which mu is made."""
        return self.delta_coalition == self.delta_shares == self.slack == 0 and self.mu == mu_of_pure(self.epsilon)

    def __str__(self) -> str:
        said = super().__str__()
        return said.replace(f"at delta {self.delta:g}", "at delta 0") if self.is_pure else said

    def delta_at(self, epsilon: float) -> float:
        """Return 0 from the statement's epsilon on, and below it what the Gaussian curve allows."""
        return 0.0 if self.is_pure and epsilon >= self.epsilon else super().delta_at(epsilon)

    def epsilon_at(self, delta: float) -> float:
        """Return the statement's epsilon, or that of the Gaussian curve where it is smaller."""
        return min(self.epsilon, super().epsilon_at(delta)) if self.is_pure else super().epsilon_at(delta)


def mu_of_pure(epsilon: float) -> float:
    """Return a mu for which pure epsilon is Gaussian privacy: -2 Phi^-1(1 / (1 + e^epsilon)), rounded up.

    The trade-off of pure epsilon is two straight lines that meet at 1 / (1 + e^epsilon). That of mu is convex and has
    the same ends, so it lies below both lines if it does so where they meet (docs/proofs/laplace.md#gaussian).
    """
    if epsilon > 600:  # the quantile is that of a number that no float holds, and this lies above it
        return 2 * sqrt(2 * epsilon)
    low, high, corner = 0.0, 2 * sqrt(2 * log1p(expm1(epsilon) / 2)), 1 / (1 + exp(epsilon))
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if erfc(middle / sqrt(8)) / 2 <= corner else (middle, high)
    return high * (1 + 1e-12)


def added_up(statement: PureStatement, times: int) -> PureStatement:
    """Return the statement about so many releases, or about so many reports of a source: epsilon counts as often."""
    epsilon = statement.epsilon * times * (1 + 1e-12)
    return replace(statement, epsilon=epsilon, mu=mu_of_pure(epsilon))
