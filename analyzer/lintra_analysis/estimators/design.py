"""Selects the columns of a regression: target, features, and the constant column of its intercept."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lintra_analysis.estimators.coefficients import unit_map
from lintra_analysis.releases.columns import INTERCEPT as INTERCEPT
from lintra_analysis.releases.columns import MAGNITUDE, ScaledColumn, listed_names, positions
from lintra_analysis.releases.gram_error import GramEstimate, HasSecondMoment
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

TILDE = "~"
"""What makes a target a formula, unless a column is called so."""


@dataclass(frozen=True, eq=False)
class Design:
    """A regression's block of a release.

    Attributes:
        gram: of the constant column if there is one, then the features, then the target.
        features: the columns that explain, without the constant.
        target: the column to explain.
        constant: the column that is the same for everybody; its coefficient is the intercept.
        release_columns: how many columns the whole release has.
        turn: S, shape `(f, f)`, where the release has turned features; None elsewhere. `gram` is then that of S z for
            the features z, with noise that is alike in all directions, and its slopes times S are those of z.
    """

    gram: GramEstimate
    features: tuple[ScaledColumn, ...]
    target: ScaledColumn
    constant: ScaledColumn | None
    release_columns: int
    turn: FloatArray | None = None

    @property
    def to_units(self) -> FloatArray:
        """The map from coefficients of `gram` to those in units, as `unit_map` has it, shape `(f + 1, p)`."""
        units = unit_map(self.gram.columns[:-1], self.target)
        if self.turn is None:
            return units
        slopes = slice(self.fitted - len(self.features), None)
        units[:, slopes] = units[:, slopes] @ self.turn
        return units

    def of_features(self, directions: FloatArray) -> FloatArray:
        """Return directions of `gram`, columns of shape `(p, k)`, as directions of its named columns."""
        if self.turn is None:
            return directions
        start = self.fitted - len(self.features)
        return np.vstack([directions[:start], self.turn @ directions[start : self.fitted]])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""
        return tuple(column.name for column in self.features)

    @property
    def fitted(self) -> int:
        """How many coefficients are fitted, the intercept included."""
        return len(self.gram.columns) - 1

    def penalty(self, regularization: float) -> FloatArray:
        """Return what is added to the diagonal of the Gram matrix, shape `(p,)`; an intercept is never shrunk."""
        return np.array([0.0 if column is self.constant else regularization for column in self.gram.columns[:-1]])


def design(
    release: HasSecondMoment, target: str, features: Sequence[str] | None = None, intercept: bool | None = None
) -> Design:
    """Choose the columns of a regression.

    `release` is a sketch or a second moment. `target` is the column to explain, or a formula such as `y ~ a + C(sex)`.
    `features` are the columns that explain it; all others by default. A formula names them itself. `intercept` says
    whether to fit one; by default if the release holds a constant column. A formula says it itself.

    Raises:
        InvalidAnalysisError: the release holds no second moments, or an argument does not fit it.
    """
    gram = release.second_moment()
    if TILDE in target and all(column.name != target for column in gram.columns):
        target, features, intercept = _from_formula(target, gram, features, intercept)
    chosen = gram.columns[int(positions(gram.columns, [target])[0])]
    if chosen.constant:
        raise InvalidAnalysisError(f"the target {target!r} is the same for everybody, so nothing is left to explain")
    constants = [column for column in gram.columns if column.constant]
    if intercept and not constants:
        raise InvalidAnalysisError(
            "this release holds no constant column, so no intercept can be fitted; without one the fit goes "
            "through the public centers"
        )
    constant = constants[0] if constants and intercept is not False else None
    if features is None:
        features = [column.name for column in gram.columns if column is not chosen and column not in constants]
    features = listed_names(features)
    if not features:
        raise InvalidAnalysisError(f"there is no column besides the target {target!r} to explain it with")
    explaining = tuple(gram.columns[i] for i in positions(gram.columns, features))
    if chosen in explaining:
        raise InvalidAnalysisError(f"the target {target!r} cannot be one of its own features")
    if useless := [column.name for column in explaining if column in constants]:
        raise InvalidAnalysisError(
            f"{', '.join(map(repr, useless))} is the same for everybody, so it explains nothing; it is the intercept, "
            "which is fitted unless it is refused"
        )
    names = [column.name for column in ((constant,) if constant else ()) + explaining]
    if gram.num_rows <= len(names):
        raise InvalidAnalysisError(_too_few(gram, len(names)))
    block, turn = _straight(gram.restrict([*names, target]), len(names) - len(features))
    return Design(block, explaining, chosen, constant, len(gram.columns), turn)


def _too_few(gram: GramEstimate, needed: int) -> str:
    """Return why so many columns cannot be fitted: too few clients, or a count of rows that noise made small."""
    if gram.counted is None or gram.num_clients <= needed:
        return f"{needed} features need more than {gram.num_rows} clients; name fewer features"
    return (
        f"rows are counted with noise here, and the count is {gram.counted.estimate:.0f} (deviation "
        f"{gram.counted.sd:.2g}) of {gram.num_clients} reports: too few for {needed} features. At this epsilon and "
        "number of clients the noise hides how many rows there are; a larger epsilon or more clients are needed"
    )


def _straight(gram: GramEstimate, start: int) -> tuple[GramEstimate, FloatArray | None]:
    """Return a regression's block of a release with noise that is alike in all directions, and `Design.turn`.

    `start` is 1 with a constant column, else 0. B = Q S for the block's B (turned_error.py), and Q^T M Q has the law of
    M's noise, which looks the same in every orthonormal basis (docs/proofs/moments.md#turned-features).
    """
    if (straightened := gram.errors.straightened()) is None:
        return gram, None
    inverse: FloatArray = np.asarray(np.linalg.inv(straightened[0]), np.float64)
    matrix = inverse.T @ gram.matrix @ inverse
    straight = replace(gram, matrix=(matrix + matrix.T) / 2, errors=straightened[1])
    return straight, inverse[start:-1, start:-1]


def _from_formula(
    formula: str, gram: GramEstimate, features: Sequence[str] | None, intercept: bool | None
) -> tuple[str, tuple[str, ...], bool]:
    """Return the target, the features and whether there is an intercept, as a formula says.

    A line without an intercept goes through the public centers here, through the origin in a formula. So a formula
    without one is answered only where the two are the same.
    """
    # Loaded only where somebody writes one.
    from lintra_analysis.estimators.formula import read_formula

    if features is not None or intercept is not None:
        raise InvalidAnalysisError(
            "a formula names its features and its intercept itself: leave out `features` and `intercept`, and write "
            "'y ~ 0 + a' for a line without intercept"
        )
    read = read_formula(formula, gram.columns)
    by_list = f"target={read.target!r}, features={list(read.features)!r}"
    if read.intercept and not any(column.constant for column in gram.columns):
        raise InvalidAnalysisError(
            "this release holds no constant column, so the intercept of the formula cannot be fitted; a line through "
            f"the public centers is had by name: {by_list}"
        )
    named = {read.target, *read.features}
    if not read.intercept and any(column.center for column in gram.columns if column.name in named):
        raise InvalidAnalysisError(
            "a formula without intercept is a line through the origin, and these columns have other public centers; "
            f"a line through the centers is had by name: {by_list}, intercept=False"
        )
    return read.target, read.features, read.intercept


def check_regularization(regularization: float) -> None:
    """Refuse a lambda that is none.

    Raises:
        InvalidAnalysisError: it is negative or not finite, or so large that no error could be computed.
    """
    if not (math.isfinite(regularization) and regularization >= 0):
        raise InvalidAnalysisError(f"regularization must be finite and at least 0, got {regularization}")
    if regularization > MAGNITUDE:
        raise InvalidAnalysisError(f"regularization must be at most {MAGNITUDE:g}, got {regularization}")
