"""Compares the coefficients of a release with those of the rows without noise, and of the table itself."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from lintra_analysis.estimators.estimates import Interval
from lintra_analysis.estimators.regression import regression
from lintra_analysis.estimators.regression_estimate import RegressionEstimate
from lintra_analysis.releases.columns import INTERCEPT
from lintra_analysis.releases.release import Release
from lintra_analysis.trial.collection import Collected
from lintra_analysis.trial.selection import EncodedRows
from lintra_analysis.trial.what_if import EPSILONS, TELLS, Prospect, outlook
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

CONFIDENCE = 0.95
DEPENDS = 1e-6
"""A feature takes part in a dependence of features of length 1 if its weight there is larger than this."""


@dataclass(frozen=True)
class PenalisedCoefficient:
    """A coefficient under a penalty that was fixed beforehand, and its 95 % interval."""

    private: float
    interval: Interval | None


@dataclass(frozen=True)
class TriedCoefficient:
    """One coefficient, private and not, in the columns' own units.

    Attributes:
        name: of the feature, or "(intercept)".
        interval: 95 %, for the coefficient of the rows that were collected; None where nothing bounds it.
        penalised: None where something bounds it.
        clipped: of the rows as they were collected, that is after bounds moved them, without noise; the interval is
            about this. None where the rows do not determine it.
        non_private: of the table itself, with nothing clipped; None where it does not determine it.
    """

    name: str
    private: float
    interval: Interval | None
    penalised: PenalisedCoefficient | None
    clipped: float | None
    non_private: float | None


@dataclass(frozen=True)
class TriedR2:
    """R2 of the release, None where it cannot be told, with its 95 % interval; of the collected rows; of the table."""

    private: float | None
    interval: Interval
    clipped: float
    non_private: float


@dataclass(frozen=True, repr=False)
class RegressionComparison:
    """The private regression of the last column on the others beside those without noise.

    Attributes:
        dependent: features that depend on each other exactly in the table itself, so that nothing tells them apart.
        unseen: features whose own squares the noise drowns, such as rare levels; no regression is asked about them.
        prospects: what other cohorts and other epsilons would give.
    """

    dependent: tuple[str, ...]
    unseen: tuple[str, ...]
    r2: TriedR2
    coefficients: tuple[TriedCoefficient, ...]
    estimate: RegressionEstimate
    prospects: tuple[Prospect, ...]

    @property
    def here(self) -> Prospect:
        """Return the prospect of this very table at this epsilon."""
        return self.prospects[EPSILONS.index(1.0)]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what the private regression warns of."""
        return tuple(self.estimate.warnings)

    def document(self) -> dict[str, object]:
        """Return them as JSON holds them."""
        return {
            "dependent_features": list(self.dependent),
            "features_drowned_by_noise": list(self.unseen),
            "r2": asdict(self.r2),
            "coefficients": [asdict(each) for each in self.coefficients],
            "warnings": list(self.estimate.warnings),
            "prospects": [asdict(each) | {"coefficients": each.verdict} for each in self.prospects],
        }


def coefficients_of(collected: Collected, rows: EncodedRows, constant: float, num_rows: int) -> RegressionComparison:
    """Regress the last column on the others, privately and not; `constant` is the task's intercept.

    `num_rows` counts incomplete rows as well.
    """
    estimate, unseen = private_regression(collected)
    features = [each.name for each in estimate.rows if each.name != INTERCEPT]
    own, own_r2 = least_squares(rows, rows.own, features)
    clipped, clipped_r2 = least_squares(rows, rows.collected, features, rows.roots)
    told = estimate.penalised
    shrunk = (*told.coefficients, told.intercept) if told else ()
    penalised = {each.name: PenalisedCoefficient(each.value, each.interval) for each in shrunk}
    return RegressionComparison(
        dependent=dependent_features(rows, features),
        unseen=unseen,
        r2=TriedR2(estimate.r2, estimate.r2_interval or (0.0, 1.0), clipped_r2, own_r2),
        coefficients=tuple(
            TriedCoefficient(
                name=each.name,
                private=each.value,
                interval=each.interval,
                penalised=penalised.get(each.name),
                clipped=clipped.get(each.name),
                non_private=own.get(each.name),
            )
            for each in estimate.rows
        ),
        estimate=estimate,
        prospects=_prospects(rows.collected[:, rows.places(features)], rows.roots, constant, collected, num_rows),
    )


def private_regression(collected: Collected) -> tuple[RegressionEstimate, tuple[str, ...]]:
    """Regress the last column on the features that can be told; return also those that noise drowns.

    A feature is drowned if its released squares are less than `TELLS` deviations. The choice reads the release only, so
    it costs no privacy, and a real collection can do the same. With a feature that is zero for nearly everybody no
    coefficient at all could be told, since the others may be traded against it. The intervals are for the rows that
    were collected, which is what the table's own coefficients are about.

    Raises:
        InvalidAnalysisError: no feature is left.
    """
    release: Release = collected.release
    moment, target = release.second_moment(), collected.task.columns[-1].name
    squares = dict(zip([column.name for column in moment.columns], np.diagonal(moment.matrix), strict=True))
    features = [name for name in squares if name not in {target, INTERCEPT}]
    unseen = tuple(name for name in features if squares[name] < TELLS * collected.noise)
    seen = [name for name in features if name not in unseen]
    if not seen:
        raise InvalidAnalysisError("the noise drowns every feature; a larger epsilon or more rows are needed")
    return regression(release, target, seen, of="cohort", confidence=CONFIDENCE), unseen


def least_squares(
    rows: EncodedRows, block: FloatArray, features: Sequence[str], roots: FloatArray | None = None
) -> tuple[dict[str, float], float]:
    """Return least squares of the last column on features without privacy: coefficients by name, and R2.

    A coefficient that the rows do not determine, because features depend on each other exactly, is left out. `block`
    holds normalised rows, shape `(n, k)`, and `roots` the roots of their weights, shape `(n,)`, if they have any.
    """
    places = rows.places(features)
    roots = np.ones(len(block)) if roots is None else roots
    outcome = block[:, -1]
    design = np.column_stack([np.ones(len(block)), block[:, places]])
    solution, _, rank, _ = np.linalg.lstsq(design * roots[:, np.newaxis], outcome * roots, rcond=None)
    r2 = r2_of(outcome, design @ solution, np.square(roots))
    if rank < design.shape[1]:
        return {}, r2
    slopes = solution[1:] * rows.scale[-1] / rows.scale[places]
    intercept = rows.center[-1] + rows.scale[-1] * solution[0] - float(slopes @ rows.center[places])
    names = [rows.names[place] for place in places]
    return dict(zip([*names, INTERCEPT], [*map(float, slopes), intercept], strict=True)), r2


def r2_of_coefficients(coefficients: Mapping[str, float], rows: EncodedRows) -> float | None:
    """Return R2 of predictions of the last column of all rows; None without coefficients. It may be below 0.

    `coefficients` are by name, in the columns' units, the intercept included.
    """
    if INTERCEPT not in coefficients:
        return None
    values = rows.in_units(rows.own)
    slopes = np.array([coefficients.get(name, 0.0) for name in rows.names[:-1]])
    found = r2_of(values[:, -1], coefficients[INTERCEPT] + values[:, :-1] @ slopes)
    return found if np.isfinite(found) else None


def r2_of(outcome: FloatArray, predicted: FloatArray, weights: FloatArray | None = None) -> float:
    """Return R2 of predictions, all of shape `(n,)`; 0 for an outcome that does not vary."""
    middle = np.average(outcome, weights=weights)
    spread = float(np.average(np.square(outcome - middle), weights=weights))
    return 1 - float(np.average(np.square(outcome - predicted), weights=weights)) / spread if spread > 0 else 0.0


def dependent_features(rows: EncodedRows, features: Sequence[str]) -> tuple[str, ...]:
    """Return the features that take part in exact linear dependences of the rows, with the constant or without."""
    places = rows.places(features)
    centred = rows.own[:, places] - rows.own[:, places].mean(axis=0)
    length = np.linalg.norm(centred, axis=0)
    unit = np.divide(centred, length, out=np.zeros_like(centred), where=length > 0)
    _, values, directions = np.linalg.svd(unit, full_matrices=False)
    lost = directions[values <= values[0] * max(centred.shape) * np.finfo(np.float64).eps]
    part = np.abs(lost).max(axis=0, initial=0.0) > DEPENDS
    return tuple(rows.names[place] for place, own in zip(places, part.tolist(), strict=True) if own)


def _prospects(
    features: FloatArray, roots: FloatArray, constant: float, collected: Collected, num_rows: int
) -> tuple[Prospect, ...]:
    """Return the strength of coefficients for other cohorts of such rows and other epsilons."""
    design = np.column_stack([np.full(len(features), constant), features]) * roots[:, np.newaxis]
    smallest = float(np.linalg.eigvalsh(design.T @ design)[0])
    claim = collected.task.claim
    return outlook(smallest, collected.noise, num_rows, claim.float_epsilon, claim.float_delta)
