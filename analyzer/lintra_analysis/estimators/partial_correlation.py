"""Partial correlations: how two columns go together where all others are held, with the p values of regressions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lintra_analysis.estimators.centred import centred
from lintra_analysis.estimators.estimates import Of
from lintra_analysis.estimators.notes import clients
from lintra_analysis.estimators.regression import regression
from lintra_analysis.estimators.table import Estimate, Table
from lintra_analysis.releases.gram_error import HasSecondMoment
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

P_NOTE = (
    "a partial correlation of 0 is a regression coefficient of 0: p values are those of the regression of the first "
    "column on all others"
)

LOST = "noise is as large as what these columns do not share, so that no partial correlation is told; ask about fewer"

_SMALLEST = 1e-9
"""Eigenvalue of the correlations below which nothing is left of a column given the others."""


@dataclass(frozen=True)
class PartialPair:
    """The partial correlation of two columns."""

    first: str
    second: str
    value: float | None  #: None where noise is as large as what the columns do not share
    p_value: float | None  #: of 0; None where nothing bounds the coefficient


@dataclass(frozen=True, eq=False, repr=False)
class PartialCorrelationEstimate(Estimate):
    """The partial correlations of all pairs of columns.

    >>> from lintra_analysis import open_release, partial_correlation
    >>> len(partial_correlation(open_release("flights.npz")).pairs)
    3
    """

    columns: tuple[str, ...]
    num_clients: int
    of: Of
    pairs: tuple[PartialPair, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        return f"PartialCorrelationEstimate({len(self.columns)} columns, {self.num_clients} clients)"

    @property
    def pvalues(self) -> dict[tuple[str, str], float | None]:
        """The p values of 0, by pair."""
        return {(one.first, one.second): one.p_value for one in self.pairs}

    def table(self) -> Table:
        """Return one line for each pair."""
        return Table(
            title="Partial correlations from a private second moment",
            columns=("first", "second", "partial_correlation", "p_value"),
            rows=((one.first, one.second, one.value, one.p_value) for one in self.pairs),
            facts=[("Clients", str(self.num_clients)), ("Errors are of", f"the {self.of}")],
            notes=self.notes,
            warnings=self.warnings,
        )

    def in_words(self) -> str:
        """Return which pairs are told apart from 0."""
        told = [
            f"{one.first} and {one.second}" for one in self.pairs if one.p_value is not None and one.p_value <= 0.05
        ]
        found = ", ".join(told) or "none"
        return f"Partial correlations, {clients(self.num_clients, self.of)}. Told apart from 0 at 5 %: {found}."


def partial_correlation(
    release: HasSecondMoment, columns: Sequence[str] | None = None, *, of: Of = "population"
) -> PartialCorrelationEstimate:
    """Return the correlation of every pair of columns given all others.

    >>> from lintra_analysis import open_release, partial_correlation
    >>> partial_correlation(open_release("flights.npz"), ["hour", "distance", "delay"]).columns
    ('hour', 'distance', 'delay')

    Args:
        release: a second moment or a sketch.
        columns: at least three; by default all that vary.
        of: whom the p values are about: the "population" or the "cohort".

    Raises:
        InvalidAnalysisError: the release holds no second moments, or an argument does not fit it.
    """
    moments = centred(release, columns)
    names = [column.name for column in moments.columns]
    if len(names) < 3:
        raise InvalidAnalysisError("a partial correlation needs at least 3 columns that vary")
    scale, precision = _precision(moments.gram.matrix)
    pairs, warnings = [], dict.fromkeys([] if precision is not None else [LOST])
    for place, first in enumerate(names[:-1]):
        fit = regression(release, first, [name for name in names if name != first], of=of)
        warnings |= dict.fromkeys(fit.warnings)
        for other, second in enumerate(names[place + 1 :], place + 1):
            value = None
            if precision is not None:
                value = float(-precision[place, other] / (scale[place] * scale[other]))
            pairs.append(PartialPair(first, second, value, fit.pvalues[second]))
    return PartialCorrelationEstimate(
        columns=tuple(names),
        num_clients=moments.gram.num_clients,
        of=of,
        pairs=tuple(pairs),
        notes=(P_NOTE, *moments.gram.row_notes),
        warnings=tuple(warnings),
    )


def _precision(matrix: FloatArray) -> tuple[FloatArray, FloatArray | None]:
    """Return the roots of the diagonal of the inverse, shape `(d,)`, and the inverse; None if noise leaves none."""
    root: FloatArray = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    if root.min() <= 0 or np.linalg.eigvalsh(matrix / np.outer(root, root))[0] <= _SMALLEST:
        return root, None
    precision: FloatArray = np.asarray(np.linalg.inv(matrix), np.float64)
    return np.sqrt(np.diagonal(precision)), precision
