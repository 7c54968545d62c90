"""Logistic regression from the release of a chain's last round: a point, and intervals where two rounds agree.

The coefficients are told where T passed, and no eigenvalue of the Hessian is below three of its deviations. Their sets
are those of `score_sets`: under the model the score has mean zero and at most the Hessian as its variance over a
population. Rounds of the same people are never pooled; windows with people of their own are, from the first that
agrees with the one before it (docs/explanation/estimators-more.md#logistic-regression).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import special

from lintra_analysis.estimators.estimates import Interval, Of, check_confidence, check_of
from lintra_analysis.estimators.logit_estimate import APPROXIMATE, INTERCEPT, LogisticEstimate, Round, Slope
from lintra_analysis.estimators.newton import (
    Agreement,
    Start,
    agreement,
    clipped_at_zero,
    floored,
    next_parameter,
    start,
)
from lintra_analysis.estimators.score_sets import ScoreEquations
from lintra_analysis.releases.newton_sums import NewtonSums
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

LEAST_DEVIATIONS = 3.0
"""The Hessian's smallest eigenvalue, in its deviations, from which intervals are told."""

_FLOOR = 2.0
_BENT = 1.0
"""kappa above which intervals are approximate."""

NO_END = (
    "no interval of {columns}: within the noise the chances of some rows may be so near 0 or 1 that larger slopes look "
    "the same"
)
NO_POPULATION = (
    "a person may have several rows, which are not independent, so that there is no interval for a population; ask for "
    "the cohort"
)
NO_FIRST_ROUND = (
    "the release of the first round is not at hand, so that the share of ones and the test of the last two rounds are "
    "unknown; open the releases of the rounds before, too (`earlier`)"
)


def logit(
    release: Release, *, of: Of = "population", confidence: float = 0.95, missing: float = 0.0
) -> LogisticEstimate:
    """Return the logistic regression of a chain of `newton_step` tasks, from the release of its last round.

    >>> from lintra_analysis import logit, open_release
    >>> estimate = logit(open_release("smoking.npz"))
    >>> estimate.status, list(estimate.params)
    ('another round', ['(intercept)', 'age'])
    >>> estimate.predict_proba({"age": [30.0]}).shape
    (1, 2)

    Args:
        release: of the last round; it knows those of the rounds before it that were at hand when it was opened.
        of: whom errors and intervals are about: the "population" that the rows are a sample of, or the "cohort" itself.
        confidence: of the intervals.
        missing: the share of reports that may be in one of the last two rounds only, if the same people answer.

    Raises:
        InvalidAnalysisError: the release is none of a `newton_step`, or a population was asked for where a person may
            have several rows.
        ValueError: an argument is out of range.
    """
    check_confidence(confidence)
    check_of(of)
    chain = release.need("newton").chain
    last = chain[-1]
    if of == "population" and last.persons:
        raise InvalidAnalysisError(NO_POPULATION)
    fresh = last.rounds == 1
    tests = [agreement(before, after, fresh=fresh, differing=missing) for before, after in pairwise(chain)]
    used = _used(chain, tests, fresh=fresh)
    equations = _equations(used, population=of == "population")
    begun = start(chain[0]) if chain[0].is_start else None
    passed = bool(tests) and (tests[-1].passes or (fresh and len(used) > 1))
    status, direction = _status(equations, passed=passed)
    names = tuple(column.name for column in last.columns[1:])
    raw, point = _points(last, equations, begun, is_start=last.is_start)
    linear, told = _to_units(last), status == "interval"
    sets = _Sets.of(equations, linear, last) if told else None
    intervals: Sequence[Interval | None] = [None] * (len(names) + 1) if sets is None else sets.intervals(confidence)
    bent = _bend(equations, last, begun) > _BENT if told and begun is not None else False
    endless = [name for name, own in zip(("", *names), intervals, strict=True) if told and own is None]
    warnings = [*_warnings(last, begun, chain), *([APPROXIMATE] if bent else [])]
    warnings += [NO_END.format(columns=", ".join(filter(None, endless)) or INTERCEPT)] if endless else []
    return LogisticEstimate(
        target=last.target.name,
        features=names,
        num_clients=sum(each.num_clients for each in used),
        of=of,
        confidence=confidence,
        status=status,
        converged=passed,
        coefficients=_slopes((INTERCEPT, *names), linear @ point, linear @ raw, sets, intervals),
        rounds=_rounds(chain, tests),
        prevalence=None if begun is None else begun.prevalence,
        average_weight=None if begun is None else begun.average_weight,
        approximate=bent,
        undetermined=() if status != "not told" else _along(direction, names),
        warnings=tuple(warnings),
        scaled_columns=last.columns[1:],
        sets=sets,
    )


def _used(chain: Sequence[NewtonSums], tests: Sequence[Agreement], *, fresh: bool) -> Sequence[NewtonSums]:
    """Return the rounds that the answer rests on: the last, or windows from the first that agrees on."""
    first = next((number for number, test in enumerate(tests, 1) if test.passes), None)
    return chain[-1:] if not fresh or first is None else chain[first:]


def _equations(used: Sequence[NewtonSums], *, population: bool) -> ScoreEquations:
    hessian = np.sum([each.hessian for each in used], axis=0)
    return ScoreEquations(
        right=np.sum([each.gradient + each.hessian @ each.parameter for each in used], axis=0),
        hessian=hessian,
        anchors=np.array([each.parameter for each in used]),
        gradient_variance=sum(each.gradient_sd**2 for each in used),
        hessian_variance=float(np.mean([each.hessian_sd**2 for each in used])),
        sampling=clipped_at_zero(hessian) if population else np.zeros_like(hessian),
    )


def _hessian_sd(equations: ScoreEquations) -> float:
    return float((equations.hessian_variance * len(equations.anchors)) ** 0.5)


def _status(equations: ScoreEquations, *, passed: bool) -> tuple[str, FloatArray]:
    """Return what the result says, and the direction that is told least, shape `(p,)`."""
    values, vectors = np.linalg.eigh(equations.hessian)
    weakest = int(np.argmin(np.abs(values)))
    direction: FloatArray = vectors[:, weakest]
    if not passed:
        return "another round", direction
    # The noise of v.H v has sqrt(2) times the deviation of an entry. Against one deviation of an entry a direction in
    # which no row varies, as of features that depend on each other, would pass in three of a hundred draws.
    seen = abs(values[weakest]) >= LEAST_DEVIATIONS * 2**0.5 * _hessian_sd(equations)
    return "interval" if seen else "not told", direction


def _points(
    last: NewtonSums, equations: ScoreEquations, begun: Start | None, *, is_start: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the last damped step, and the same drawn towards the model without features, each of shape `(p,)`."""
    size = len(last.columns)
    if len(equations.anchors) > 1:
        held = floored(equations.hessian, _FLOOR * _hessian_sd(equations) * size**0.5)
        raw: FloatArray = np.asarray(np.linalg.solve(held, equations.right))
    else:
        held, raw = floored(last.hessian, _FLOOR * last.hessian_sd * size**0.5), next_parameter(last)
    if begun is None or size == 1 or is_start:
        return raw, raw
    without = np.zeros(size)
    without[0] = np.log(begun.prevalence / (1 - begun.prevalence)) / last.constant
    noise = equations.covariance(raw[np.newaxis])[0] - equations.sampling
    inverse = np.linalg.inv(held)
    variance = (inverse @ noise @ inverse)[1:, 1:]
    told = float(raw[1:] @ np.linalg.solve(variance, raw[1:]))
    factor = max(0.0, 1 - (size - 1) / told) if told > 0 else 0.0
    return raw, without + factor * (raw - without)


def _to_units(last: NewtonSums) -> FloatArray:
    """Return the map from normalised coefficients to those in own units, the intercept first, shape `(p, p)`."""
    scales = np.array([column.scale for column in last.columns[1:]])
    centers = np.array([column.center for column in last.columns[1:]])
    linear = np.diag(np.append(last.constant, 1 / scales))
    linear[0, 1:] = -centers / scales
    return linear


@dataclass(frozen=True, eq=False)
class _Sets:
    """What the equations of the last round say of coefficients in own units, the rows of `linear`, shape `(p, p)`.

    Where a score x.b moves by at most rho, the Hessian falls by a factor of exp(rho) at most (Bach 2010, proposition
    1), so that a gradient that the quadratic model puts at rho may be 1 - exp(-rho).
    """

    equations: ScoreEquations
    linear: FloatArray
    variances: FloatArray  #: of the coefficients, shape `(p,)`
    bent: "_Bent"

    @classmethod
    def of(cls, equations: ScoreEquations, linear: FloatArray, last: NewtonSums) -> "_Sets":
        """Prepare them for a last round."""
        inverse = np.linalg.inv(equations.hessian)
        reach = inverse @ equations.covariance(equations.solution[np.newaxis])[0] @ inverse
        variances = np.diagonal(linear @ reach @ linear.T)
        moved = linear @ reach / variances[:, np.newaxis]
        largest = np.array(
            [max(abs(one.lower - one.center), abs(one.upper - one.center)) / one.scale for one in last.columns]
        )
        largest[0] = last.constant
        anchor = linear @ equations.anchors.mean(axis=0)
        bent = _Bent(anchor, linear @ equations.solution - anchor, np.abs(moved) @ largest)
        return cls(equations, linear, variances, bent)

    def intervals(self, confidence: float) -> Sequence[Interval | None]:
        """Return the intervals of all coefficients; None where nothing bounds one."""
        limit = float(special.chdtri(1, 1 - confidence))
        ends = self.bent.ends(self.equations.intervals(self.linear, limit)).tolist()
        return [(low, high) if np.isfinite(low) and np.isfinite(high) else None for low, high in ends]

    @property
    def p_values(self) -> FloatArray:
        """Return the p values of coefficients of 0, shape `(p,)`."""
        distances = self.equations.smallest(self.linear, self.bent.quadratic(np.zeros(len(self.linear))))
        return np.asarray(special.chdtrc(1, distances))


@dataclass(frozen=True, eq=False)
class _Bent:
    """How far a logistic model may be from the quadratic one about the last parameter, for k coefficients.

    Attributes:
        anchor: the coefficients there, shape `(k,)`, and so the others.
        step: from there to where the quadratic model is solved.
        moves: how far the score of a row moves at most for each unit of a coefficient.
    """

    anchor: FloatArray
    step: FloatArray
    moves: FloatArray

    def ends(self, ends: FloatArray) -> FloatArray:
        """Return the ends of what a logistic model allows for those of the quadratic one, shape `(k, 2)`.

        Away from the anchor the Hessian may fall, and an end is infinite if it may fall below the noise. An end between
        anchor and solution comes nearer, since there the Hessian may grow.
        """
        apart = ends - self.anchor[:, np.newaxis]
        moved, outward = np.abs(apart) * self.moves[:, np.newaxis], np.sign(apart) == np.array([-1, 1])
        with np.errstate(divide="ignore", invalid="ignore"):
            away = np.where(moved < 1, -np.log1p(-moved), np.inf)
        stretched = np.where(outward, away, np.log1p(moved)) / self.moves[:, np.newaxis]
        return np.asarray(self.anchor[:, np.newaxis] + np.sign(apart) * stretched)

    def quadratic(self, values: FloatArray) -> FloatArray:
        """Return what the quadratic model must reject so that a logistic one rejects values of shape `(k,)`."""
        apart = values - self.anchor
        size, solved = np.abs(apart) * self.moves, self.step * np.sign(apart) * self.moves
        with np.errstate(over="ignore"):
            away, near = np.maximum(-np.expm1(-size), solved), np.minimum(np.expm1(size), solved)
        return np.asarray(self.anchor + np.sign(apart) * np.where(size > solved, away, near) / self.moves)


def _slopes(
    names: Sequence[str],
    point: FloatArray,
    raw: FloatArray,
    sets: _Sets | None,
    intervals: Sequence[Interval | None],
) -> tuple[Slope, ...]:
    errors = [None] * len(names) if sets is None else np.sqrt(sets.variances).tolist()
    p_values = [None] * len(names) if sets is None else sets.p_values.tolist()
    return tuple(map(Slope, names, point.tolist(), raw.tolist(), errors, intervals, p_values))


def _rounds(chain: Sequence[NewtonSums], tests: Sequence[Agreement]) -> tuple[Round, ...]:
    first = Round(1, chain[0].num_clients, None, False)
    later = (
        Round(number, sums.num_clients, test.statistic, test.passes)
        for number, (sums, test) in enumerate(zip(chain[1:], tests, strict=True), 2)
    )
    return (first, *later)


def _bend(equations: ScoreEquations, last: NewtonSums, begun: Start | None) -> float:
    """Return kappa, what the quadratic model leaves out over the noise, for rows of norm 1."""
    share = 0.5 if begun is None else begun.prevalence
    held = floored(equations.hessian, _FLOOR * _hessian_sd(equations) * len(last.columns) ** 0.5)
    noise = equations.gradient_variance**0.5
    return float(abs(1 - 2 * share) * last.row_bound * noise * np.trace(np.linalg.inv(held)) / 2)


def _along(direction: FloatArray, names: Sequence[str]) -> tuple[str, ...]:
    """Return the features that lie in a direction, shape `(p,)`, at least half as much as any; the constant is none."""
    share = np.square(direction[1:])
    if not share.size:
        return ()
    order = np.argsort(-share, kind="stable")
    return tuple(names[place] for place in order if share[place] >= share.max() / 2 > 0)


def _warnings(last: NewtonSums, begun: Start | None, chain: Sequence[NewtonSums]) -> list[str]:
    found = []
    if begun is None or (len(chain) == 1 and not last.is_start):
        found.append(NO_FIRST_ROUND)
    if begun is not None and begun.average_weight < 0.95:
        found.append(f"a row counts {begun.average_weight:.2f} on average, since rows that are far out count less")
    if last.clipped is not None and last.clipped.worth_a_word:
        found.append(last.clipped.words)
    return found
