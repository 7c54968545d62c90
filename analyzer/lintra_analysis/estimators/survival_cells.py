"""Durations in cells: how many are at risk and how many have the event in each bin, and draws of the noise in them.

Nothing is clipped at 0: noise has mean 0, and to clip small cells is a bias that adds up over bins. The actuarial rule
takes those who are censored in a bin to be at risk for half of it (Cutler and Ederer 1958).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lintra_analysis.releases.crossed_cells import CrossedCells
from lintra_analysis.releases.release import Release
from lintra_analysis.releases.sampling import gaussians, multinomials
from lintra_protocol.crypto.randomness import RandomBytes, expand
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.canonical import domain_hash
from lintra_protocol.errors import InvalidAnalysisError

DRAWS = 300
SEEN = 6.0
"""A curve ends where the number at risk is below so many of its own deviations."""

_SAME_WIDTH = 1e-6


@dataclass(frozen=True, eq=False)
class LifeTables:
    """Tables of g groups over b bins, for one release or for draws of it.

    Attributes:
        events: shape `(.., b, g)`.
        at_start: at risk at the beginning of each bin, shape `(.., b, g)`.
        exposed: these less half of those who are censored in it, shape `(.., b, g)`.
    """

    events: FloatArray
    at_start: FloatArray
    exposed: FloatArray

    @classmethod
    def of(cls, cells: FloatArray, bins: int) -> "LifeTables":
        """Read cells of time, event and group, shape `(.., time cells, 2, g)`; cells of time beyond `bins` come later.

        The first of the two is censored, the second has the event.
        """
        both = cells.sum(axis=-2)
        at_start = np.flip(np.cumsum(np.flip(both, axis=-2), axis=-2), axis=-2)[..., :bins, :]
        return cls(cells[..., :bins, 1, :], at_start, at_start - cells[..., :bins, 0, :] / 2)

    def survival(self, told: int) -> FloatArray:
        """Return the share without the event at the end of each of the first bins, shape `(.., told, g)`."""
        hazards = self.events[..., :told, :] / self.exposed[..., :told, :]
        return np.asarray(np.cumprod(1 - hazards, axis=-2))

    def excess(self, told: int) -> FloatArray:
        """Return observed less expected events of each group over the first bins, shape `(.., g)` (Mantel 1966)."""
        events, exposed = self.events[..., :told, :], self.exposed[..., :told, :]
        whole = events.sum(axis=-1, keepdims=True) / exposed.sum(axis=-1, keepdims=True)
        return np.asarray((events - exposed * whole).sum(axis=-2))


@dataclass(frozen=True, eq=False)
class SurvivalCells:
    """The cells of a crossed histogram that are about a duration, an event, and perhaps a group.

    Attributes:
        crossed: of the columns time, event and group, in this order.
        edges: of the b bins, shape `(b + 1,)`, the last one the public end.
        groups: names of the groups; one without a name where there is none.
        has_later: whether what happens after the end has a cell of its own.
    """

    crossed: CrossedCells
    edges: FloatArray
    groups: tuple[str, ...]
    has_later: bool

    @classmethod
    def of(cls, release: Release, time: str, event: str, group: str | None) -> "SurvivalCells":
        """Choose the columns.

        Raises InvalidAnalysisError if the release has no crossed cells, or a column does not fit its part.
        """
        names = [time, event] if group is None else [time, event, group]
        crossed = release.need("crossed").restrict(names)
        if not crossed.edges[0].size:
            raise InvalidAnalysisError(f"a duration is a number, and {time!r} has levels")
        if crossed.levels[1] != ("0", "1"):
            raise InvalidAnalysisError(f"an event is a boolean, and {event!r} is none")
        if group is not None and not crossed.levels[2]:
            raise InvalidAnalysisError(f"a group is a boolean or a category, and {group!r} is a number in cells")
        edges = crossed.edges[0]
        widths = np.diff(edges)
        has_later = edges.size > 2 and not np.isclose(widths[-1], widths[0], rtol=_SAME_WIDTH)
        return cls(crossed, edges[:-1] if has_later else edges, crossed.levels[2] if group else ("",), bool(has_later))

    @property
    def bins(self) -> int:
        """Return b."""
        return self.edges.size - 1

    def tables(self, cells: FloatArray) -> LifeTables:
        """Return the life tables of cells as the release has them, missing values last, shape `(.., k + 1)`."""
        shape = (*cells.shape[:-1], self.crossed.counts.shape[0], 2, len(self.groups))
        return LifeTables.of(cells[..., :-1].reshape(shape), self.bins)

    @cached_property
    def own(self) -> LifeTables:
        """The tables of the release."""
        return self.tables(self.crossed.cells)

    @cached_property
    def told(self) -> tuple[int, ...]:
        """How many bins of each group are told: the first at whose start too few are at risk beside noise ends them."""
        times, held = self.crossed.counts.shape[0], self.own
        left = 2 * (times - np.arange(self.bins)) * self.crossed.merged
        least = SEEN * self.crossed.noise_sd * np.sqrt(left)
        enough = (held.at_start > np.maximum(least, 0.0)[:, np.newaxis]) & (held.exposed > 0)
        return tuple(int(np.argmin(np.append(each, False))) for each in enough.T)

    def draws(self, population: bool, purpose: str) -> tuple[LifeTables, LifeTables]:
        """Return 300 draws of the tables, and the tables that they were drawn about.

        For the cohort noise is drawn anew about the release. For the population rows are drawn from its cells without
        those below 0, and noise is added. The draws come from the release itself, so that it has one answer.
        """
        cells = self.crossed.cells
        random_bytes = self._random_bytes(purpose)
        if not population:
            centre = base = cells
        else:
            positive = np.maximum(cells, 0.0)
            rows = float(self.crossed.num_clients)
            centre = positive / positive.sum() * rows
            base = multinomials(DRAWS, rows, positive / positive.sum(), random_bytes)
        noise = self.crossed.noise(gaussians((DRAWS, cells.size), random_bytes))
        return self.tables(base + noise), self.tables(centre)

    def _random_bytes(self, purpose: str) -> RandomBytes:
        return expand(domain_hash("life tables", np.ascontiguousarray(self.crossed.counts).tobytes()), purpose)
