"""Are two columns independent? Chi-square of a table of noisy counts, with its law simulated at independence."""

from dataclasses import dataclass

import numpy as np

from lintra_analysis.estimators.notes import clients
from lintra_analysis.estimators.table import Estimate, Table
from lintra_analysis.estimators.tabular import number
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.crossed_cells import CrossedCells
from lintra_analysis.releases.release import Release
from lintra_analysis.releases.sampling import gaussians, multinomials
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.canonical import domain_hash
from lintra_protocol.errors import InvalidAnalysisError

DRAWS = 999
DOUBTFUL = 0.2
"""The largest share of cells whose expected rows may lie below one deviation of noise."""

NO_PAIRS = "this release counts no two columns together; release a histogram with `crossed`, or ron_gauss with pairs"
LAW_NOTE = (
    f"the p value is the share of {DRAWS} tables with the statistic at least as large, drawn at independence with the "
    "noise of this release; the law of a chi-square would forget the noise"
)


@dataclass(frozen=True, eq=False, repr=False)
class ChiSquareEstimate(Estimate):
    """A test of two columns being independent.

    >>> from lintra_analysis import chi_square, open_release
    >>> 0 < chi_square(open_release("relapses.npz"), "relapse", "arm").p_value <= 1
    True

    Attributes:
        statistic: sum of (N - E)^2 / E over the cells, E the rows that margins and independence expect; no E counts for
            less than one deviation of noise.
        degrees: those that a chi-square without noise would have.
        noise_sd: of the noise in a cell of the table, in rows.
        observed: rows in each cell, noise included, shape `(r, c)`.
        expected: at independence, shape `(r, c)`.
    """

    target: str
    group: str
    num_clients: int
    statistic: float
    degrees: int
    p_value: float
    noise_sd: float
    observed: FloatArray
    expected: FloatArray
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        return f"ChiSquareEstimate({self.target!r} by {self.group!r}, p {self.p_value:.3g})"

    def table(self) -> Table:
        """Return one line for each cell."""
        return Table(
            title=f"Independence of {self.target} and {self.group}",
            columns=(f"cell of {self.target}", f"cell of {self.group}", "rows", "expected"),
            rows=(
                (row, column, value, float(self.expected[row, column]))
                for row, line in enumerate(self.observed.tolist())
                for column, value in enumerate(line)
            ),
            facts=[
                ("Clients", str(self.num_clients)),
                ("Statistic", f"{number(self.statistic)} ({self.degrees} df without noise)"),
                ("P", number(self.p_value, 3)),
                ("Noise in a cell", f"{number(self.noise_sd)} rows"),
            ],
            notes=self.notes,
            warnings=self.warnings,
        )

    def in_words(self) -> str:
        """Return whether the columns are told to depend on each other."""
        found = "are told to depend on each other" if self.p_value <= 0.05 else "may be independent"
        head = f"{self.target} and {self.group}, {clients(self.num_clients)}"
        return f"{head}: they {found} at 5 %, p {number(self.p_value, 3)}."


def chi_square(release: Release, target: str, group: str) -> ChiSquareEstimate:
    """Return a test of two columns being independent in the population, from counts of both together.

    >>> from lintra_analysis import chi_square, open_release
    >>> test = chi_square(open_release("relapses.npz"), "relapse", "arm")
    >>> test.observed.shape, test.degrees
    ((2, 2), 1)

    Args:
        release: a crossed histogram, or a `ron_gauss` release that counted this pair.
        target: one column.
        group: the other one.

    Raises:
        InvalidAnalysisError: the release did not count the two together, or noise drowns the table.
    """
    table = counted_pair(release, target, group)
    observed = table.cells[:-1].reshape(table.counts.shape)
    noise_sd = table.noise_sd * float(np.sqrt(table.merged))
    expected = _expected(observed)
    if float(np.mean(expected < noise_sd)) >= DOUBTFUL:
        raise InvalidAnalysisError(
            f"a fifth of the cells of {target!r} and {group!r} expect fewer rows than one deviation of noise, "
            f"{noise_sd:.3g}; collect more rows, or count coarser cells"
        )
    statistic = float(_statistic(observed[np.newaxis], noise_sd)[0])
    random_bytes = expand(domain_hash("chi-square", np.ascontiguousarray(observed).tobytes()), "tables")
    present = np.maximum(expected, 0.0).ravel()
    missing = max(float(table.cells[-1]), 0.0)
    shares = np.append(present, missing) / (present.sum() + missing)
    drawn = multinomials(DRAWS, float(table.num_clients), shares, random_bytes)
    drawn = drawn + table.noise(gaussians(drawn.shape, random_bytes))
    simulated = _statistic(drawn[:, :-1].reshape(DRAWS, *observed.shape), noise_sd)
    return ChiSquareEstimate(
        target=target,
        group=group,
        num_clients=table.num_clients,
        statistic=statistic,
        degrees=(len(observed) - 1) * (len(observed.T) - 1),
        p_value=float(1 + np.sum(simulated >= statistic)) / (1 + DRAWS),
        noise_sd=noise_sd,
        observed=observed,
        expected=expected,
        notes=(LAW_NOTE,),
        warnings=(),
    )


def counted_pair(release: Release, target: str, group: str) -> CrossedCells:
    """Return the cells of two columns together.

    Raises InvalidAnalysisError if the release did not count them together.
    """
    if release.crossed is not None:
        return release.crossed.restrict([target, group])
    joint = release.joint_sums
    pairs = () if joint is None else joint.tables
    for pair in pairs:
        if joint is not None and {pair.first, pair.second} == {target, group}:
            cells = pair.cells if pair.first == target else pair.cells.T
            columns = tuple(ScaledColumn(name, 0.0, 1.0, 0.0, 1.0) for name in (target, group))
            levels = tuple(tuple(map(str, range(size))) for size in cells.shape)
            # Every row lies in the table: what is missing has a level of its own or was left out of all counts.
            noise_sd, none = joint.noise.table, np.array([])
            return CrossedCells(columns, (none, none), levels, cells, 0.0, noise_sd, joint.num_clients, counted=True)
    if pairs:
        known = ", ".join(f"{pair.first} and {pair.second}" for pair in pairs)
        raise InvalidAnalysisError(f"{target!r} and {group!r} were not counted together; pairs are: {known}")
    raise InvalidAnalysisError(NO_PAIRS)


def counted_pairs(release: Release) -> None:
    """Raise InvalidAnalysisError if no two columns were counted together."""
    if release.crossed is None and not (release.joint_sums is not None and release.joint_sums.tables):
        raise InvalidAnalysisError(NO_PAIRS)


def _expected(tables: FloatArray) -> FloatArray:
    """Return what margins and independence expect, shape `(.., r, c)`."""
    total = tables.sum(axis=(-2, -1), keepdims=True)
    return np.asarray(tables.sum(axis=-1, keepdims=True) * tables.sum(axis=-2, keepdims=True) / total)


def _statistic(tables: FloatArray, noise_sd: float) -> FloatArray:
    """Return the statistic of tables of shape `(n, r, c)`, shape `(n,)`."""
    expected = _expected(tables)
    return np.asarray(np.sum((tables - expected) ** 2 / np.maximum(expected, max(noise_sd, 1e-9)), axis=(1, 2)))
