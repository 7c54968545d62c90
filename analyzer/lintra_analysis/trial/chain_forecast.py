"""Forecasts the rounds of a logistic regression on rows like those of a sample, by simulated chains."""

from dataclasses import asdict, dataclass, replace
from typing import cast

import numpy as np

from lintra_analysis.releases.release import Release
from lintra_analysis.trial.chains import LogisticRows, simulated_chains
from lintra_analysis.trial.draws import FEW
from lintra_analysis.trial.logistic import LogisticTable, with_constant
from lintra_analysis.trial.verdict import SlopeVerdict
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.mechanisms.newton_step import NewtonStep
from lintra_protocol.task import Task


@dataclass(frozen=True)
class ChainForecast:
    """What to expect of a chain of rounds.

    Attributes:
        rounds: K, for which privacy is reserved.
        draws: how many chains were simulated.
        told: the share of them that end with intervals.
        slopes: what they say of each slope of rows like these.
    """

    rounds: int
    draws: int
    told: float
    slopes: tuple[SlopeVerdict, ...]

    def document(self) -> dict[str, object]:
        """Return it as JSON holds it."""
        return asdict(self)


def foresee_chain(task: Task, rows: FloatArray, release: Release | None) -> ChainForecast | None:
    """Simulate the chain that a task begins; None if it begins none, or its rounds are of other people each.

    `rows` are like those that will be collected, in users' units, shape `(n, d)`; `release` is that of the first round
    without noise.
    """
    first = None if release is None else release.newton
    if first is None or first.rounds == 1 or task.contributors is not None:
        return None
    mechanism = cast("NewtonStep", task.mechanism)
    # All rounds have one noise in the gradient, and the Hessian's grows with the gradient's weight.
    later = mechanism.model_copy(update={"parameter": ("1",) * len(mechanism.parameter)})
    ratio = later.gradient_factor / mechanism.gradient_factor
    ran = (first, replace(first, hessian_sd=first.hessian_sd * ratio))
    normalised = task.schema_arrays.normalise(rows)
    ones = (normalised[:, mechanism.target] > 0).astype(np.float64)
    features = np.delete(normalised, mechanism.target, axis=1)
    vectors = with_constant(first.constant, features)
    bound = float(fraction(mechanism.row_bound))
    factors = np.square(bound / np.maximum(np.linalg.norm(vectors, axis=1), bound))
    each = np.full(len(rows), task.claim.min_clients / len(rows))
    table = LogisticTable.fitted(
        [column.name for column in first.columns[1:]],
        np.array([column.center for column in first.columns[1:]]),
        np.array([column.scale for column in first.columns[1:]]),
        LogisticRows(with_constant(1.0, features), ones, each),
        LogisticRows(vectors, ones, factors * each),
    )
    answers = table.answers(simulated_chains(table.collected, ran, FEW))
    told = sum(each.status == "interval" for each in answers) / len(answers)
    return ChainForecast(mechanism.rounds, len(answers), told, table.slopes(answers))
