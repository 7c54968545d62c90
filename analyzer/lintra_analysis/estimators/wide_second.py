"""A regression on very many columns from the second round of a range finder: along its directions, back in columns."""

from dataclasses import dataclass

import numpy as np

from lintra_analysis.estimators.centred import About, Centred, centred
from lintra_analysis.estimators.concentrated.regressions import penalty_beside
from lintra_analysis.estimators.estimates import IntervalEstimate
from lintra_analysis.estimators.wide_estimate import WideRidge
from lintra_analysis.releases.columns import INTERCEPT, scales
from lintra_analysis.releases.directions import Directions
from lintra_analysis.releases.gram_error import HasSecondMoment
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

SECOND_NOTE = (
    "two rounds: the directions are those of the first, the products along them of the second; `regression` of this "
    "release has intervals for the coefficients of directions"
)


@dataclass(frozen=True, eq=False)
class _Line:
    """The regression along directions, in normalised units: slopes of shape `(r,)`, and the share that they explain."""

    slopes: FloatArray
    share: IntervalEstimate | None
    floor: float


def ridge_along(
    release: HasSecondMoment,
    directions: Directions,
    target: str,
    regularization: float,
    about: About,
    notes: tuple[str, ...],
) -> WideRidge:
    """Return the ridge regression of a target on all directions, its coefficients turned back into those of columns.

    Beside the ridge asked for stands that which `regression` takes where coefficients cannot be told: directions of the
    first round that are nothing but noise hold hardly any of the rows' length. `release` is that of the second round;
    `target` is a column that the release holds beside them. `regularization` is lambda, in normalised units. `about` is
    the "means" where the release holds them, or the public "centers" in any case. `notes` are those that every answer
    about columns has. Raises InvalidAnalysisError if the target is no such column.
    """
    held = [column.name for column in release.second_moment().columns]
    known = [name for name in held if name not in {INTERCEPT, *directions.names}]
    if target not in known:
        raise InvalidAnalysisError(
            f"target: the second round holds products with {', '.join(known) or 'no target'}, not with {target!r}; "
            "name it among the targets of the first"
        )
    found = centred(release, [*directions.names, target], about)
    line = _line(found, float(release.second_moment().errors.spectral_sigma or 0.0), regularization)
    own = next(column for column in directions.columns if column.name == target)
    free = [i for i, column in enumerate(directions.columns) if column.name not in known]
    columns = tuple(directions.columns[i] for i in free)
    coefficients = directions.basis[free] @ line.slopes * own.scale / scales(columns)
    middle = own.center + own.scale * float(found.means[-1] - line.slopes @ found.means[:-1])
    warnings = () if line.share else ("the target's own sum of squares is lost in noise, so no explained share",)
    return WideRidge(
        target=target,
        features=tuple(column.name for column in columns),
        num_clients=found.gram.num_rows,
        about_means=found.about_means,
        declared=True,
        components=len(directions.names),
        floor=line.floor,
        intercept=middle - float(coefficients @ np.array([column.center for column in columns])),
        coefficients=coefficients,
        explained_share=line.share,
        notes=(SECOND_NOTE, *notes),
        warnings=warnings,
        scaled_columns=columns,
    )


def _line(found: Centred, sigma: float, regularization: float) -> _Line:
    """Return the ridge regression of the last column on all others, with the deviation of its share by noise alone."""
    matrix, size = found.gram.matrix, len(found.columns) - 1
    floor = penalty_beside(sigma, size)
    values, turn = np.linalg.eigh(matrix[:size, :size])
    products = matrix[:size, size]
    slopes: FloatArray = turn @ (turn.T @ products / (np.maximum(values, 0.0) + regularization + floor))
    whole, last = float(matrix[size, size]), np.append(np.zeros(size), 1.0)
    if whole <= 2 * found.gram.errors.functional_sd(np.outer(last, last)):
        return _Line(slopes, None, floor)
    line = np.append(slopes, 0.0)
    weights = np.outer(line, last) + np.outer(last, line) - np.outer(line, line)
    share = float(np.sum(weights * matrix)) / whole
    error = found.gram.errors.functional_sd(weights - share * np.outer(last, last)) / whole
    return _Line(slopes, IntervalEstimate(share, float(error)), floor)
