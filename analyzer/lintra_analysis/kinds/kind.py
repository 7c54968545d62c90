"""A kind of mechanism on the analyst's side: how it is specified, built, predicted and read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic

from lintra_analysis.kinds.by_kind import ByKind
from lintra_analysis.kinds.context import CalibrationContext, M
from lintra_analysis.kinds.options import MechanismSpecification
from lintra_analysis.kinds.prediction import Expected
from lintra_analysis.kinds.released_parts import Earlier, band_of_sums, nothing_impossible, one_row
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.task import Task


def row_bound_warnings(task: Task, mechanism: Mechanism) -> list[str]:
    """Warn of a bound that no row can reach."""
    bound, farthest = float(fraction(mechanism.row_bound)), task.schema_arrays.largest_norm()
    if bound <= farthest * (1 + 1e-9):
        return []
    return [f"row_bound {bound:g} is larger than any row can be ({farthest:.6g}); it only costs noise"]


def no_warnings(task: Task, mechanism: Mechanism) -> list[str]:
    """Warn of nothing."""
    del task, mechanism
    return []


@dataclass(frozen=True)
class Kind(Generic[M]):
    """One kind of mechanism; the module of this package that is called like it holds it as `KIND`."""

    mechanism: type[M]  #: the kind's class
    spec: type[MechanismSpecification] | None  #: how it is asked for; None if it only follows another task
    #: returns the mechanism with the smallest noise that keeps the claim, in its setting; nothing else makes one, for a
    #: task or for a plan. Raises InvalidTaskError, RowUnderfilledError or FalseClaimError where there is none.
    build: Callable[[CalibrationContext[Any]], Measurement]
    #: what is expected of the release of a mechanism that `build` has returned
    predict: Callable[[CalibrationContext[Any], M], Expected]
    #: from task, mechanism, integers of shape `(m, w/c)`, row counts of shape `(m,)` and the releases of earlier tasks
    #: to the release
    read: Callable[[Task, M, IntArray, IntArray, Earlier], Release]
    #: what an analyst should know about a valid task of this kind before it starts, in plain words
    warnings: Callable[[Task, M], list[str]] = row_bound_warnings
    #: whether values enter the encoder as they are; else by default less the middle of their bounds, over half the
    #: width
    own_units: bool = False
    #: the kind whose second round this is; then `build` makes the second round of a context with a first
    follows: str = ""
    #: whether the release of a task gives the parameter of another task of this kind; `build` then makes it likewise
    chains: bool = False
    rows_of_a_report: Callable[[M], int] = one_row  #: s, how many rows of the released numbers a report enters
    #: from task, mechanism, row counts and a number z of deviations to what an entry of each row may plausibly be at
    #: most, shape `(m, 1)` or `(m, w/c)`
    band: Callable[[Task, M, IntArray, float], FloatArray] = band_of_sums
    #: from task, mechanism, integers and row counts to what is impossible about the totals of organisations
    totals: Callable[[Task, M, IntArray, IntArray], list[str]] = nothing_impossible


# Each entry is about the mechanism that it is looked up for; a type that says so for all of them cannot be written.
KINDS: ByKind[Kind[Any]] = ByKind("lintra_analysis.kinds", "KIND", Kind)
"""By `kind` of a mechanism."""


def kind_that_follows(kind: str) -> Kind[Any] | None:
    """Return the kind that makes a further round after tasks of a kind, if there is one."""
    if kind in KINDS.all() and KINDS[kind].chains:
        return KINDS[kind]
    return next((candidate for candidate in KINDS.all().values() if candidate.follows == kind), None)
