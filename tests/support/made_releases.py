"""Releases with known rows behind them, for the tests of estimators."""

import numpy as np

from lintra_analysis.releases.column_sums import Totals
from lintra_analysis.releases.columns import ScaledColumn, centers, scales
from lintra_analysis.releases.release import Release
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_analysis.releases.sketch import Sketch
from lintra_protocol.crypto.ring import FloatArray

COEFFICIENTS = np.array([0.5, -0.4, 0.3, 0.2])


def columns(size: int, center: float = 0.0, scale: float = 1.0) -> tuple[ScaledColumn, ...]:
    """Name `size` columns c0, c1, ..."""
    return tuple(ScaledColumn(f"c{i}", center, scale, center - 9 * scale, center + 9 * scale) for i in range(size))


def mixed_columns() -> tuple[ScaledColumn, ...]:
    """Five columns in five units."""
    return tuple(
        ScaledColumn(f"c{i}", 10.0 * i - 15, 0.5 + 2 * i, 10.0 * i - 90, 10.0 * i + 90, unit)
        for i, unit in enumerate("abcde")
    )


def in_units(rows: FloatArray, named: tuple[ScaledColumn, ...]) -> FloatArray:
    """Return normalised rows in the columns' own units."""
    return rows * scales(named) + centers(named)


def regression_rows(count: int, generator: np.random.Generator) -> FloatArray:
    """Return rows of four correlated features and a target, shape `(count, 5)`."""
    mixing = np.eye(4) + 0.3 * np.array([[0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, -1], [0, 1, -1, 0]])
    features = generator.normal(size=(count, 4)) @ mixing
    target = features @ COEFFICIENTS + 0.5 * generator.normal(size=count)
    return np.column_stack([features, target])


def symmetric_noise(size: int, sigma: float, generator: np.random.Generator) -> FloatArray:
    """Return symmetric noise: sd sigma off the diagonal, sqrt(2) sigma on it."""
    noise = generator.normal(size=(size, size)) * sigma
    return np.asarray((noise + noise.T) / np.sqrt(2))


def second_moment(
    rows: FloatArray, sigma: float, generator: np.random.Generator, named: tuple[ScaledColumn, ...] | None = None
) -> SecondMomentSum:
    """Release the second moment of the rows with noise sd `sigma`."""
    size = rows.shape[1]
    values = rows.T @ rows + symmetric_noise(size, sigma, generator)
    return SecondMomentSum(named or columns(size), values, sigma, rows.shape[0], 10.0)


def sketch(
    rows: FloatArray,
    size: int,
    variance: float,
    generator: np.random.Generator,
    named: tuple[ScaledColumn, ...] | None = None,
) -> Sketch:
    """Release a balanced sketch with one nonzero per client; `size` divides the number of rows."""
    count, width = rows.shape
    signs = generator.choice([-1.0, 1.0], size=(count, 1))
    groups = (rows[generator.permutation(count)] * signs).reshape(size, count // size, width)
    values = groups.sum(axis=1) + np.sqrt(variance) * generator.normal(size=(size, width))
    counts = np.full(size, count // size)
    return Sketch(named or columns(width), values, counts, np.full(size, variance), count, 10.0)


def total(
    rows: FloatArray, sigma: float, generator: np.random.Generator, named: tuple[ScaledColumn, ...] | None = None
) -> Release:
    """Release the sum of the rows with noise sd `sigma`."""
    width = rows.shape[1]
    values = rows.sum(axis=0) + sigma * generator.normal(size=width)
    return Release(totals=Totals(named or columns(width), values, sigma, rows.shape[0], 10.0))


def with_constant(rows: FloatArray, named: tuple[ScaledColumn, ...]) -> tuple[FloatArray, tuple[ScaledColumn, ...]]:
    """Put a column that is 1 for everybody before the others."""
    return np.column_stack([np.ones(rows.shape[0]), rows]), (ScaledColumn("one", 0.0, 1.0, 1.0, 1.0), *named)


def with_intercept(
    rows: FloatArray,
    sigma: float,
    generator: np.random.Generator,
    named: tuple[ScaledColumn, ...] | None = None,
    constant: float = 1.0,
) -> SecondMomentSum:
    """Release the second moment of rows, shape `(n, d)`, behind an exact constant, tightened by the trace."""
    count, size = rows.shape
    whole = np.column_stack([np.full(count, constant), rows])
    noise = symmetric_noise(size + 1, sigma, generator)
    noise[0, 0] = 0.0
    shift = np.trace(noise) / size * (1 - 1 / np.sqrt(size + 1))
    noise[range(1, size + 1), range(1, size + 1)] -= shift
    intercept = ScaledColumn("(intercept)", 0.0, 1 / constant, 1.0, 1.0)
    held = (intercept, *(named or columns(size)))
    return SecondMomentSum(held, whole.T @ whole + noise, sigma, count, 10.0, size, "(intercept)")


def confounded(count: int, generator: np.random.Generator) -> FloatArray:
    """Rows of an exogenous column, two instruments, an endogenous column and a target; shape `(n, 5)`."""
    shared, exogenous = generator.normal(size=(2, count))
    instruments = generator.normal(size=(count, 2))
    endogenous = instruments @ [0.6, 0.4] + 0.3 * exogenous + shared + generator.normal(size=count)
    target = 0.2 + 0.5 * endogenous - 0.4 * exogenous + 1.5 * shared + generator.normal(size=count)
    return np.column_stack([exogenous, instruments, endogenous, target])
