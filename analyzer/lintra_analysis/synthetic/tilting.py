"""Rows chosen so that two columns together follow their released table, with the least change of the Gaussian model.

Rows of the model get weights w = exp(sum of one score for each table's cell) that minimise their relative entropy to
equal weights plus, for every table t with cells noised by s, |A w - t|^2 / 2 s^2 times E, the part of the table's
squared distance from the model that noise does not explain. So a table that noise alone could explain changes nothing,
and near the model each distance is kept to E / (E + c s^2), which is the factor of James and Stein (1961). The dual is
smooth and convex (Jaynes 1957; Csiszar 1975); it is solved once for each draw, on rows of the model. Post-processing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lintra_analysis.releases.features import ColumnArray
from lintra_analysis.releases.joint_sums import PairTable, ProjectedSums
from lintra_analysis.synthetic.repair import rows_in_cells
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.mechanisms.joint_rows import merged_cells

LEAST_ROWS, MOST_ROWS = 20_000, 100_000
"""So many rows of the model at least, and at most, are weighed to find the scores."""

_ITERATIONS = 200


@dataclass(frozen=True, eq=False, repr=False)
class Tilt:
    """Scores of the cells of some tables."""

    tables: tuple[PairTable, ...]  #: the tables that say more than noise does
    #: for each table of the release, which part of its distance from the model is no noise, 0 to 1
    kept: tuple[float, ...]
    scores: FloatArray  #: of each cell of `tables`, in one row, shape `(c,)`

    def weights(self, release: ProjectedSums, columns: Mapping[str, ColumnArray]) -> FloatArray:
        """Return the weights of rows, shape `(n,)`, at least 0, sum 1."""
        size = len(next(iter(columns.values())))
        if not self.tables:
            return np.full(size, 1 / size)
        score = _summed(self.scores, _places(self.tables, release, columns))
        weights = np.exp(score - score.max())
        result: FloatArray = weights / weights.sum()
        return result


def fit_tilt(release: ProjectedSums, columns: Mapping[str, ColumnArray]) -> Tilt:
    """Return the tilt that rows of the model need.

    `columns` are rows of the model, by name, each of shape `(n,)`, the label among them.
    """
    size = len(next(iter(columns.values())))
    kept: list[float] = []
    used: list[PairTable] = []
    targets: list[FloatArray] = []
    ridge: list[FloatArray] = []
    for table in release.tables:
        place = _places((table,), release, columns)[0]
        rows = rows_in_cells(table.cells.ravel(), release.num_clients, release.noise.table)
        released, sd = table.cells.ravel() / rows, release.noise.table / rows
        distance = released - np.bincount(place, minlength=released.size) / size
        noise = released.size * sd**2
        excess = max(0.0, float(distance @ distance) - noise)
        kept.append(excess / (excess + noise) if excess else 0.0)
        if excess:
            used.append(table)
            targets.append(released)
            ridge.append(np.full(released.size, sd**2 / excess))
    if not used:
        return Tilt((), tuple(kept), np.empty(0))
    places = _places(used, release, columns)
    scores = _scores(places, np.concatenate(targets), np.concatenate(ridge))
    return Tilt(tuple(used), tuple(kept), scores)


def _scores(places: IntArray, targets: FloatArray, ridge: FloatArray) -> FloatArray:
    """Minimise log mean exp(score) - <scores, targets> + <ridge, scores^2> / 2 over the scores of all cells."""

    def dual(scores: FloatArray) -> tuple[float, FloatArray]:
        score = _summed(scores, places)
        top = float(score.max())
        weights = np.exp(score - top)
        total = float(weights.sum())
        value = top + np.log(total / weights.size) - float(scores @ targets) + float(ridge @ scores**2) / 2
        return value, _counted(places, targets.size, weights / total) - targets + ridge * scores

    # Here, because it takes a while to import and whoever starts a service waits for that.
    from scipy.optimize import minimize

    found = minimize(dual, np.zeros(targets.size), jac=True, method="L-BFGS-B", options={"maxiter": _ITERATIONS})
    # A cell that no row of the model enters has no score: nothing would hold it, and other rows may enter it.
    scores: FloatArray = np.where(_counted(places, targets.size, np.ones(places.shape[1])) > 0, found.x, 0.0)
    return scores


def _summed(scores: FloatArray, places: IntArray) -> FloatArray:
    """Return the sum of the scores of each row's cells, table by table so that little memory is held."""
    total = np.zeros(places.shape[1])
    for place in places:
        total += scores[place]
    return total


def _counted(places: IntArray, size: int, weights: FloatArray) -> FloatArray:
    """Return the weight in each of `size` cells."""
    total = np.zeros(size)
    for place in places:
        total += np.bincount(place, weights, size)
    return total


def _places(
    tables: tuple[PairTable, ...] | list[PairTable], release: ProjectedSums, columns: Mapping[str, ColumnArray]
) -> IntArray:
    """Return each row's cell in each table, all tables' cells numbered one after the other, shape `(t, n)`."""
    own = {
        name: cells_by_name(release, name, columns[name]) for name in {n for t in tables for n in (t.first, t.second)}
    }
    counted, found, start = release.counted_cells, [], 0
    for table in tables:
        first, second = (
            merged_cells(own[name], counted[name], number)
            for name, number in zip((table.first, table.second), table.cells.shape, strict=True)
        )
        found.append(start + first * table.cells.shape[1] + second)
        start += table.cells.size
    return np.stack(found).astype(np.int64)


def cells_by_name(release: ProjectedSums, name: str, values: ColumnArray) -> IntArray:
    """Return the cell of each value of a column, shape `(n,)`, in its histogram; of a class label, the class."""
    if release.label is not None and release.label.levels and name == release.label.name:
        order = {level: number for number, level in enumerate(release.label.levels)}
        return np.array([order[str(value)] for value in values.tolist()], np.int64)
    feature = next(feature for feature in release.histogram_features if feature.name == name)
    return feature.cells_of(values)
