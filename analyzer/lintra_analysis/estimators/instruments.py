"""Regression on columns that share a cause with the target, by instruments that do not (two-stage least squares).

The point is where the noise's own distance is smallest, as in Hansen, Heaton and Yaron (1996); with as many instruments
as endogenous columns it is that of two-stage least squares. Intervals are those of concentrated/instruments.py and hold
however weak the instruments are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import special

from lintra_analysis.estimators.coefficients import (
    CSV_HEADER,
    PARTS_NOTE,
    Coefficient,
    LinearErrors,
    text_header,
    unit_map,
)
from lintra_analysis.estimators.concentrated.instruments import InstrumentEquations, InstrumentSolution
from lintra_analysis.estimators.design import INTERCEPT
from lintra_analysis.estimators.estimates import Interval, Of, check_confidence, check_of
from lintra_analysis.estimators.figures import Figure, Mark, intervals
from lintra_analysis.estimators.known_noise import NEEDS_CONSTANT, known_noise, weighted_words
from lintra_analysis.estimators.notes import ONE_VARIANCE, apart_from_zero, clients, listed
from lintra_analysis.estimators.table import Estimate, Table
from lintra_analysis.estimators.tabular import number
from lintra_analysis.releases.columns import ScaledColumn, listed_names, positions
from lintra_analysis.releases.gram_error import GramEstimate, HasSecondMoment
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

LAW = (
    "intervals and tests rest on the exact Gaussian law of the noise and hold however weak the instruments are; that "
    "the instruments have no part in the residual is assumed"
)
WEAK = (
    "nothing bounds the coefficients at this epsilon: the instruments say too little about the endogenous columns, or "
    "columns nearly agree"
)
CONTRADICTION = "no value of the coefficients agrees with all instruments at this confidence: one of them may be none"
COHORT_SURPLUS = (
    'of="cohort" has a meaning only with as many instruments as endogenous columns: the cohort\'s own rows solve no '
    "more equations than there are coefficients"
)


@dataclass(frozen=True, eq=False, repr=False)
class InstrumentEstimate(Estimate):
    """The regression of one column on others by instruments, in the columns' own units.

    >>> from lintra_analysis import iv, open_release
    >>> found = iv(open_release("flights.npz"), "delay", endogenous=["distance"], instruments=["hour"])
    >>> list(found.params)
    ['distance', '(intercept)']

    Attributes:
        endogenous: columns that share a cause with the target.
        exogenous: columns that explain it and do not.
        instruments: columns that move the endogenous ones and have no other part in the target.
        of: whether intervals and tests are about the "cohort" or the "population".
        coefficients: of exogenous and endogenous columns; the point is where the noise's distance is smallest.
        intercept: in the target's unit.
        bounded: whether the noise leaves a bounded set of coefficients; if not, none has an interval.
        surplus: how many more instruments there are than endogenous columns.
        agreement: p value of all instruments agreeing (Sargan's and Hansen's test); None without a surplus.
        law: what intervals and tests rest on.
    """

    target: str
    endogenous: tuple[str, ...]
    exogenous: tuple[str, ...]
    instruments: tuple[str, ...]
    num_clients: int
    of: Of
    confidence: float
    coefficients: tuple[Coefficient, ...]
    intercept: Coefficient
    bounded: bool
    surplus: int
    agreement: float | None
    law: str
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    scaled_columns: tuple[ScaledColumn, ...] = field(default=(), metadata={"plain": False})

    def __repr__(self) -> str:
        return f"InstrumentEstimate({self.target!r} by {len(self.instruments)} instruments, {self.num_clients} clients)"

    @property
    def rows(self) -> tuple[Coefficient, ...]:
        """The coefficients with the intercept last."""
        return (*self.coefficients, self.intercept)

    @property
    def params(self) -> dict[str, float]:
        """The coefficients by name, the intercept last."""
        return {one.name: one.value for one in self.rows}

    @property
    def bse(self) -> dict[str, float | None]:
        """Their standard errors to first order, by name; None where nothing bounds the coefficient."""
        return {one.name: None if one.standard_error is None else one.standard_error.total for one in self.rows}

    @property
    def pvalues(self) -> dict[str, float | None]:
        """The p values of coefficients of 0, by name."""
        return {one.name: one.p_value for one in self.rows}

    def conf_int(self) -> dict[str, Interval | None]:
        """Return the intervals by name, None where nothing is told."""
        return {one.name: one.interval for one in self.rows}

    def table(self) -> Table:
        """Return one line for each coefficient, the intercept last."""
        return Table(
            title=f"Regression of {self.target} by instruments",
            columns=CSV_HEADER,
            rows=(one.csv_cells() for one in self.rows),
            index=("name",),
            facts=[
                ("Clients", str(self.num_clients)),
                ("Errors are of", f"the {self.of}"),
                ("Instruments", listed(self.instruments)),
                ("P, instruments agree", number(self.agreement, 3)),
            ],
            shown=[(text_header(self.confidence), [one.text_cells() for one in self.rows])],
            notes=(*self.notes, PARTS_NOTE, self.law),
            warnings=self.warnings,
            figures={"": self._figure},
        )

    def _figure(self) -> Figure:
        marks = []
        for one, column in zip(self.coefficients, self.scaled_columns, strict=False):
            shown = f"{one.name} (x {number(column.scale)})"
            marks.append(Mark(shown, one.value, one.interval).moved(0.0, column.scale))
        title = f"Coefficients of {self.target} by instruments: {100 * self.confidence:g} % for the {self.of}"
        return intervals(marks, title, f"change of {self.target} for one scale of a column")

    def in_words(self) -> str:
        """Return which coefficients are told apart from 0."""
        head = f"Regression of {self.target} on {listed((*self.exogenous, *self.endogenous))} by the instruments "
        head += f"{listed(self.instruments)}, {clients(self.num_clients, self.of, self.confidence)}."
        return f"{head} {apart_from_zero([(one.name, one.value, one.interval) for one in self.coefficients])}"


def iv(
    release: HasSecondMoment,
    target: str,
    endogenous: Sequence[str],
    instruments: Sequence[str],
    exogenous: Sequence[str] = (),
    *,
    of: Of = "population",
    confidence: float = 0.95,
) -> InstrumentEstimate:
    """Return the regression of a column on endogenous and exogenous ones with the help of instruments.

    >>> from lintra_analysis import iv, open_release
    >>> found = iv(open_release("flights.npz"), "delay", endogenous=["distance"], instruments=["hour"])
    >>> found.surplus, found.agreement
    (0, None)

    Args:
        release: a second moment with an intercept.
        target: the column to explain.
        endogenous: columns that explain it and share a cause with it.
        instruments: columns that move these and have no other part in the target; at least as many.
        exogenous: columns that explain it and share no cause with it.
        of: whom intervals and tests are about: the "population", or the "cohort" where no instrument is too many.
        confidence: of the intervals, each on its own.

    Raises:
        InvalidAnalysisError: the noise has no known Gaussian law, or an argument does not fit the release.
    """
    check_confidence(confidence)
    check_of(of)
    roles = [tuple(listed_names(names)) for names in (exogenous, endogenous, instruments)]
    chosen = _chosen(known_noise(release), target, *roles)
    equations = _equations(chosen, roles, of)
    if of == "cohort" and equations.surplus:
        raise InvalidAnalysisError(COHORT_SURPLUS)
    explaining = (*chosen.columns[: 1 + len(roles[0])], *chosen.columns[-1 - len(roles[1]) : -1])
    told = chosen.columns[-1]
    to_units = unit_map(explaining, told)
    offsets = np.append(np.zeros(len(to_units) - 1), told.center)
    statements = InstrumentSolution.about(equations, to_units)
    limit = statements.limit(confidence)
    bounded = statements.at_infinity() > limit
    doubts = [] if bounded else [WEAK]
    if bounded and statements.least > limit:
        doubts.append(CONTRADICTION)
    names = (*roles[0], *roles[1], INTERCEPT)
    ends = _intervals(statements, offsets, None if doubts else limit)
    rows = _coefficients(statements, to_units, offsets, names, ends, of, confidence)
    if not bounded:
        rows = tuple(replace(one, standard_error=None, statistic=None) for one in rows)
    if not chosen.tests_hold:
        rows = tuple(replace(one, p_value=None) for one in rows)
    return InstrumentEstimate(
        target=target,
        endogenous=roles[1],
        exogenous=roles[0],
        instruments=roles[2],
        num_clients=chosen.num_clients,
        of=of,
        confidence=float(confidence),
        coefficients=rows[:-1],
        intercept=rows[-1],
        bounded=bounded,
        surplus=equations.surplus,
        agreement=float(special.chdtrc(equations.surplus, statements.least)) if equations.surplus else None,
        law=LAW + ("" if of == "cohort" else ONE_VARIANCE),
        notes=weighted_words(chosen),
        warnings=(*chosen.bound_notes, *chosen.count_notes, *doubts),
        scaled_columns=(*explaining[1:], told),
    )


def _intervals(statements: InstrumentSolution, offsets: FloatArray, limit: float | None) -> list[Interval | None]:
    """Return the accepted values, with `offsets` added, shape `(k,)`; None where nothing is told, or without limit."""
    if limit is None:
        return [None] * offsets.size
    pairs = (statements.intervals(limit) + offsets[:, np.newaxis]).tolist()
    return [(low, high) if np.isfinite([low, high]).all() else None for low, high in pairs]


def _coefficients(
    statements: InstrumentSolution,
    to_units: FloatArray,
    offsets: FloatArray,
    names: Sequence[str],
    ends: Sequence[Interval | None],
    of: Of,
    confidence: float,
) -> tuple[Coefficient, ...]:
    """Return the statements as coefficients: `to_units` of shape `(k, s - 1)`, and `offsets` of shape `(k,)`."""
    found = LinearErrors(statements.parts, to_units, confidence, of).around(names, statements.values + offsets)
    p_values = special.chdtrc(statements.degrees, statements.at(-offsets)).tolist()
    return tuple(
        replace(one, degrees_of_freedom=None, interval=interval, p_value=p_value)
        for one, interval, p_value in zip(found, ends, p_values, strict=True)
    )


def _chosen(
    gram: GramEstimate, target: str, exogenous: Sequence[str], endogenous: Sequence[str], instruments: Sequence[str]
) -> GramEstimate:
    """Return the constant, the exogenous columns, the instruments, the endogenous columns and the target."""
    constants = [column.name for column in gram.columns if column.constant]
    if not constants:
        raise InvalidAnalysisError(NEEDS_CONSTANT)
    if not endogenous:
        raise InvalidAnalysisError("name at least one endogenous column; without one, ask for `regression`")
    if len(instruments) < len(endogenous):
        raise InvalidAnalysisError(
            f"{len(endogenous)} endogenous columns need at least as many instruments, got {len(instruments)}"
        )
    names = [*exogenous, *instruments, *endogenous, target]
    if constants[0] in names:
        raise InvalidAnalysisError(f"{constants[0]!r} is the same for everybody; it is an instrument of itself")
    positions(gram.columns, names)
    if gram.num_rows <= len(names):
        raise InvalidAnalysisError(f"{len(names)} columns need more than {gram.num_rows} clients; name fewer")
    return gram.restrict([constants[0], *names])


def _equations(chosen: GramEstimate, roles: Sequence[Sequence[str]], of: Of) -> InstrumentEquations:
    """Return the equations of the columns of `_chosen`."""
    size, common = len(chosen.columns), 1 + len(roles[0])
    rows = np.arange(common + len(roles[2]))
    across = np.append(np.arange(common), np.arange(rows.size, size))
    kernel, sigma = chosen.errors.kernel(size), chosen.errors.spectral_sigma
    assert kernel is not None  # `known_noise` made sure of both
    assert sigma is not None
    values, vectors = chosen.eigenvectors
    products = np.zeros((size, size))
    if of == "population":
        products = (vectors * np.maximum(values, 0)) @ vectors.T
    return InstrumentEquations(
        matrix=chosen.matrix[np.ix_(rows, across)],
        sigma=sigma,
        kernel=kernel[:common, :common],
        residual=products[np.ix_(across, across)] / chosen.residual_weight(across.size - 1),
        spread=products[np.ix_(rows, rows)],
    )
