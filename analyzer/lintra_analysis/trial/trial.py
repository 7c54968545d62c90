"""Runs the whole protocol on one's own table: collects it, analyses the release, and compares the answer.

The bounds and scales follow from the table by the rule of `files.bounds`, and the weights of rows by that of
`row_weights`, both stated beforehand; nothing is chosen by its result. A trial is not private: it shows the table's
own numbers beside the private ones.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lintra_analysis.kinds.range_finder import COLUMNS_OF_A_RANGE, proposed_intercept
from lintra_analysis.spec.build_task import claim_of
from lintra_analysis.spec.specification import Specification
from lintra_analysis.trial.coefficients import RegressionComparison, coefficients_of
from lintra_analysis.trial.collection import collect, collect_chain
from lintra_analysis.trial.directions import DirectionComparison, directions_of
from lintra_analysis.trial.files.bounds import Bounds, bounds_of
from lintra_analysis.trial.files.schema import column_documents
from lintra_analysis.trial.files.table import FileTable
from lintra_analysis.trial.logistic import LogisticComparison, logistic_document, logistic_of, weighting_of
from lintra_analysis.trial.organisations import PooledComparison, Whose, contributors_of, pooled_of
from lintra_analysis.trial.row_weights import RowWeighting, weighted_document
from lintra_analysis.trial.selection import EncodedRows, chosen_columns, complete_rows, logistic_columns, missing_of
from lintra_analysis.trial.verdict import Verdict
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.documents import real
from lintra_protocol.fields.schema import Schema


@dataclass(frozen=True, repr=False)
class Trial:
    """What a trial found.

    Attributes:
        specification: of a task that would collect such rows; its bounds come from this table.
        target: the column that was explained.
        rows: collected, each as one client's report or as part of an organisation's.
        incomplete_rows: of these, rows in which a number is missing.
        missing: columns with missing numbers, and in how many rows; the largest first.
        left_out: columns that cannot be collected, and why.
        clipped_share: of the rows, that a bound changed.
        epsilon: of the release, as its certificate would state it; of rounds that of all together.
        answer: beside that of the table itself.
        pooled: what organisations learn together and alone; None where every row is a client's.
        seconds: that it took.
    """

    specification: dict[str, object]
    target: str
    rows: int
    incomplete_rows: int
    missing: dict[str, int]
    left_out: dict[str, str]
    clipped_share: float
    epsilon: float
    answer: RegressionComparison | DirectionComparison | LogisticComparison
    pooled: PooledComparison | None
    seconds: float

    def __repr__(self) -> str:
        return f"Trial({self.target!r}, {self.rows} rows)"

    @property
    def verdict(self) -> Verdict | None:
        """Whether collecting such rows would tell the table's slopes; None of a range finder's directions."""
        return None if isinstance(self.answer, DirectionComparison) else self.answer.judgement.verdict

    def document(self) -> dict[str, object]:
        """Return the trial as JSON holds it."""
        plain = {name: value for name, value in vars(self).items() if name not in ("answer", "pooled")}
        return plain | self.answer.document() | ({} if self.pooled is None else self.pooled.document())


def is_wide(table: FileTable, target: str) -> bool:
    """Return whether a table has so many columns that a range finder is tried: those at which `plan` shows one."""
    held = chosen_columns(table, target).columns
    return sum(max(len(column.levels) - 1, 1) for column in held) >= COLUMNS_OF_A_RANGE


def try_table(
    table: FileTable,
    target: str,
    epsilon: float,
    delta: float | None,
    now: int,
    random_bytes: RandomBytes,
    said: Callable[[str], None] = lambda _: None,
    *,
    wide: bool = False,
    whose: Whose | None = None,
    rows_per_person: int | None = None,
    draws: int | None = None,
) -> Trial:
    """Collect a table privately, explain one column by the others, and compare with the table itself.

    `target` is a column of numbers, of zeros and ones, or of two levels. `delta` is promised; the usual one for so many
    rows if not given. `said` is told in words how far the trial is. `wide` takes a range finder instead of all
    products. `whose` is that of every row of the table where organisations contribute; `rows_per_person` says to keep
    so many rows of each person in an organisation, the first ones; all if not given. `draws` is how many collections
    are simulated.
    """
    started, asked, table = time.perf_counter(), table.num_rows, chosen_columns(table, target)
    if whose is not None:
        places = whose.first(rows_per_person)
        table, whose = table.rows(places), whose.kept(places)
    complete, incomplete = complete_rows(table)
    bounds, block = bounds_of(table), table.block()
    specification = _specification(table, bounds, epsilon, delta, wide=wide)
    if not wide and (whose is None or whose.rows_per_person == 1):
        # The rows of a person who has several are shrunk together, for which there is no rule.
        specification |= _weighted(specification, bounds, complete)
    whole: NDArray[np.bool_] = np.logical_or(~np.isnan(block).any(axis=1), wide)
    persons = None if whose is None else whose.pairs[whole]
    if whose is not None and persons is not None:
        specification |= contributors_of(whose, bounds, complete, persons)
    collected = collect(specification, block, now, random_bytes, said, () if whose is None else whose.files)
    said("simulating collections of these rows")
    weighting = RowWeighting.stated(specification)
    rows = EncodedRows.of(bounds, block[whole], persons, collected.task.measurement.person_norm, weighting)
    answer: RegressionComparison | DirectionComparison
    if wide:
        answer = directions_of(collected, rows)
    else:
        answer = coefficients_of(collected, rows, bounds.columns, table.num_rows, draws)
    pooled = None
    if whose is not None and isinstance(answer, RegressionComparison):
        dropped = asked - table.num_rows
        pooled = pooled_of(whose, collected, answer, rows, whole, dropped, said)
    return Trial(
        specification=specification,
        target=rows.names[-1],
        rows=table.num_rows,
        incomplete_rows=incomplete,
        missing=missing_of(table),
        left_out=table.left_out,
        clipped_share=rows.changed,
        epsilon=collected.privacy.epsilon,
        answer=answer,
        pooled=pooled,
        seconds=time.perf_counter() - started,
    )


def try_logistic(
    table: FileTable,
    target: str,
    epsilon: float,
    delta: float | None,
    now: int,
    random_bytes: RandomBytes,
    said: Callable[[str], None] = lambda _: None,
    *,
    draws: int | None = None,
) -> Trial:
    """Run the rounds of a logistic regression of one column on the others, and compare with the table's own.

    The arguments are those of `try_table`. `target` is a column of zeros and ones, or of two levels. `draws` is how
    many chains are simulated.
    """
    started, table = time.perf_counter(), logistic_columns(chosen_columns(table, target), target)
    complete, incomplete = complete_rows(table)
    bounds, block = bounds_of(table), table.block()
    specification = _specification(table, bounds, epsilon, delta, wide=False)
    claim = claim_of(Specification.model_validate(specification))
    schema = Schema(bounds.columns, indicators=True)
    features, explained = schema.normalise(complete)[:, :-1], schema.encoded[-1].name
    specification |= logistic_document(features, claim, {"kind": "newton_step", "target": explained})
    chain = collect_chain(specification, block, now, random_bytes, said)
    said("simulating collections of these rows")
    whole = ~np.isnan(block).any(axis=1)
    rows = EncodedRows.of(bounds, block[whole], None, None, weighting_of(specification))
    return Trial(
        specification=specification,
        target=explained,
        rows=table.num_rows,
        incomplete_rows=incomplete,
        missing=missing_of(table),
        left_out=table.left_out,
        clipped_share=rows.changed,
        epsilon=claim.float_epsilon,
        answer=logistic_of(chain, rows, claim, draws),
        pooled=None,
        seconds=time.perf_counter() - started,
    )


def _weighted(specification: dict[str, object], bounds: Bounds, complete: FloatArray) -> dict[str, object]:
    """Return mechanism and row bound with rows weighted by the rule for these very rows, `(n, d)`, without a gap.

    The target is the last column.
    """
    claim = claim_of(Specification.model_validate(specification))
    schema, whole = Schema(bounds.columns, indicators=True), len(complete) / claim.min_clients
    rows, target = schema.normalise(complete), schema.encoded[-1].name
    mechanism, bound = weighted_document(
        bounds.columns, rows, claim, {"kind": "second_moment"}, target=target, whole=whole, at_hand=True
    )
    return {"mechanism": mechanism, "row_bound": bound}


def _specification(
    table: FileTable, bounds: Bounds, epsilon: float, delta: float | None, *, wide: bool
) -> dict[str, object]:
    """Return the specification of a task that collects rows like a table's, each from a client of its own."""
    documents = column_documents(table, bounds.columns)
    mechanism: dict[str, object] = {"kind": "second_moment", "intercept": bounds.intercept, "trace": True}
    if wide:
        # What is missing stands at its centre here: a range finder cannot leave rows out.
        documents = [{name: value for name, value in each.items() if name != "missing"} for each in documents]
        mechanism = {
            "kind": "range_finder",
            "intercept": proposed_intercept(bounds.row_bound),
            "targets": [{"column": Schema(bounds.columns, indicators=True).encoded[-1].name}],
            "trace": True,
        }
    return {
        "purpose": "A trial. Bounds, centres, scales and levels come from the table that was tried: before a real "
        "collection replace them by public ones.",
        "columns": documents,
        "mechanism": mechanism,
        "row_bound": bounds.row_bound,
        "epsilon": real(epsilon),
        **({} if delta is None else {"delta": real(delta)}),
        "min_clients": table.num_rows,
        **({"share_form": "spread"} if wide else {}),
    }
