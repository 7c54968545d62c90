"""Coverage for the population: the table is the population, and every draw takes its own clients from it."""

from dataclasses import dataclass

import numpy as np

from coverage_grid.cells import Cell, measure
from coverage_grid.cohorts import Cohort, shrunk_rows
from lintra_analysis.estimators.correlation import correlation
from lintra_analysis.estimators.estimates import Of, Residuals
from lintra_analysis.estimators.means import means
from lintra_protocol.crypto.ring import FloatArray

TWO_SIDED = 1.959964
BOTH: tuple[Of, Of] = ("cohort", "population")


@dataclass(frozen=True)
class Population:
    """A table whose rows are all normalised and shrunk alike; clients are drawn from it with replacement.

    Attributes:
        rows: shape `(N, q)`, the constant first if there is one, the target last.
        whole: its second moments, for n clients.
    """

    rows: FloatArray
    whole: Cohort

    @classmethod
    def of(cls, table: FloatArray, num_clients: int, intercept: bool) -> "Population":
        """Prepare the rows."""
        rows, bound = shrunk_rows(table.astype(np.float64), intercept)
        gram = rows.T @ rows * (num_clients / len(rows))
        return cls(rows, Cohort(gram, num_clients, bound, 1.0 if intercept else 0.0))

    def sampled(self, generator: np.random.Generator) -> FloatArray:
        """Return the second moments of n clients, shape `(q, q)`."""
        count = len(self.rows)
        weights = generator.multinomial(self.whole.num_clients, np.full(count, 1 / count))
        return np.asarray((self.rows * weights[:, np.newaxis]).T @ self.rows)

    def matrices(self, epsilon: float, draws: int, generator: np.random.Generator) -> FloatArray:
        """Return releases, each of other clients, shape `(draws, q, q)`."""
        noise = self.whole.matrices(epsilon, draws, generator) - self.whole.gram
        return np.stack([self.sampled(generator) for _ in range(draws)]) + noise


def measure_population(
    name: str, population: Population, epsilon: float, matrices: FloatArray, checked: int, residuals: Residuals
) -> Cell:
    """Count how often the coefficients of the whole table are held, over releases of shape `(B, q, q)`."""
    return measure(name, population.whole, epsilon, matrices, "population", checked, residuals)


@dataclass(frozen=True)
class Pairs:
    """Coverage of correlations and means over the draws of one cell.

    Attributes:
        correlations: of every pair of columns, for the cohort, and for the population.
        means: of every column, for the cohort, and for the population.
        told: share of the pairs and draws whose interval is not all of [-1, 1], for the cohort.
    """

    table: str
    log2_clients: int
    epsilon: float
    draws: int
    correlations: tuple[list[float], list[float]]
    means: tuple[list[float], list[float]]
    told: float


def measure_pairs(
    name: str, population: Population, epsilon: float, draws: int, generator: np.random.Generator
) -> Pairs:
    """Count, with an intercept; constant columns have no correlation and are left out."""
    whole = population.whole
    noise = whole.matrices(epsilon, draws, generator) - whole.gram
    pairs: list[list[list[bool]]] = [[], []]
    averages: list[list[list[bool]]] = [[], []]
    told = []
    for one in noise:
        own = population.sampled(generator)
        release = whole.released(own + one, epsilon)
        for position, of in enumerate(BOTH):
            true = own if of == "cohort" else whole.gram
            middle, expected = _correlations(true)
            found = correlation(release, of=of)
            names = [column.name for column in release.columns[1:]]
            intervals = [found.pair(names[i], names[j]).interval for i, j in zip(*expected[1], strict=True)]
            pairs[position].append(
                [low <= r <= high for (low, high), r in zip(intervals, expected[0].tolist(), strict=True)]
            )
            if of == "cohort":
                told.append([interval != (-1.0, 1.0) for interval in intervals])
            stated = [mean.interval for mean in means(release, of=of).means or ()]
            averages[position].append(
                [
                    interval is not None and interval[0] <= mean <= interval[1]
                    for interval, mean in zip(stated, middle.tolist(), strict=True)
                ]
            )
    return Pairs(
        table=name,
        log2_clients=int(np.log2(whole.num_clients)),
        epsilon=epsilon,
        draws=draws,
        correlations=(np.mean(pairs[0], axis=0).tolist(), np.mean(pairs[1], axis=0).tolist()),
        means=(np.mean(averages[0], axis=0).tolist(), np.mean(averages[1], axis=0).tolist()),
        told=float(np.mean(told)),
    )


def _correlations(gram: FloatArray) -> tuple[FloatArray, tuple[FloatArray, tuple[list[int], list[int]]]]:
    """Return the means of a Gram matrix with a constant first, and the correlations of pairs that vary."""
    middle = gram[0, 1:] / gram[0, 0]
    covariance = gram[1:, 1:] / gram[0, 0] - np.outer(middle, middle)
    first, second = np.triu_indices(len(middle), 1)
    varies = np.diagonal(covariance) > 1e-12
    kept = varies[first] & varies[second]
    first, second = first[kept], second[kept]
    values = covariance[first, second] / np.sqrt(covariance[first, first] * covariance[second, second])
    return middle, (values, (first.tolist(), second.tolist()))
