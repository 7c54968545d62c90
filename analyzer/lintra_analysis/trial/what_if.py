"""How well coefficients could be told from other cohorts and at other epsilons.

The strength decides: the smallest eigenvalue of the features' products, which grows with the cohort, over the deviation
of the noise in one of them, which does not (docs/explanation/estimators.md#strength).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from lintra_analysis.estimators.tabular import number, table
from lintra_protocol.privacy.gaussian import gaussian_mu

TELLS, HARDLY = 5.0, 2.0
"""Strengths above which few intervals are unbounded, below which most are (docs/explanation/estimators.md#strength)."""

EPSILONS = (0.5, 1.0, 2.0, 4.0)
COHORTS = (1, 4, 16)


@dataclass(frozen=True)
class Prospect:
    """How well coefficients could be told from another cohort or at another epsilon."""

    epsilon: float  #: promised
    num_clients: int  #: rows like those of the table
    strength: float  #: smallest eigenvalue of the features' products over the noise's deviation

    @property
    def verdict(self) -> str:
        """Return in words what the strength means for the intervals."""
        if self.strength >= TELLS:
            return "told"
        return "some told" if self.strength >= HARDLY else "hardly any told"

    @property
    def told(self) -> str:
        """Return the verdict and the strength."""
        return f"{self.verdict} ({self.strength:.1f})"


@dataclass(frozen=True)
class DirectionProspect:
    """How many directions would stand out of the noise, of another cohort of such rows or at another epsilon."""

    epsilon: float
    num_clients: int
    directions: int

    @property
    def told(self) -> str:
        """Return the number as text."""
        return str(self.directions)


def outlook(smallest: float, noise: float, num_clients: int, epsilon: float, delta: float) -> tuple[Prospect, ...]:
    """Return the strength for other cohorts of such rows and other epsilons.

    `smallest` is the eigenvalue of the features' products in this cohort, in normalised units. `noise` is the deviation
    of a product of two columns in the release.
    """
    least = max(smallest, 0.0) / noise
    return tuple(
        Prospect(other, num_clients * times, least * times / louder)
        for times, other, louder in elsewhere(epsilon, delta)
    )


def elsewhere(epsilon: float, delta: float) -> Iterator[tuple[int, float, float]]:
    """Yield how many times as large another cohort is, its epsilon, and how many times as large the noise is there."""
    here = gaussian_mu(epsilon, delta)
    for times, factor in product(COHORTS, EPSILONS):
        yield times, epsilon * factor, here / gaussian_mu(epsilon * factor, delta)


def prospects_table(prospects: Sequence[Prospect | DirectionProspect]) -> list[str]:
    """Return a table of what numbers of rows (down) and epsilons (across) would give, in words."""
    cells = {(each.num_clients, each.epsilon): each.told for each in prospects}
    sizes, epsilons = (sorted(set(each)) for each in zip(*cells, strict=True))
    header = ["rows", *(f"epsilon {number(epsilon)}" for epsilon in epsilons)]
    return table(header, [[f"{size:,}", *(cells[int(size), epsilon] for epsilon in epsilons)] for size in sizes])
