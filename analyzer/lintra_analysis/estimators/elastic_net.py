"""Elastic net from second moments: a regression that leaves features out, without intervals."""

from dataclasses import dataclass

import numpy as np

from lintra_analysis.estimators.centred import centred
from lintra_analysis.estimators.notes import clients
from lintra_analysis.estimators.spectral import floor_eigenvalues
from lintra_analysis.estimators.table import Estimate, Table
from lintra_analysis.estimators.tabular import number
from lintra_analysis.releases.columns import scales
from lintra_analysis.releases.gram_error import HasSecondMoment
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

_SWEEPS = 10_000
_CLOSE = 1e-12

NO_INTERVALS = (
    "no intervals: features were chosen by the same numbers that estimate them; ask for a regression on features that "
    "were named before"
)


@dataclass(frozen=True, eq=False, repr=False)
class ElasticNet(Estimate):
    """A regression in which the features that help least have a coefficient of exactly 0, in own units.

    >>> from lintra_analysis import elastic_net, open_release
    >>> elastic_net(open_release("flights.npz"), "delay", alpha=10.0).selected
    ()

    Attributes:
        coef_: the coefficients in the order of `features`, shape `(f,)`.
        selected: the features whose coefficient is not 0.
        r2: the share of the variance that they explain, by the released moments.
    """

    target: str
    features: tuple[str, ...]
    num_clients: int
    alpha: float
    l1_ratio: float
    coef_: FloatArray
    intercept_: float
    r2: float
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        return f"ElasticNet({self.target!r}, {len(self.selected)} of {len(self.features)} features)"

    @property
    def selected(self) -> tuple[str, ...]:
        """The features whose coefficient is not 0."""
        return tuple(name for name, value in zip(self.features, self.coef_, strict=True) if value)

    @property
    def params(self) -> dict[str, float]:
        """The coefficients by name."""
        return dict(zip(self.features, self.coef_.tolist(), strict=True))

    def table(self) -> Table:
        """Return one line for each feature."""
        return Table(
            title=f"Elastic net of {self.target} from a private second moment",
            columns=("name", "coefficient"),
            rows=self.params.items(),
            index=("name",),
            facts=[
                ("Clients", str(self.num_clients)),
                ("alpha", number(self.alpha)),
                ("l1_ratio", number(self.l1_ratio)),
                ("Intercept", number(self.intercept_)),
                ("R2", number(self.r2)),
            ],
            notes=self.notes,
            warnings=self.warnings,
        )

    def in_words(self) -> str:
        """Return which features are left."""
        left = ", ".join(self.selected) or "none"
        return f"Elastic net of {self.target}, {clients(self.num_clients)}. Features that are left: {left}."


def elastic_net(
    release: HasSecondMoment,
    target: str,
    features: list[str] | None = None,
    *,
    alpha: float = 0.1,
    l1_ratio: float = 0.5,
) -> ElasticNet:
    """Return the coefficients w of least |y - X w|^2/(2 n) + alpha (l1_ratio |w|_1 + (1 - l1_ratio) |w|_2^2 / 2).

    Columns are in normalised units there, so that one penalty suits all of them, and about their means where the
    release holds these.

    >>> from lintra_analysis import elastic_net, open_release
    >>> elastic_net(open_release("flights.npz"), "delay", ["hour"], alpha=0.0).features
    ('hour',)

    Args:
        release: a second moment or a sketch.
        target: the column to explain.
        features: the columns that explain it; by default all others that vary.
        alpha: the penalty, 0 or more.
        l1_ratio: the part of it that sets coefficients to 0, from 0 to 1.

    Raises:
        InvalidAnalysisError: the release holds no second moments, or an argument does not fit it.
    """
    if not (np.isfinite(alpha) and alpha >= 0 and 0 <= l1_ratio <= 1):
        raise InvalidAnalysisError("alpha is 0 or more, and l1_ratio lies between 0 and 1")
    moments = centred(release, None if features is None else [*features, target])
    names = [column.name for column in moments.columns]
    if target not in names or len(names) < 2:
        raise InvalidAnalysisError(f"{target!r} is to be explained by other columns of {', '.join(names)}")
    place, size = names.index(target), len(names)
    others = [number for number in range(size) if number != place]
    # Noise may make a variance negative: raised to 0, the problem is convex.
    matrix = floor_eigenvalues(moments.gram.matrix / moments.divisor, 0.0)
    inner, cross = matrix[np.ix_(others, others)], matrix[others, place]
    weights = _descend(inner, cross, alpha * l1_ratio, alpha * (1 - l1_ratio))
    variance = float(matrix[place, place])
    explained = float(2 * weights @ cross - weights @ inner @ weights)
    units = scales(moments.columns)
    own = weights * units[place] / units[others]
    center = moments.means_in_units
    return ElasticNet(
        target=target,
        features=tuple(names[number] for number in others),
        num_clients=moments.gram.num_clients,
        alpha=float(alpha),
        l1_ratio=float(l1_ratio),
        coef_=own,
        intercept_=float(center[place] - own @ center[others]),
        r2=explained / variance if variance > 0 else 0.0,
        notes=(NO_INTERVALS, *moments.gram.row_notes),
        warnings=(),
    )


def _descend(inner: FloatArray, cross: FloatArray, lasso: float, ridge: float) -> FloatArray:
    """Return the coefficients of an elastic net by cyclic coordinate descent (Friedman et al. 2010), shape `(f,)`."""
    weights, diagonal = np.zeros(len(cross)), np.diagonal(inner) + ridge
    for _ in range(_SWEEPS):
        moved = 0.0
        for place in range(len(cross)):
            if diagonal[place] <= 0:
                continue
            pull = float(cross[place] - inner[place] @ weights + inner[place, place] * weights[place])
            new = np.sign(pull) * max(abs(pull) - lasso, 0.0) / diagonal[place]
            moved = max(moved, abs(new - weights[place]))
            weights[place] = new
        if moved < _CLOSE:
            break
    return weights
