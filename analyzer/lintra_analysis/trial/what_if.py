"""How well coefficients could be told from other cohorts and at other epsilons.

The strength decides: the smallest eigenvalue of the features' products, which grows with the cohort, over the deviation
of the noise in one of them, which does not (docs/explanation/estimators-intervals.md#strength).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from lintra_analysis.estimators.tabular import number, table
from lintra_protocol.privacy.gaussian import gaussian_mu

TELLS, HARDLY = 5.0, 2.0
"""Strengths above which few intervals are unbounded, and below which most are: estimators-intervals.md#strength."""

MADE_UP, WORST, BEST = 10.0, 100.0, 3.0
"""By how much evenly filled, independent columns overstate the strength of real ones: usually, at worst, at best."""

GUESS = (
    "the strengths are a guess: without a sample every column is filled evenly and independently, which overstates "
    "them 9 to 29 times in the median and over 100 times on a tenth of the tables that were tried; a pilot or a "
    "public sample tells them"
)

EPSILONS = (0.5, 1.0, 2.0, 4.0)
COHORTS = (1, 4, 16)


@dataclass(frozen=True)
class Prospect:
    """How well coefficients could be told from another cohort or at another epsilon."""

    epsilon: float  #: promised
    num_clients: int  #: rows like those of the table
    strength: float  #: smallest eigenvalue of the features' products over the noise's deviation
    #: whether rows are made up, with independent, evenly filled columns; the strength is then a tenth of theirs
    guessed: bool = False

    @property
    def verdict(self) -> str:
        """Return in words what the strength means for the intervals."""
        if self.strength >= TELLS:
            return "told"
        return "some told" if self.strength >= HARDLY else "hardly any told"

    @property
    def told(self) -> str:
        """Return the verdict and the strength; of made-up rows between which strengths it may lie."""
        if self.guessed:
            least, most = self.strength * MADE_UP / WORST, self.strength * MADE_UP / BEST
            return f"guess: {self.verdict} ({least:.2g} to {most:.2g})"
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


def outlook(
    smallest: float, noise: float, num_clients: int, epsilon: float, delta: float, *, guessed: bool = False
) -> tuple[Prospect, ...]:
    """Return the strength for other cohorts of such rows and other epsilons.

    `smallest` is the eigenvalue of the features' products in this cohort, in normalised units. `noise` is the deviation
    of a product of two columns in the release. `guessed` says that the rows are made up, and divides by `MADE_UP`.
    """
    least = max(smallest, 0.0) / noise / (MADE_UP if guessed else 1.0)
    return tuple(
        Prospect(other, num_clients * times, least * times / louder, guessed)
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
