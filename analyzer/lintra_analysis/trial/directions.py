"""Compares the directions of a range finder with the collected rows along them without noise.

Very many columns have no coefficients that could be told. The comparison is about directions instead, the variance that
they hold, and how well a ridge regression along them predicts.
"""

from dataclasses import asdict, dataclass, replace

import numpy as np

from lintra_analysis.estimators.estimates import IntervalEstimate
from lintra_analysis.estimators.wide import wide_components, wide_ridge
from lintra_analysis.trial.coefficients import least_squares, r2_of
from lintra_analysis.trial.collection import Collected
from lintra_analysis.trial.selection import EncodedRows
from lintra_analysis.trial.what_if import DirectionProspect, elsewhere
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError


@dataclass(frozen=True)
class TriedDirection:
    """One direction: its variance as it was released, and that of the collected rows along it without noise."""

    private: float
    without_noise: float


@dataclass(frozen=True)
class TriedPredictions:
    """R2 of private predictions of the table's own rows, and of least squares without noise."""

    private: float | None  #: None without directions
    components: float | None  #: on as many best directions of the collected rows; None without directions
    non_private: float | None  #: on all columns of the table; None where rows are too few for that


@dataclass(frozen=True, repr=False)
class DirectionComparison:
    """The directions that stand out of the noise beside those of the rows without it."""

    columns: int  #: numbers of an encoded row, the target among them
    words: int
    directions: tuple[TriedDirection, ...]  #: the largest first
    #: of the variance that so many best directions of the collected rows hold, what these hold; None without
    share: float | None
    #: the share of the target's sum of squares that the release says is explained; None if it does not
    explained: IntervalEstimate | None
    r2: TriedPredictions
    prospects: tuple[DirectionProspect, ...]  #: what other cohorts and other epsilons would give
    warnings: tuple[str, ...]

    def document(self) -> dict[str, object]:
        """Return them as JSON holds them."""
        told = self.explained
        return {
            "columns": self.columns,
            "words": self.words,
            "directions": [asdict(one) for one in self.directions],
            "share_of_best_directions": self.share,
            "explained": None if told is None else {"share": told.value, "standard_error": told.standard_error},
            "r2": asdict(self.r2),
            "warnings": list(self.warnings),
            "prospects": [asdict(one) for one in self.prospects],
        }


def directions_of(collected: Collected, rows: EncodedRows) -> DirectionComparison:
    """Compare the directions of a release, and predictions along them, with those of the rows themselves."""
    release, size = collected.release, rows.own.shape[1]
    centred = rows.collected - rows.collected.mean(axis=0)
    variances, _ = _largest(centred)
    r2 = least_squares(rows, rows.own, rows.names[:-1])[1] if len(rows.own) > size else None
    found = DirectionComparison(
        columns=size,
        words=collected.task.num_words,
        directions=(),
        share=None,
        explained=None,
        r2=TriedPredictions(None, None, r2),
        prospects=_prospects(variances * len(centred), collected),
        warnings=(),
    )
    try:
        components, ridge = wide_components(release), wide_ridge(release, rows.names[-1])
    except InvalidAnalysisError:
        return found
    along = np.square(centred @ components.components.T).mean(axis=0)
    values, outcome = rows.in_units(rows.own), rows.own[:, -1]
    # Of the same number of directions, found without noise and without the target itself.
    axes = _largest(centred[:, :-1])[1][:, : along.size]
    scores = np.column_stack([np.ones(len(centred)), centred[:, :-1] @ axes])
    fitted = scores @ np.linalg.lstsq(scores, outcome, rcond=None)[0]
    pairs = zip(components.explained_variance, along.tolist(), strict=True)
    return replace(
        found,
        directions=tuple(TriedDirection(one.value, own) for one, own in pairs),
        share=float(along.sum() / variances[: along.size].sum()),
        explained=ridge.explained_share,
        r2=TriedPredictions(r2_of(values[:, -1], ridge.predict(values[:, :-1])), r2_of(outcome, fitted), r2),
        warnings=ridge.warnings,
    )


def _largest(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the variances of centred rows along their own axes, largest first, and these axes, shape `(d, d)`."""
    values, axes = np.linalg.eigh(rows.T @ rows)
    return np.maximum(values[::-1], 0.0) / len(rows), axes[:, ::-1]


def _prospects(squares: FloatArray, collected: Collected) -> tuple[DirectionProspect, ...]:
    """Count the table's directions whose sum of squares would exceed the noise's s_E sqrt(d)."""
    held, claim = collected.release.need("range_sums"), collected.task.claim
    edge, most = held.noise_sd * np.sqrt(len(held.columns)), held.rank // 2
    return tuple(
        DirectionProspect(epsilon, held.num_clients * times, min(int((squares * times > edge * louder).sum()), most))
        for times, epsilon, louder in elsewhere(claim.float_epsilon, claim.float_delta)
    )
