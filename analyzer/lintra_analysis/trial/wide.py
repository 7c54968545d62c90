"""A private range finder of one's own table of very many columns beside what the table holds without privacy.

As in `trial.trial` bounds and scales follow from the table by a rule that was stated beforehand, and the trial itself
is not private. Instead of coefficients, which so many columns do not have, it is about directions, the variance that
they hold, and how well a ridge regression along them predicts.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from lintra_analysis.estimators.estimates import Measured
from lintra_analysis.estimators.wide import wide_components, wide_ridge
from lintra_analysis.kinds.range_finder import proposed_intercept
from lintra_analysis.plan.comparison import COLUMNS_OF_A_RANGE
from lintra_analysis.releases.columns import centers, scales
from lintra_analysis.releases.release import Release
from lintra_analysis.trial.collection import Collected, collect
from lintra_analysis.trial.files.bounds import Bounds, bounds_of, clipped_share
from lintra_analysis.trial.files.schema import column_documents
from lintra_analysis.trial.files.table import FileTable
from lintra_analysis.trial.selection import chosen_columns, complete_rows, encoded
from lintra_analysis.trial.what_if import COHORTS, EPSILONS
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.documents import fraction, real
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.privacy.gaussian import gaussian_mu


@dataclass(frozen=True)
class TriedDirection:
    """One direction: its variance as it was released, and that of the collected rows along it without noise."""

    private: float
    without_noise: float


@dataclass(frozen=True)
class Seen:
    """How many directions would stand out of the noise, of another cohort of such rows or at another epsilon."""

    epsilon: float
    num_clients: int
    directions: int


@dataclass(frozen=True, repr=False)
class WideTrial:
    """What a trial of very many columns found.

    Attributes:
        specification: of a task that would collect such rows; its bounds come from this table.
        target: the column that was explained.
        columns: numbers of an encoded row, the target among them.
        rows: collected, each as one client's report.
        incomplete: of these, rows in which a number is missing; it stood at its column's centre.
        left_out: columns that cannot be collected, and why.
        clipped_share: of the rows, that a bound changed.
        epsilon: of the release, as its certificate would state it.
        directions: that stand out of the noise, the largest first.
        share: of the variance that so many best directions of the collected rows hold, what these hold; None without.
        explained: the share of the target's sum of squares that the release says is explained; None if it does not.
        r2: of the private predictions of the table's own rows; None without directions.
        r2_components: of least squares on as many best directions of the collected rows, without noise.
        r2_non_private: of least squares on all columns of the table; None where rows are too few for that.
        prospects: what other cohorts and other epsilons would give.
        seconds: that it took.
    """

    specification: dict[str, object]
    target: str
    columns: int
    rows: int
    incomplete: int
    left_out: dict[str, str]
    clipped_share: float
    epsilon: float
    words: int
    directions: tuple[TriedDirection, ...]
    share: float | None
    explained: Measured | None
    r2: float | None
    r2_components: float | None
    r2_non_private: float | None
    prospects: tuple[Seen, ...]
    warnings: tuple[str, ...]
    seconds: float

    def __repr__(self) -> str:
        return f"WideTrial({self.target!r}, {self.rows} rows, {self.columns} columns)"

    def document(self) -> dict[str, object]:
        """Return the trial as JSON holds it."""
        explained = self.explained
        return {
            "specification": self.specification,
            "target": self.target,
            "columns": self.columns,
            "rows": self.rows,
            "incomplete_rows": self.incomplete,
            "left_out": self.left_out,
            "clipped_share": self.clipped_share,
            "epsilon": self.epsilon,
            "words": self.words,
            "directions": [{"private": one.private, "without_noise": one.without_noise} for one in self.directions],
            "share_of_best_directions": self.share,
            "explained": None
            if explained is None
            else {"share": explained.value, "standard_error": explained.standard_error},
            "r2": {"private": self.r2, "components": self.r2_components, "non_private": self.r2_non_private},
            "prospects": [
                {"epsilon": one.epsilon, "num_clients": one.num_clients, "directions": one.directions}
                for one in self.prospects
            ],
            "warnings": list(self.warnings),
            "seconds": self.seconds,
        }


def is_wide(table: FileTable, target: str) -> bool:
    """Return whether a table has so many columns that a range finder is tried: those at which `plan` shows one."""
    held = chosen_columns(table, target).columns
    return sum(max(len(column.levels) - 1, 1) for column in held) >= COLUMNS_OF_A_RANGE


def try_wide_table(
    table: FileTable,
    target: str,
    epsilon: float,
    delta: float | None,
    now: int,
    random_bytes: RandomBytes,
    said: Callable[[str], None] = lambda _: None,
) -> WideTrial:
    """Collect a table privately with a range finder, and compare its directions with the table's own.

    `target` is a column of numbers, or of zeros and ones. `delta` is promised; the usual one for so many rows if not
    given. `said` is told in words how far the trial is.
    """
    started = time.perf_counter()
    chosen = chosen_columns(table, target)
    complete, incomplete = complete_rows(chosen)
    bounds = bounds_of(chosen)
    specification = _specification(chosen, bounds, epsilon, delta)
    collected = collect(specification, chosen.block(), now, random_bytes, said)
    said("estimating, with and without privacy")
    own = np.nan_to_num(encoded(bounds, chosen.block(), clip=False))
    rows = np.nan_to_num(encoded(bounds, chosen.block(), clip=True))
    centred = rows - rows.mean(axis=0)
    variances = _largest(centred)[0]
    found = WideTrial(
        specification=specification,
        target=target,
        columns=rows.shape[1],
        rows=chosen.num_rows,
        incomplete=incomplete,
        left_out=chosen.left_out,
        clipped_share=clipped_share(bounds.columns, float(fraction(bounds.row_bound)), complete),
        epsilon=collected.privacy.epsilon,
        words=collected.task.num_words,
        directions=(),
        share=None,
        explained=None,
        r2=None,
        r2_components=None,
        r2_non_private=_r2_of_all(own),
        prospects=_prospects(variances * len(rows), collected, epsilon, delta),
        warnings=(),
        seconds=0.0,
    )
    found = _with_directions(found, collected.release, own, centred, variances)
    return replace(found, seconds=time.perf_counter() - started)


def _with_directions(
    found: WideTrial, release: Release, own: FloatArray, centred: FloatArray, variances: FloatArray
) -> WideTrial:
    """Return a trial with what the release tells, if anything stands out of its noise."""
    try:
        components, ridge = wide_components(release), wide_ridge(release, found.target)
    except InvalidAnalysisError:
        return found
    along = np.square(centred @ components.components.T).mean(axis=0)
    held = release.columns
    units = own * scales(held) + centers(held)
    predicted, outcome = ridge.predict(units[:, :-1]), units[:, -1]
    # Of the same number of directions, found without noise and without the target itself.
    axes = _largest(centred[:, :-1])[1][:, : along.size]
    scores = np.column_stack([np.ones(len(own)), centred[:, :-1] @ axes])
    return replace(
        found,
        directions=tuple(
            TriedDirection(one.value, float(rows))
            for one, rows in zip(components.explained_variance, along, strict=True)
        ),
        share=float(along.sum() / variances[: along.size].sum()),
        explained=ridge.explained_share,
        r2=_r2(outcome, predicted),
        r2_components=_r2(outcome, scores @ np.linalg.lstsq(scores, outcome, rcond=None)[0]),
        warnings=ridge.warnings,
    )


def _specification(table: FileTable, bounds: Bounds, epsilon: float, delta: float | None) -> dict[str, object]:
    columns = [
        # What is missing stands at its centre here: a range finder cannot leave rows out.
        {name: value for name, value in document.items() if name != "missing"}
        for document in column_documents(table, bounds.columns)
    ]
    return {
        "purpose": "A trial. Bounds, centres, scales and levels come from the table that was tried: before a real "
        "collection replace them by public ones.",
        "columns": columns,
        "mechanism": {
            "kind": "range_finder",
            "intercept": proposed_intercept(bounds.row_bound),
            "targets": [{"column": table.columns[-1].name}],
            "trace": True,
        },
        "row_bound": bounds.row_bound,
        "epsilon": real(epsilon),
        **({} if delta is None else {"delta": real(delta)}),
        "min_clients": table.num_rows,
        "share_form": "spread",
    }


def _largest(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the variances of centred rows along their own axes, largest first, and these axes, shape `(d, d)`."""
    values, axes = np.linalg.eigh(rows.T @ rows)
    return np.maximum(values[::-1], 0.0) / len(rows), axes[:, ::-1]


def _prospects(squares: FloatArray, collected: Collected, epsilon: float, delta: float | None) -> tuple[Seen, ...]:
    """Count the table's directions whose sum of squares would exceed the noise's s_E sqrt(d)."""
    held = collected.release.range_sums()
    edge, most = held.noise_sd * np.sqrt(len(held.columns)), held.rank // 2
    used = 1e-6 if delta is None else delta
    here = gaussian_mu(epsilon, used)
    return tuple(
        Seen(
            epsilon * factor,
            held.num_clients * times,
            min(int((squares * times > edge * here / gaussian_mu(epsilon * factor, used)).sum()), most),
        )
        for times in COHORTS
        for factor in EPSILONS
    )


def _r2_of_all(own: FloatArray) -> float | None:
    if len(own) <= own.shape[1]:
        return None
    design = np.column_stack([np.ones(len(own)), own[:, :-1]])
    return _r2(own[:, -1], design @ np.linalg.lstsq(design, own[:, -1], rcond=None)[0])


def _r2(outcome: FloatArray, predicted: FloatArray) -> float:
    spread = float(np.square(outcome - outcome.mean()).sum())
    return 1 - float(np.square(outcome - predicted).sum()) / spread if spread > 0 else 0.0
