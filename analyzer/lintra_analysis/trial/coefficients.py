"""Compares the coefficients of a release with those of the rows without noise, and of the table itself."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from lintra_analysis.estimators.estimates import Interval
from lintra_analysis.estimators.regression import regression
from lintra_analysis.estimators.regression_estimate import RegressionEstimate
from lintra_analysis.releases.columns import INTERCEPT
from lintra_analysis.trial.choice import FewColumns, chosen_few
from lintra_analysis.trial.collection import Collected
from lintra_analysis.trial.draws import CONFIDENCE, Draws
from lintra_analysis.trial.selection import EncodedRows
from lintra_analysis.trial.verdict import OwnRows, SimulatedCollections, judge
from lintra_analysis.trial.what_if import TELLS
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.fields.schema import Column, Schema

DEPENDS = 1e-6
"""A feature takes part in a dependence of features of length 1 if its weight there is larger than this."""


@dataclass(frozen=True)
class TriedCoefficient:
    """One coefficient in the columns' own units.

    Attributes:
        name: of the feature, or "(intercept)".
        own: of the table itself, by ordinary least squares; None where its rows do not determine it.
        weighted: that the collection estimates: of the rows as they are collected, without noise; None likewise.
        private: the point of the one release that was made, an example.
        interval: its 95 % interval, for `weighted`; None where nothing bounds it.
    """

    name: str
    own: float | None
    weighted: float | None
    private: float
    interval: Interval | None


@dataclass(frozen=True)
class TriedR2:
    """R2 of the example, None where it cannot be told, with its 95 % interval; of the collected rows; of the table."""

    private: float | None
    interval: Interval
    weighted: float
    own: float


@dataclass(frozen=True, repr=False)
class RegressionComparison:
    """The regression of the last column on all others: what a collection would tell of the table's own.

    Attributes:
        dependent: features that depend on each other exactly in the table itself, so that nothing tells them apart.
        absent: features that are the same in every row, such as a level that nobody has; none is asked about.
        drowned: features whose squares about the mean are less than 5 deviations of the noise, such as rare levels.
        drowned_columns: the columns that these come from.
        coefficients: of the table, of its collection without noise, and of one example.
        estimate: that example.
        judgement: over many draws of the noise.
        choice: few columns that predict better than all; None if there are none.
    """

    dependent: tuple[str, ...]
    absent: tuple[str, ...]
    r2: TriedR2
    drowned: tuple[str, ...]
    drowned_columns: tuple[str, ...]
    coefficients: tuple[TriedCoefficient, ...]
    estimate: RegressionEstimate
    judgement: SimulatedCollections
    choice: FewColumns | None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what the private regression warns of."""
        return tuple(self.estimate.warnings)

    def document(self) -> dict[str, object]:
        """Return them as JSON holds them."""
        return {
            "dependent_features": list(self.dependent),
            "absent_features": list(self.absent),
            "features_drowned_by_noise": list(self.drowned),
            "r2": asdict(self.r2),
            "coefficients": [asdict(each) for each in self.coefficients],
            "warnings": list(self.estimate.warnings),
            "judgement": asdict(self.judgement),
            "choice": None if self.choice is None else asdict(self.choice),
        }


def coefficients_of(
    collected: Collected, rows: EncodedRows, columns: Sequence[Column], num_rows: int, draws: int | None = None
) -> RegressionComparison:
    """Regress the last column on all others that vary, privately and not.

    `columns` are those of the table. `num_rows` counts incomplete rows as well. `draws` is how many releases are
    simulated; as many as is usual for so many columns, if not given.

    Raises:
        InvalidAnalysisError: no feature varies, or there are as many as rows.
    """
    names, spread = rows.names[:-1], np.ptp(rows.own[:, :-1], axis=0)
    features = [name for name, width in zip(names, spread.tolist(), strict=True) if width > 0]
    if not features:
        raise InvalidAnalysisError(
            "every column beside the target is the same in all rows, so that nothing explains it"
        )
    estimate = regression(collected.release, rows.names[-1], features, of="cohort", confidence=CONFIDENCE)
    own, own_r2 = least_squares(rows, rows.own, features)
    weighted, weighted_r2 = least_squares(rows, rows.collected, features, rows.roots)
    assert collected.exact is not None
    drawn = Draws.of(collected.exact.second_moment(), rows.names[-1], features, draws)
    units = rows.in_units(rows.own)[:, [*rows.places(features), len(names)]]
    beside = OwnRows.of(units, drawn.design.gram.columns, own_slopes=bool(own))
    claim = collected.task.claim
    judgement = judge(drawn, beside, num_rows, claim.float_epsilon, claim.float_delta)
    choice, drowned = None, drawn.drowned(TELLS)
    if judgement.verdict != "good":
        choice = chosen_few(drawn, beside, [column_of(name, columns) for name in features], judgement.r2)
    return RegressionComparison(
        dependent=dependent_features(rows, features),
        drowned=drowned,
        drowned_columns=tuple(dict.fromkeys(column_of(name, columns) for name in drowned)),
        absent=tuple(name for name in names if name not in features),
        r2=TriedR2(estimate.r2, estimate.r2_interval or (0.0, 1.0), weighted_r2, own_r2),
        coefficients=tuple(
            TriedCoefficient(each.name, own.get(each.name), weighted.get(each.name), each.value, each.interval)
            for each in estimate.rows
        ),
        estimate=estimate,
        judgement=judgement,
        choice=choice,
    )


def column_of(feature: str, columns: Sequence[Column]) -> str:
    """Return the name of the column that a feature comes from, itself or as an indicator of a level."""
    for column in columns:
        if any(part.name == feature for part in Schema((column,), indicators=True).encoded):
            return column.name
    return feature


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
