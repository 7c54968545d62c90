"""A private regression of one's own table beside the one without privacy, and what other numbers would give.

The bounds, scales and the norm bound follow from the table by the rule of `files.bounds`, stated beforehand; nothing is
chosen by its result. A trial is not private: it shows the table's own numbers beside the private ones.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lintra_analysis.estimators.estimates import Interval
from lintra_analysis.estimators.regression import regression
from lintra_analysis.estimators.regression_estimate import RegressionEstimate
from lintra_analysis.releases.columns import INTERCEPT
from lintra_analysis.trial.collection import Collected, collect
from lintra_analysis.trial.files.bounds import Bounds, bounds_of, clipped_share
from lintra_analysis.trial.files.schema import column_documents
from lintra_analysis.trial.files.table import FileTable
from lintra_analysis.trial.selection import chosen_columns, complete_rows, encoded
from lintra_analysis.trial.what_if import TELLS, Prospect, outlook
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.documents import fraction, real
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.fields.schema import Schema

CONFIDENCE = 0.95
DEPENDS = 1e-6
"""A feature takes part in a dependence of features of length 1 if its weight there is larger than this."""


@dataclass(frozen=True)
class TriedCoefficient:
    """One coefficient, private and not, in the columns' own units.

    Attributes:
        name: of the feature, or "(intercept)".
        private: from the release.
        interval: 95 %, for the coefficient of the rows that were collected; None where nothing bounds it.
        penalised: where nothing bounds it: under a penalty that was fixed beforehand, and the interval of that.
        clipped: of the rows as they were collected, that is after bounds moved them, without noise; the interval is
            about this. None where the rows do not determine it.
        non_private: of the table itself, with nothing clipped; None where it does not determine it.
    """

    name: str
    private: float
    interval: Interval | None
    penalised: tuple[float, Interval | None] | None
    clipped: float | None
    non_private: float | None


@dataclass(frozen=True, repr=False)
class Trial:
    """What a trial found.

    Attributes:
        specification: of a task that would collect such rows; its bounds come from this table.
        target: the column that was explained.
        rows: collected, each as one client's report.
        incomplete: of these, rows in which a number is missing. They were sent as the null row, take part in nothing,
            and make the number of rows a number with noise.
        left_out: columns that cannot be collected, and why.
        dependent: features that depend on each other exactly in the table itself, so that nothing tells them apart.
        unseen: features whose own squares the noise drowns, such as rare levels; no regression is asked about them.
        clipped_share: of the rows, that a bound changed.
        epsilon: of the release, as its certificate would state it.
        r2: private; None where it cannot be told.
        r2_interval: 95 %.
        r2_clipped: of the rows as they were collected, without noise.
        coefficients: the features' and the intercept's.
        estimate: the private regression with all that it knows.
        prospects: what other cohorts and other epsilons would give.
        seconds: that it took.
    """

    specification: dict[str, object]
    target: str
    rows: int
    incomplete: int
    left_out: dict[str, str]
    dependent: tuple[str, ...]
    unseen: tuple[str, ...]
    clipped_share: float
    epsilon: float
    r2: float | None
    r2_interval: Interval
    r2_clipped: float
    r2_non_private: float
    coefficients: tuple[TriedCoefficient, ...]
    estimate: RegressionEstimate
    prospects: tuple[Prospect, ...]
    seconds: float

    def __repr__(self) -> str:
        return f"Trial({self.target!r}, {self.rows} rows)"

    @property
    def here(self) -> Prospect:
        """Return the prospect of this very table at this epsilon."""
        return next(each for each in self.prospects if each.num_clients == self.rows and each.epsilon == self._asked)

    @property
    def _asked(self) -> float:
        return float(str(self.specification["epsilon"]))

    def document(self) -> dict[str, object]:
        """Return the trial as JSON holds it."""
        return {
            "specification": self.specification,
            "target": self.target,
            "rows": self.rows,
            "incomplete_rows": self.incomplete,
            "left_out": self.left_out,
            "dependent_features": list(self.dependent),
            "features_drowned_by_noise": list(self.unseen),
            "clipped_share": self.clipped_share,
            "epsilon": self.epsilon,
            "r2": {
                "private": self.r2,
                "interval": list(self.r2_interval),
                "clipped": self.r2_clipped,
                "non_private": self.r2_non_private,
            },
            "coefficients": [
                {
                    "name": each.name,
                    "private": each.private,
                    "interval": None if each.interval is None else list(each.interval),
                    "penalised": None
                    if each.penalised is None
                    else {"private": each.penalised[0], "interval": each.penalised[1]},
                    "clipped": each.clipped,
                    "non_private": each.non_private,
                }
                for each in self.coefficients
            ],
            "warnings": list(self.estimate.warnings),
            "prospects": [
                {
                    "epsilon": each.epsilon,
                    "num_clients": each.num_clients,
                    "strength": each.strength,
                    "coefficients": each.verdict,
                }
                for each in self.prospects
            ],
            "seconds": self.seconds,
        }


def try_table(
    table: FileTable,
    target: str,
    epsilon: float,
    delta: float | None,
    now: int,
    random_bytes: RandomBytes,
    said: Callable[[str], None] = lambda _: None,
) -> Trial:
    """Collect a table privately, regress one column on the others, and compare with the table itself.

    `target` is a column of numbers, or of zeros and ones. `delta` is promised; the usual one for so many rows if not
    given. `said` is told in words how far the trial is.
    """
    started = time.perf_counter()
    chosen = chosen_columns(table, target)
    rows, _ = complete_rows(chosen)
    bounds = bounds_of(chosen)
    specification = specification_of(chosen, bounds, chosen.num_rows, epsilon, delta)
    collected = collect(specification, chosen.block(), now, random_bytes, said)
    said("estimating, with and without privacy")
    share = clipped_share(bounds.columns, float(fraction(bounds.row_bound)), rows)
    as_collected = AsCollected(encoded(bounds, rows, clip=True), share)
    return compared(chosen, bounds, as_collected, specification, collected, started)


@dataclass(frozen=True, repr=False)
class AsCollected:
    """The complete rows of a table as they were collected: encoded and clipped, shape `(n, k)`; and how many changed.

    `changed` is the part of them that a bound changed.
    """

    block: FloatArray
    changed: float


def compared(
    chosen: FileTable,
    bounds: Bounds,
    as_collected: AsCollected,
    specification: dict[str, object],
    collected: Collected,
    started: float,
) -> Trial:
    """Regress the last column on the others, privately and not, and say what other numbers would give.

    `chosen` is the columns that were collected, the target last; `started` is by `time.perf_counter`.
    """
    rows, incomplete = complete_rows(chosen)
    target = chosen.columns[-1].name
    # The intervals are for the rows that were collected, which is what the table's own coefficients are about.
    seen, unseen = told_apart_from_noise(collected, target)
    estimate = regression(collected.release, target, seen, of="cohort", confidence=CONFIDENCE)
    schema = Schema(bounds.columns, indicators=True)
    own, own_r2 = ordinary(schema, encoded(bounds, rows, clip=False), seen)
    shrunk, shrunk_r2 = ordinary(schema, as_collected.block, seen)
    return Trial(
        specification=specification,
        target=target,
        rows=chosen.num_rows,
        incomplete=incomplete,
        left_out=chosen.left_out,
        dependent=dependent_features(schema, encoded(bounds, rows, clip=False), seen),
        unseen=unseen,
        clipped_share=as_collected.changed,
        epsilon=collected.privacy.epsilon,
        r2=estimate.r2,
        r2_interval=estimate.r2_interval or (0.0, 1.0),
        r2_clipped=shrunk_r2,
        r2_non_private=own_r2,
        coefficients=_tried(estimate, shrunk, own),
        estimate=estimate,
        prospects=prospects(bounds, as_collected.block, seen, collected, chosen.num_rows),
        seconds=time.perf_counter() - started,
    )


def _tried(
    estimate: RegressionEstimate, clipped: dict[str, float], own: dict[str, float]
) -> tuple[TriedCoefficient, ...]:
    """Return each coefficient beside those of the collected rows without noise, and of the table itself, by name."""
    told = estimate.penalised
    penalised = (
        {each.name: (each.value, each.interval) for each in (*told.coefficients, told.intercept)} if told else {}
    )
    return tuple(
        TriedCoefficient(
            name=each.name,
            private=each.value,
            interval=each.interval,
            penalised=penalised.get(each.name),
            clipped=clipped.get(each.name),
            non_private=own.get(each.name),
        )
        for each in estimate.rows
    )


def told_apart_from_noise(collected: Collected, target: str) -> tuple[list[str], tuple[str, ...]]:
    """Return the features that can be asked about, and those whose released squares are less than `TELLS` deviations.

    It reads the release only, so it costs no privacy, and a real collection can do the same. With a feature that is
    zero for nearly everybody no coefficient at all could be told, since the others may be traded against it.

    Raises:
        InvalidAnalysisError: no feature is left.
    """
    estimate = collected.release.second_moment()
    squares = dict(zip([column.name for column in estimate.columns], np.diagonal(estimate.matrix), strict=True))
    features = [name for name in squares if name not in {target, INTERCEPT}]
    unseen = tuple(name for name in features if squares[name] < TELLS * collected.noise)
    seen = [name for name in features if name not in unseen]
    if not seen:
        raise InvalidAnalysisError("the noise drowns every feature; a larger epsilon or more rows are needed")
    return seen, unseen


def specification_of(
    table: FileTable, bounds: Bounds, num_clients: int, epsilon: float, delta: float | None
) -> dict[str, object]:
    """Return the specification of a task that collects second moments of rows like a table's."""
    return {
        "purpose": "A trial. Bounds, centres, scales and levels come from the table that was tried: before a real "
        "collection replace them by public ones.",
        "columns": column_documents(table, bounds.columns),
        "mechanism": {"kind": "second_moment", "intercept": bounds.intercept, "trace": True},
        "row_bound": bounds.row_bound,
        "epsilon": real(epsilon),
        **({} if delta is None else {"delta": real(delta)}),
        "min_clients": num_clients,
    }


def ordinary(schema: Schema, block: FloatArray, features: Sequence[str]) -> tuple[dict[str, float], float]:
    """Return least squares of the last column on features without privacy: coefficients by name, and R2.

    A coefficient that the rows do not determine, because features depend on each other exactly, is left out. `schema`
    is that of the columns, whose units the coefficients have; `block` holds encoded rows, shape `(n, k)`.
    """
    chosen = [place for place, column in enumerate(schema.encoded) if column.name in features]
    design = np.column_stack([np.ones(len(block)), block[:, chosen]])
    outcome = block[:, -1]
    solution, _, rank, _ = np.linalg.lstsq(design, outcome, rcond=None)
    residual = outcome - design @ solution
    spread = float(np.sum((outcome - outcome.mean()) ** 2))
    r2 = 1 - float(residual @ residual) / spread if spread > 0 else 0.0
    if rank < design.shape[1]:
        return {}, r2
    scale = np.array([float(fraction(column.scale)) for column in schema.encoded])
    center = np.array([float(fraction(column.center)) for column in schema.encoded])
    slopes = solution[1:] * scale[-1] / scale[chosen]
    intercept = center[-1] + scale[-1] * solution[0] - float(slopes @ center[chosen])
    names = [schema.encoded[place].name for place in chosen]
    return dict(zip([*names, INTERCEPT], [*map(float, slopes), intercept], strict=True)), r2


def dependent_features(schema: Schema, block: FloatArray, features: Sequence[str]) -> tuple[str, ...]:
    """Return the features that take part in exact linear dependences of the rows, with the constant or without.

    `block` holds encoded rows, shape `(n, k)`; `features` are names of encoded columns.
    """
    chosen = [place for place, column in enumerate(schema.encoded) if column.name in features]
    centred = block[:, chosen] - block[:, chosen].mean(axis=0)
    length = np.linalg.norm(centred, axis=0)
    unit = np.divide(centred, length, out=np.zeros_like(centred), where=length > 0)
    _, values, directions = np.linalg.svd(unit, full_matrices=False)
    lost = directions[values <= values[0] * max(centred.shape) * np.finfo(np.float64).eps]
    part = np.abs(lost).max(axis=0, initial=0.0) > DEPENDS
    return tuple(schema.encoded[place].name for place, own in zip(chosen, part.tolist(), strict=True) if own)


def prospects(
    bounds: Bounds, block: FloatArray, features: Sequence[str], collected: Collected, num_rows: int
) -> tuple[Prospect, ...]:
    """Return the strength of coefficients for other cohorts of such rows and other epsilons.

    The noise of a sum does not depend on how many clients share it, the smallest eigenvalue grows with them. `block` is
    the rows that are complete, as they were collected, shape `(n, k)`. `num_rows` says how many there are, incomplete
    ones included.
    """
    schema, constant = Schema(bounds.columns, indicators=True), float(fraction(bounds.intercept))
    chosen = [place for place, column in enumerate(schema.encoded) if column.name in features]
    design = np.column_stack([np.full(len(block), constant), block[:, chosen]])
    smallest = float(np.linalg.eigvalsh(design.T @ design)[0])
    claim = collected.task.claim
    return outlook(smallest, collected.noise, num_rows, claim.float_epsilon, claim.float_delta)
