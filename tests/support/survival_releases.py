"""Crossed histograms of durations, events and groups, drawn from known laws, for tests of survival curves."""

import numpy as np

from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.crossed_cells import CrossedCells
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import FloatArray

END = 10.0
NAMED = (
    ScaledColumn("years", 0.0, 1.0, 0.0, 40.0, "years"),
    ScaledColumn("died", 0.0, 1.0, 0.0, 1.0, "", "boolean"),
    ScaledColumn("arm", 0.0, 1.0, 0.0, 1.0, "", "category"),
)


def lives(
    count: int, rates: FloatArray, censoring: FloatArray, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return durations, events and groups of rows with constant hazards in two groups, each of shape `(n,)`."""
    arm = generator.integers(0, 2, count)
    dies, leaves = generator.exponential(1 / rates[arm]), generator.exponential(1 / censoring[arm])
    return np.minimum(dies, leaves), dies <= leaves, arm


def counted(lived: tuple[FloatArray, FloatArray, FloatArray], bins: int) -> FloatArray:
    """Return rows in cells of time, with one beyond the end, event and arm; shape `(bins + 1, 2, 2)`."""
    edges = [*np.linspace(0, END, bins + 1), 1e9]
    return np.histogramdd(np.column_stack(lived), [edges, [-0.5, 0.5, 1.5], [-0.5, 0.5, 1.5]])[0]


def released(cells: FloatArray, noise_sd: float, generator: np.random.Generator) -> Release:
    """Release cells of shape `(b + 1, 2, 2)` with noise."""
    bins = cells.shape[0] - 1
    edges = (np.array([*np.linspace(0, END, bins + 1), 40.0]), np.array([]), np.array([]))
    noisy = cells + noise_sd * generator.normal(size=cells.shape)
    levels = ((), ("0", "1"), ("A", "B"))
    missing = float(noise_sd * generator.normal())
    return Release(crossed=CrossedCells(NAMED, edges, levels, noisy, missing, noise_sd, int(cells.sum())))
