"""How well coefficients could be told from other cohorts and at other epsilons.

What decides it is the strength: the smallest eigenvalue of the features' products, which grows with the cohort, over
the deviation of the noise in one of them, which does not (docs/explanation/estimators.md#strength).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lintra_analysis.estimators.tabular import number, table
from lintra_protocol.privacy.gaussian import gaussian_mu

TELLS, HARDLY = 5.0, 2.0
"""Strengths above which few intervals are unbounded, below which most are (docs/explanation/estimators.md#strength)."""

EPSILONS = (0.5, 1.0, 2.0, 4.0)
COHORTS = (1, 4, 16)


@dataclass(frozen=True)
class Prospect:
    """How well coefficients could be told from another cohort or at another epsilon.

    Attributes:
        epsilon: promised.
        num_clients: rows like those of the table.
        strength: smallest eigenvalue of the features' products over the noise's deviation.
    """

    epsilon: float
    num_clients: int
    strength: float

    @property
    def verdict(self) -> str:
        """Return in words what the strength means for the intervals."""
        if self.strength >= TELLS:
            return "told"
        return "some told" if self.strength >= HARDLY else "hardly any told"


def outlook(smallest: float, noise: float, num_clients: int, epsilon: float, delta: float) -> tuple[Prospect, ...]:
    """Return the strength for other cohorts of such rows and other epsilons.

    `smallest` is the eigenvalue of the features' products in this cohort, in normalised units. `noise` is the deviation
    of a product of two columns in the release.
    """
    here = gaussian_mu(epsilon, delta)
    return tuple(
        Prospect(
            epsilon=epsilon * factor,
            num_clients=num_clients * times,
            strength=max(smallest, 0.0) * times / noise * gaussian_mu(epsilon * factor, delta) / here,
        )
        for times in COHORTS
        for factor in EPSILONS
    )


def prospects_table(prospects: Sequence[Prospect]) -> list[str]:
    """Return a table of verdicts and strengths: cohorts down, epsilons across."""
    epsilons = sorted({each.epsilon for each in prospects})
    cells = {(each.num_clients, each.epsilon): f"{each.verdict} ({each.strength:.1f})" for each in prospects}
    sizes = sorted({each.num_clients for each in prospects})
    header = ["rows", *(f"epsilon {number(epsilon)}" for epsilon in epsilons)]
    return table(header, [[f"{size:,}", *(cells[size, epsilon] for epsilon in epsilons)] for size in sizes])
