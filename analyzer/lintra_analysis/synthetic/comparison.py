"""Compares synthetic rows with reference rows of the analyst: columns, correlations, and trained models.

Reference rows are the analyst's own, never those of clients; what is computed from them is not private.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax, softmax

from lintra_analysis.estimators.estimates import Answer
from lintra_analysis.releases.features import ColumnArray, Feature, Label
from lintra_analysis.synthetic.model import GaussianModel
from lintra_analysis.synthetic.rows import SyntheticRows
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import InvalidAnalysisError

Reference = Mapping[str, ColumnArray | Sequence[object]]
"""Columns of reference rows by name: numbers, booleans, or names of levels."""

MIN_REFERENCE = 20
NOT_PRIVATE = "the numbers about reference rows are not private; do not publish them if the rows are anybody's"


@dataclass(frozen=True)
class ColumnComparison:
    """One column of synthetic rows beside the same of the reference."""

    column: str
    measure: str  #: "Kolmogorov-Smirnov" for numbers, "total variation" for booleans and levels
    distance: float  #: from 0 to 1
    chance: float  #: what two samples of these sizes from one law differ by on average, roughly
    outside: float  #: part of the reference values that lie outside the public bounds, which clients would clip
    #: part of the synthetic values that lie on a bound, and of the reference values once clipped
    at_bounds: tuple[float, float]


@dataclass(frozen=True)
class TrainingComparison:
    """A model trained on synthetic rows and one trained on reference rows, both tested on other reference rows."""

    measure: str  #: "accuracy", larger is better, or "root mean squared error", smaller is better
    synthetic: float
    reference: float  #: trained on the other half of the reference
    baseline: float  #: always the commonest class, or the mean


@dataclass(frozen=True, eq=False)
class Comparison(Answer):
    """Synthetic rows beside reference rows."""

    columns: tuple[ColumnComparison, ...]
    names: tuple[str, ...]  #: of the coordinates that `correlations` are between
    #: largest and mean absolute difference of two correlations; None below two coordinates
    correlation_error: tuple[float, float] | None
    training: TrainingComparison | None  #: with a label
    notes: tuple[str, ...]  #: read these too


def compare(model: GaussianModel, rows: SyntheticRows, reference: Reference) -> Comparison:
    """Compare rows in their original columns with reference rows.

    `model` is the one that the rows were drawn from; `rows` are those of `generator.synthesize`. `reference` is all
    columns of the rows, at least 20 values each; every other value is held out for testing. Raises InvalidAnalysisError
    if the rows are projected, or a reference column is missing or holds something else.
    """
    release = model.release
    if rows.space != "columns":
        raise InvalidAnalysisError("rows are compared in their original columns; draw them with space='columns'")
    label = release.label
    features = release.histogram_features
    own = _numbers_of(rows.columns, features, label)
    other = _numbers_of(reference, features, label)
    lengths = {column.size for column in other.values()}
    if len(lengths) != 1 or min(lengths) < MIN_REFERENCE:
        raise InvalidAnalysisError(
            f"reference columns need one length of at least {MIN_REFERENCE}, got {sorted(lengths)}"
        )
    columns = [_column(feature, own[feature.name], other[feature.name]) for feature in features]
    if label is not None and label.levels:
        columns.append(_levels(label.name, len(label.levels), own[label.name], other[label.name]))
    first, names = _coordinates(features, own)
    second, _ = _coordinates(features, other)
    return Comparison(
        columns=tuple(columns),
        names=names,
        correlation_error=_correlation_error(first, second),
        training=_training(release.features, label, own, other),
        notes=(NOT_PRIVATE,),
    )


def _numbers_of(columns: Reference, features: Sequence[Feature], label: Label | None) -> dict[str, FloatArray]:
    """Return every column as numbers: a level as its position, a boolean as 0 or 1."""
    found = {}
    for feature in features:
        found[feature.name] = _numbers(feature.name, feature.levels, columns)
    if label is not None and label.levels:
        found[label.name] = _numbers(label.name, label.levels, columns)
    return found


def _numbers(name: str, levels: tuple[str, ...], columns: Reference) -> FloatArray:
    if name not in columns:
        raise InvalidAnalysisError(f"the reference has no column {name!r}")
    values = np.asarray(columns[name])
    if values.ndim != 1:
        raise InvalidAnalysisError(f"column {name!r}: expected one dimension, got {values.ndim}")
    if levels:
        positions = {level: float(position) for position, level in enumerate(levels)}
        unknown = sorted({str(value) for value in values.tolist()} - set(positions))
        if unknown:
            raise InvalidAnalysisError(f"column {name!r}: {unknown[0]!r} is none of its levels")
        return np.array([positions[str(value)] for value in values.tolist()])
    if values.dtype.kind not in "fiub" or not np.isfinite(values.astype(np.float64)).all():
        raise InvalidAnalysisError(f"column {name!r}: expected finite numbers")
    return values.astype(np.float64)


def _column(feature: Feature, own: FloatArray, other: FloatArray) -> ColumnComparison:
    if feature.kind == "category":
        return _levels(feature.name, len(feature.levels), own, other)
    outside = float(((other < feature.lower) | (other > feature.upper)).mean())
    inside = np.clip(other, feature.lower, feature.upper)
    if feature.kind == "boolean":
        return _levels(feature.name, 2, own, inside, outside)
    grid = np.sort(np.concatenate([own, inside]))
    gaps = np.searchsorted(np.sort(own), grid, "right") / own.size
    gaps -= np.searchsorted(np.sort(inside), grid, "right") / inside.size
    # The mean of the Kolmogorov law is 0.8687.
    chance = 0.8687 * float(np.sqrt(1 / own.size + 1 / inside.size))
    edges = (_at_bounds(feature, own), _at_bounds(feature, inside))
    return ColumnComparison(
        feature.name, "Kolmogorov-Smirnov", float(np.abs(gaps).max()), min(1.0, chance), outside, edges
    )


def _levels(name: str, count: int, own: FloatArray, other: FloatArray, outside: float = 0.0) -> ColumnComparison:
    one, two = (np.bincount(np.rint(part).astype(np.int64), minlength=count) / part.size for part in (own, other))
    distance = float(np.abs(one - two).sum() / 2)
    spread = float(np.sqrt(two * (1 - two) * (1 / own.size + 1 / other.size)).sum() / 2)
    return ColumnComparison(name, "total variation", distance, 0.8 * spread, outside, (0.0, 0.0))


def _at_bounds(feature: Feature, values: FloatArray) -> float:
    return float(((values <= feature.lower) | (values >= feature.upper)).mean())


def _coordinates(features: Sequence[Feature], columns: Mapping[str, FloatArray]) -> tuple[FloatArray, tuple[str, ...]]:
    """Return numbers to correlate or to learn from, shape `(n, coordinates)`: a large category gives one per level."""
    parts: list[FloatArray] = []
    names: list[str] = []
    for feature in features:
        values = columns[feature.name]
        if feature.width > 1:
            parts.extend((values == position).astype(np.float64) for position in range(len(feature.levels)))
            names.extend(f"{feature.name}={level}" for level in feature.levels)
        else:
            parts.append(np.clip(values, feature.lower, max(feature.upper, len(feature.levels) - 1)))
            names.append(feature.name)
    return np.stack(parts, axis=1), tuple(names)


def _correlation_error(first: FloatArray, second: FloatArray) -> tuple[float, float] | None:
    """Return the largest and the mean difference over pairs of coordinates that vary in both tables."""
    varying = (first.std(axis=0) > 0) & (second.std(axis=0) > 0)
    if varying.sum() < 2:
        return None
    gaps = np.abs(np.corrcoef(first[:, varying].T) - np.corrcoef(second[:, varying].T))
    pairs = gaps[np.triu_indices(gaps.shape[0], 1)]
    return float(pairs.max()), float(pairs.mean())


def _training(
    features: Sequence[Feature], label: Label | None, own: Mapping[str, FloatArray], other: Mapping[str, FloatArray]
) -> TrainingComparison | None:
    if label is None:
        return None
    synthetic, _ = _coordinates(features, own)
    reference, _ = _coordinates(features, other)
    train, test = reference[::2], reference[1::2]
    target = other[label.name]
    for feature in label.features:
        target = np.clip(target, feature.lower, feature.upper)
        return TrainingComparison(
            "root mean squared error",
            ridge_error((synthetic, own[label.name]), (test, target[1::2])),
            ridge_error((train, target[::2]), (test, target[1::2])),
            float(np.sqrt(np.mean((target[1::2] - target[::2].mean()) ** 2))),
        )
    classes = {"own": _classes(own[label.name]), "train": _classes(target[::2]), "test": _classes(target[1::2])}
    count = len(label.levels)
    commonest = int(np.argmax(np.bincount(classes["train"], minlength=count)))
    return TrainingComparison(
        "accuracy",
        logistic_accuracy((synthetic, classes["own"]), (test, classes["test"]), count),
        logistic_accuracy((train, classes["train"]), (test, classes["test"]), count),
        float((classes["test"] == commonest).mean()),
    )


def _classes(values: FloatArray) -> IntArray:
    return np.rint(values).astype(np.int64)


PENALTY = 1.0
"""Weight of half the squared coefficients beside the sum of losses over all rows; columns are standardised."""


@dataclass(frozen=True, eq=False)
class Standard:
    """A linear map that gives each column mean 0 and deviation 1; a constant column becomes 0."""

    center: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, rows: FloatArray) -> "Standard":
        """Return the map for rows of shape `(n, d)`."""
        deviation = rows.std(axis=0)
        return cls(rows.mean(axis=0), np.where(deviation > 1e-12, deviation, np.inf))

    def design(self, rows: FloatArray) -> FloatArray:
        """Return standardised rows with a last column of ones, shape `(n, d + 1)`."""
        return np.column_stack([(rows - self.center) / self.scale, np.ones(len(rows))])


def logistic_accuracy(train: tuple[FloatArray, IntArray], test: tuple[FloatArray, IntArray], num_classes: int) -> float:
    """Return the share of test rows whose class a logistic regression on the training rows finds.

    `train` holds rows of shape `(n, d)`, classes of shape `(n,)` below `num_classes`; `num_classes` is K.
    """
    standard = Standard.of(train[0])
    design, targets = standard.design(train[0]), np.eye(num_classes)[train[1]]
    size = design.shape[1]

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        weights = flat.reshape(size, num_classes)
        scores = design @ weights
        penalised = weights[:-1]
        value = -float((targets * log_softmax(scores, axis=1)).sum()) + PENALTY * float((penalised**2).sum()) / 2
        slope = design.T @ (softmax(scores, axis=1) - targets)
        slope[:-1] += PENALTY * penalised
        return value, slope.ravel()

    # Here, because it takes a while to import and whoever starts a service waits for that.
    from scipy.optimize import minimize

    found = minimize(loss, np.zeros(size * num_classes), jac=True, method="L-BFGS-B", options={"maxiter": 200})
    chosen = np.argmax(standard.design(test[0]) @ found.x.reshape(size, num_classes), axis=1)
    return float((chosen == test[1]).mean())


def ridge_error(train: tuple[FloatArray, FloatArray], test: tuple[FloatArray, FloatArray]) -> float:
    """Return the root mean squared error of a ridge regression; rows have shape `(n, d)`, what they explain `(n,)`."""
    standard = Standard.of(train[0])
    design = standard.design(train[0])
    penalty = PENALTY * np.eye(design.shape[1])
    penalty[-1, -1] = 0.0
    weights = np.linalg.solve(design.T @ design + penalty, design.T @ train[1])
    return float(np.sqrt(np.mean((standard.design(test[0]) @ weights - test[1]) ** 2)))
