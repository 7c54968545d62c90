"""A study: a pilot and the main task that its release gave the bounds, for the same clients under one promise.

Both tasks say what they promise together and how it is shared, so that a device can charge both at once, before the
pilot's report leaves, and a judge can compare what both together cost (docs/proofs/together.md#studies).
"""

from dataclasses import replace
from fractions import Fraction
from math import inf, sqrt

from pydantic import model_validator

from lintra_protocol.encoding.documents import Frozen, Identifier, Real, fraction, omitted
from lintra_protocol.errors import FalseClaimError
from lintra_protocol.privacy.discrete import discrete_epsilon
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.statement import MAX_SLACK, Claim, PrivacyStatement

_NUM_TASKS = 2
_DOWN = 1 - 1e-12


class Study(Frozen):
    """What a pilot and its main task promise together, and how they share it.

    Attributes:
        epsilon: of both together, for the neighbours of their claims.
        delta: of both together.
        delta_coalition: the part of delta that no noise covers; all of it is the main task's.
        share: the part of mu^2 that the pilot may spend; the rest is the main task's.
        pilot: identifier of the pilot's task; the pilot itself has none.
        epsilon_alone: of both together, at the same delta, if all other clients are invented; only where clients and
            servers add noise in both tasks. They share its mu^2 like that of epsilon.
    """

    epsilon: Real
    delta: Real
    delta_coalition: Real = "0"
    share: Real
    pilot: Identifier | None = omitted(None)
    epsilon_alone: Real | None = omitted(None)

    @model_validator(mode="after")
    def _in_range(self) -> "Study":
        if fraction(self.epsilon) <= 0:
            raise ValueError(f"epsilon must be positive, got {self.epsilon}")
        if not 0 < fraction(self.delta) < 1:
            raise ValueError(f"delta must lie strictly between 0 and 1, got {self.delta}")
        if not 0 <= fraction(self.delta_coalition) < fraction(self.delta):
            raise ValueError(f"delta_coalition must lie in [0, delta), got {self.delta_coalition}")
        if not 0 < fraction(self.share) < 1:
            raise ValueError(f"share must lie strictly between 0 and 1, got {self.share}")
        if self.epsilon_alone is not None and fraction(self.epsilon_alone) < fraction(self.epsilon):
            raise ValueError(f"epsilon_alone {self.epsilon_alone} is below epsilon {self.epsilon}")
        return self

    @property
    def mu(self) -> float:
        """Return the mu of both tasks together, rounded down: its square is the sum of their squares."""
        return _mu_of(self.epsilon, fraction(self.delta) - fraction(self.delta_coalition))

    @property
    def mu_alone(self) -> float:
        """Return the same if all other clients are invented; 0 if nothing is said of that."""
        return 0.0 if self.epsilon_alone is None else _mu_of(self.epsilon_alone, fraction(self.delta))

    @property
    def own_mu(self) -> float:
        """Return the largest mu of the task that this stands in."""
        return self._own_part(self.mu)

    @property
    def own_mu_alone(self) -> float:
        """Return the same if all other clients are invented."""
        return self._own_part(self.mu_alone)

    def _own_part(self, mu: float) -> float:
        share = fraction(self.share) if self.pilot is None else 1 - fraction(self.share)
        return mu * sqrt(float(share)) * _DOWN

    @property
    def own_delta_coalition(self) -> float:
        """Return the largest `delta_coalition` of the task that this stands in."""
        return 0.0 if self.pilot is None else float(fraction(self.delta_coalition))

    def require(self, worst: PrivacyStatement) -> None:
        """Check that a task spends no more than its part.

        Args:
            worst: of the task that this stands in, see `Task.worst_privacy`.

        Raises:
            FalseClaimError: it spends more; the detail has both numbers.
        """
        if not (worst.mu <= self.own_mu and worst.slack <= MAX_SLACK):
            raise FalseClaimError(
                f"of its study this task may spend mu {self.own_mu:.9g}, and it spends {worst.mu:.9g}"
            )
        if not worst.delta_coalition <= self.own_delta_coalition:
            raise FalseClaimError(
                f"of its study this task may spend delta_coalition {self.own_delta_coalition:g}, and it spends "
                f"{worst.delta_coalition:g}"
            )

    def require_alone(self, alone: PrivacyStatement) -> None:
        """Check the same if all other clients are invented; `alone` is `Task.alone_privacy`.

        Raises:
            FalseClaimError: it spends more; the detail has both numbers.
        """
        if not (alone.mu <= self.own_mu_alone and alone.slack <= MAX_SLACK):
            raise FalseClaimError(
                f"of its study this task may spend mu {self.own_mu_alone:.9g}, and it spends {alone.mu:.9g}"
            )

    def claim(self, own: Claim) -> Claim:
        """Return what both tasks promise together; the rest is as the task's own claim has it."""
        names = ("epsilon", "delta", "delta_coalition", "epsilon_alone")
        return own.model_copy(update={name: getattr(self, name) for name in names})

    def statement(self, worst: PrivacyStatement) -> PrivacyStatement:
        """Return the privacy of the worst two releases together that a task and its study allow.

        Args:
            worst: of the task that this stands in; neighbours and coalition are the same in both.
        """
        mu, slack = self.mu, _NUM_TASKS * MAX_SLACK
        coalition = float(fraction(self.delta_coalition))
        noise_delta = float(fraction(self.delta) - fraction(self.delta_coalition)) * _DOWN
        epsilon = discrete_epsilon(mu, noise_delta, slack)
        delta = float(fraction(self.delta))
        return replace(worst, epsilon=epsilon, delta=delta, mu=mu, slack=slack, delta_coalition=coalition)

    def alone(self, own: PrivacyStatement) -> PrivacyStatement:
        """Return what both tasks together show of a client of whom all others are invented; `own` is one's."""
        mu, slack, delta = self.mu_alone, _NUM_TASKS * MAX_SLACK, float(fraction(self.delta))
        return replace(own, epsilon=discrete_epsilon(mu, delta * _DOWN, slack), delta=delta, mu=mu, slack=slack)

    def set_aside(self, worst: PrivacyStatement) -> PrivacyStatement:
        """Return the worst release of the main task, as its pilot knows it.

        Args:
            worst: of the pilot; neighbours and coalition are the same in both.
        """
        main = self.model_copy(update={"pilot": ""})
        return replace(worst, epsilon=inf, mu=main.own_mu, slack=MAX_SLACK, delta_coalition=main.own_delta_coalition)

    def set_aside_alone(self, alone: PrivacyStatement) -> PrivacyStatement:
        """Return the same of the main task if all other clients are invented; `alone` is the pilot's."""
        main = self.model_copy(update={"pilot": ""})
        return replace(alone, epsilon=inf, mu=main.own_mu_alone, slack=MAX_SLACK)


def _mu_of(epsilon: Real, noise_delta: Fraction) -> float:
    """Return the mu that two tasks may have together, rounded down, what integers cost taken off."""
    slack = _NUM_TASKS * MAX_SLACK
    return gaussian_mu(float(fraction(epsilon)) - 2 * slack, float(noise_delta) * _DOWN * (1 - slack)) * _DOWN
