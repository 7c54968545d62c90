"""A trial of a data frame or a file from Python, as `lintra trial` makes it."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from lintra_analysis.trial.directions import DirectionComparison
from lintra_analysis.trial.files.table import FileCells, Readings, table_of
from lintra_analysis.trial.text import html, show
from lintra_analysis.trial.trial import Trial, try_logistic, try_table
from lintra_protocol.crypto.randomness import bulk_system_randomness
from lintra_protocol.errors import InvalidAnalysisError

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, repr=False)
class FrameTrial(Trial):
    """A trial as a session of Python shows it."""

    def summary(self) -> str:
        """Return what was found as a text for people."""
        return show(self)

    def to_frame(self) -> "DataFrame":
        """Return what draws say of each slope as a pandas table, by name.

        Raises:
            InvalidAnalysisError: the trial was of a range finder's directions, which has none.
        """
        import pandas

        if isinstance(self.answer, DirectionComparison):
            raise InvalidAnalysisError("a trial along directions has no slopes")
        return pandas.DataFrame([asdict(slope) for slope in self.answer.judgement.slopes]).set_index("name")

    def _repr_html_(self) -> str:
        return html(self)


def trial(
    rows: Any,
    target: str,
    *,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    as_: Mapping[str, str] | None = None,
    missing: Mapping[str, str] | None = None,
    epsilon: float = 1.0,
    delta: float | None = None,
    draws: int | None = None,
    family: Literal["logistic"] | None = None,
    accept_guesses: bool = False,
) -> FrameTrial:
    """Collect a table privately on this machine, and say what collections like it would tell of it.

    >>> from lintra_analysis import trial
    >>> import numpy as np, pandas as pd
    >>> rng = np.random.default_rng(1)
    >>> frame = pd.DataFrame({"age": rng.normal(50, 10, 2000), "dose": rng.normal(5, 1, 2000)})
    >>> frame["pressure"] = 80 + frame["age"] - 4 * frame["dose"] + rng.normal(0, 5, 2000)
    >>> trial(frame, "pressure", epsilon=4).verdict
    'good'

    Args:
        rows: a data frame of pandas, or the path of a CSV or Parquet file.
        target: the column to explain.
        columns: those that explain it; all others by default.
        drop: columns that are left out.
        as_: how a column is meant, by name, such as `{"plz": "category"}`.
        missing: a cell that means a missing value, by the name of its column.
        epsilon: what is promised to every row.
        delta: by default a millionth, or one over the rows if that is less.
        draws: how many collections are simulated; by default 200 to 24 numbers a row, 50 to 64, 20 beyond; of rounds
            50 to 24 and 20 beyond.
        family: "logistic" explains a target of zeros and ones by a logistic regression, in rounds of the same rows.
        accept_guesses: whether a column that can be read in two ways is read in the likelier one.

    Returns:
        A trial, whose `verdict`, `summary()`, `to_frame()` and `specification` say what was found.

    Raises:
        InvalidTableError: a column can be read in two ways and nothing says in which, or it cannot be tried.
        InvalidAnalysisError: nothing can be explained.
    """
    keep = () if columns is None else tuple(dict.fromkeys([*columns, target]))
    ways = [f"{name}={reading}" for name, reading in (as_ or {}).items()]
    codes = [f"{name}={code}" for name, code in (missing or {}).items()]
    readings = Readings.from_options(ways, codes, drop, keep, guess=accept_guesses)
    cells = FileCells.of(rows)
    table = table_of(*cells.read(readings), len(cells.columns[0]), readings, cells.note)
    run = try_table if family is None else try_logistic
    found = run(table, target, epsilon, delta, int(time.time()), bulk_system_randomness(), draws=draws)
    return FrameTrial(**vars(found))
