"""Compares a logistic regression in private rounds with the table's own: one chain that ran, and many simulated ones.

1. Bounds of columns are those of `files.bounds`. With nu of `row_weights` and s = min(1, 40 nu), the squared row bound
   is the larger of the mean squared norm of the constant and the features, and of what a share s of the rows exceeds.
   The constant is a feature like the others. Rounds are as many as `usual_rounds` says. Nothing is chosen by its
   result.
2. A slope is large, seen and kept as `verdict` says. Its size in deviations is the slope times the feature's deviation
   and the target's, which is that of a linear slope where chances are near one half.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np

from lintra_analysis.estimators.logit import logit
from lintra_analysis.estimators.logit_estimate import LogisticEstimate
from lintra_analysis.kinds.newton_step import usual_rounds
from lintra_analysis.releases.newton_sums import NewtonSums
from lintra_analysis.releases.release import Release
from lintra_analysis.trial.chains import LogisticRows, simulated_chains
from lintra_analysis.trial.coefficients import TriedCoefficient, dependent_features
from lintra_analysis.trial.collection import Collected
from lintra_analysis.trial.draws import CONFIDENCE, FEW, SOME
from lintra_analysis.trial.row_weights import RowWeighting, relative_noise, share_shrunk
from lintra_analysis.trial.selection import EncodedRows
from lintra_analysis.trial.verdict import (
    LARGE,
    POWER,
    SEEN,
    STEP,
    SimulatedCollections,
    SlopeVerdict,
    other_sizes,
    verdict_of,
)
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.documents import real
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.statement import Claim

_WIDE = 24
"""Numbers in a row, up to which `SOME` chains are simulated, and beyond which `FEW`."""


def logistic_document(features: FloatArray, claim: Claim, mechanism: Mapping[str, object]) -> dict[str, object]:
    """Return mechanism, row bound and noise of a specification by the rule; what `mechanism` states is kept.

    `features` are normalised, of rows like those that will be collected, shape `(m, p)`, without the target.
    """
    mu = gaussian_mu(claim.float_epsilon, claim.noise_delta)
    constant = math.sqrt(float(np.square(features).mean()))
    squares = constant**2 + np.square(features).sum(axis=1)
    share = share_shrunk(relative_noise(features.shape[1] + 1, claim.min_clients, mu))
    bound = math.sqrt(max(float(squares.mean()), float(np.quantile(squares, 1 - share))))
    usual = {"family": "logistic", "intercept": real(f"{constant:.4g}"), "rounds": usual_rounds(claim.min_clients, mu)}
    filled = {**usual, **mechanism}
    # A chain of several rounds has noise of clients alone.
    noise = {} if filled["rounds"] == 1 else {"noise": "clients"}
    return {"mechanism": filled, "row_bound": real(f"{bound:.4g}"), **noise}


def weighting_of(specification: Mapping[str, object]) -> RowWeighting:
    """Return how the rows of such a specification count: by constant and features, the target as it is."""
    mechanism = specification["mechanism"]
    assert isinstance(mechanism, dict)
    bound, constant = float(str(specification["row_bound"])), float(mechanism["intercept"])
    return RowWeighting("features", math.sqrt(2) * bound, constant, 1.0, 1.0, math.nan, math.nan)


@dataclass(frozen=True, repr=False)
class LogisticComparison:
    """The logistic regression of the last column on all others: what a collection would tell of the table's own.

    Attributes:
        dependent: features that depend on each other exactly in the table itself, so that nothing tells them apart.
        coefficients: of the table, of its collection without noise, and of one chain that ran, the intercept last.
        explained: the share of the table's deviance that this chain's point explains.
        estimate: this chain's.
        rounds: K, for which privacy is reserved.
        told: the share of simulated chains that end with intervals.
        judgement: over them; its `r2` are shares of the table's deviance.
    """

    dependent: tuple[str, ...]
    coefficients: tuple[TriedCoefficient, ...]
    explained: float
    estimate: LogisticEstimate
    rounds: int
    told: float
    judgement: SimulatedCollections

    absent: ClassVar[tuple[str, ...]] = ()
    drowned: ClassVar[tuple[str, ...]] = ()
    drowned_columns: ClassVar[tuple[str, ...]] = ()
    choice: ClassVar[None] = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what the private regression warns of."""
        return self.estimate.warnings

    def document(self) -> dict[str, object]:
        """Return it as JSON holds it."""
        return {
            "family": "logistic",
            "dependent_features": list(self.dependent),
            "explained_deviance": self.explained,
            "coefficients": [asdict(each) for each in self.coefficients],
            "status": self.estimate.status,
            "reserved_rounds": self.rounds,
            "rounds": [asdict(each) for each in self.estimate.rounds],
            "told": self.told,
            "warnings": list(self.warnings),
            "judgement": asdict(self.judgement),
        }


def logistic_of(
    chain: Sequence[Collected], rows: EncodedRows, claim: Claim, draws: int | None = None
) -> LogisticComparison:
    """Compare the rounds of a chain that ran with the rows that it collected, the target last.

    `draws` is how many chains are simulated; 50 to 24 numbers in a row and 20 beyond, if not given.
    """
    release = chain[-1].release
    estimate = logit(release, of="cohort", confidence=CONFIDENCE)
    ran = release.need("newton").chain
    table = LogisticTable.of(rows, ran[0].constant)
    count = draws or (SOME if len(rows.names) <= _WIDE else FEW)
    simulated = table.answers(simulated_chains(table.collected, ran, count))
    slopes = table.slopes(simulated)
    points = np.array([table.normalised(each) for each in simulated])
    explained, own_explained = float(np.median(table.rows.explained(points))), table.explained
    verdict = verdict_of(slopes, table.deviations, explained, own_explained)

    def good(louder: float) -> bool:
        chains = simulated_chains(table.collected, ran, min(count, FEW), louder)
        return verdict_of(table.slopes(table.answers(chains)), table.deviations) == "good"

    asked = verdict != "good" and table.own is not None
    sizes = tuple(other_sizes(good, claim.min_clients, claim.float_epsilon, claim.float_delta)) if asked else ()
    return LogisticComparison(
        dependent=dependent_features(rows, rows.names[:-1]),
        coefficients=table.coefficients(estimate),
        explained=float(table.rows.explained(table.normalised(estimate)[np.newaxis])[0]),
        estimate=estimate,
        rounds=ran[0].rounds,
        told=sum(each.status == "interval" for each in simulated) / count,
        judgement=SimulatedCollections(count, slopes, explained, own_explained, verdict, sizes),
    )


@dataclass(frozen=True, eq=False, repr=False)
class LogisticTable:
    """A table's rows, as they are and as they are collected, with the fit of each in the columns' own units.

    Attributes:
        rows: as they are, each with a constant of 1 and normalised.
        collected: with the columns' bounds, the task's constant, and weights.
        own: the coefficients of `rows`, the intercept first, shape `(p,)`; None where they determine none.
        weighted: likewise of `collected`.
        deviations: what makes a slope one in deviations, shape `(p - 1,)`.
    """

    names: tuple[str, ...]
    center: FloatArray
    scale: FloatArray
    rows: LogisticRows
    collected: LogisticRows
    own: FloatArray | None
    weighted: FloatArray | None
    deviations: FloatArray

    @classmethod
    def of(cls, rows: EncodedRows, constant: float) -> "LogisticTable":
        """Fit the rows of a table; `constant` is that of its task, in normalised units."""
        ones = (rows.own[:, -1] > 0).astype(np.float64)
        own = LogisticRows(with_constant(1.0, rows.own[:, :-1]), ones, np.ones(len(ones)))
        theirs = LogisticRows(with_constant(constant, rows.collected[:, :-1]), ones, np.square(rows.roots))
        return cls.fitted(rows.names[:-1], rows.center[:-1], rows.scale[:-1], own, theirs)

    @classmethod
    def fitted(
        cls,
        names: Sequence[str],
        center: FloatArray,
        scale: FloatArray,
        own: LogisticRows,
        collected: LogisticRows,
    ) -> "LogisticTable":
        """Fit rows of features with these names, centres and scales."""
        fits: list[FloatArray | None] = []
        for rows in (own, collected):
            fit = rows.fit()
            if fit is not None:
                slopes = fit[1:] / scale
                fit = np.append(rows.vectors[0, 0] * fit[0] - slopes @ center, slopes)
            fits.append(fit)
        spread = own.vectors[:, 1:].std(axis=0) * scale * own.ones.std()
        return cls(tuple(names), center, scale, own, collected, fits[0], fits[1], spread)

    @property
    def explained(self) -> float:
        """Return the share of the deviance that the table's own fit explains; 0 where there is none."""
        if self.own is None:
            return 0.0
        return float(self.rows.explained(self._into(self.own)[np.newaxis])[0])

    def normalised(self, estimate: LogisticEstimate) -> FloatArray:
        """Return the point of an answer for rows with a constant of 1, shape `(p,)`."""
        return self._into(np.array(list(estimate.params.values())))

    def _into(self, coefficients: FloatArray) -> FloatArray:
        slopes = coefficients[1:]
        return np.append(coefficients[0] + slopes @ self.center, slopes * self.scale)

    def answers(self, chains: Sequence[NewtonSums]) -> list[LogisticEstimate]:
        """Return what an analyst would read from each chain."""
        return [logit(Release(newton=last), of="cohort", confidence=CONFIDENCE) for last in chains]

    def coefficients(self, estimate: LogisticEstimate) -> tuple[TriedCoefficient, ...]:
        """Return the coefficients beside those of an answer, the intercept last."""
        shown = []
        for place, each in enumerate(estimate.coefficients):
            own, weighted = (None if fit is None else float(fit[place]) for fit in (self.own, self.weighted))
            shown.append(TriedCoefficient(each.name, own, weighted, each.value, each.interval))
        return (*shown[1:], shown[0])

    def slopes(self, simulated: Sequence[LogisticEstimate]) -> tuple[SlopeVerdict, ...]:
        """Return what the answers of simulated chains say of each slope."""
        found, several = [], [each for each in simulated if each.status == "interval"]
        for place, name in enumerate(self.names, 1):
            ends = np.array([each.coefficients[place].interval or (-np.inf, np.inf) for each in several]).reshape(-1, 2)
            points = np.array([each.coefficients[place].value for each in simulated])
            seen = float(np.sum(np.isfinite(ends).all(axis=1) & (ends[:, 0] * ends[:, 1] > 0))) / len(simulated)
            bounded = ends[np.isfinite(ends).all(axis=1)]
            enough = len(bounded) >= SEEN * len(simulated)
            half = float(np.median(bounded[:, 1] - bounded[:, 0])) / 2 if enough else math.inf
            own, weighted = (None if fit is None else float(fit[place]) for fit in (self.own, self.weighted))
            found.append(
                SlopeVerdict(
                    name=name,
                    own=own,
                    weighted=weighted,
                    large=own is not None and abs(own) * float(self.deviations[place - 1]) >= LARGE,
                    seen=round(round(seen / STEP) * STEP, 2),
                    seen_from=POWER * half if math.isfinite(half) else None,
                    off_by=None if own is None else float(np.median(np.abs(points - own))),
                )
            )
        return tuple(found)


def with_constant(constant: float, features: FloatArray) -> FloatArray:
    """Return features, shape `(n, f)`, behind a column of the constant."""
    return np.column_stack([np.full(len(features), constant), features])
