"""Rows that are tried, their moments without noise, and what they are held against."""

import numpy as np

from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.gram_error import GramEstimate
from lintra_analysis.releases.noise_laws.symmetric_noise import SymmetricNoise
from lintra_analysis.trial.verdict import OwnRows
from lintra_protocol.crypto.ring import FloatArray

ROWS = 3000


def rows_of(seed: int, features: int, *, near: float = 1.0) -> FloatArray:
    """Rows of features of which two may be nearly the same, and a target that some of them explain."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(ROWS, features))
    rows[:, 1] = rows[:, 0] + near * rows[:, 1]
    slopes = rng.normal(size=features) * (rng.random(features) < 0.6)
    return np.column_stack([rows, rows @ slopes + (1 + rng.random()) * rng.normal(size=ROWS)])


def exact_of(rows: FloatArray, sigma: float) -> GramEstimate:
    """Return the moments of rows beside a one, without noise but with its law."""
    whole = np.column_stack([np.ones(len(rows)), rows])
    names = [*(f"x{number}" for number in range(rows.shape[1] - 1)), "y"]
    columns = (ScaledColumn("(intercept)", 0, 1, 1, 1), *(ScaledColumn(name, 0, 1, -9, 9) for name in names))
    law = SymmetricNoise(sigma, trace_tight=True, num_columns=len(columns))
    return GramEstimate(columns, whole.T @ whole, law, len(rows), 9.0)


def beside(rows: FloatArray, exact: GramEstimate) -> OwnRows:
    """Return the rows as those of a table."""
    return OwnRows.of(rows, exact.columns, own_slopes=True)
