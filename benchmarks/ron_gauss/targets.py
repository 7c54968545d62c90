"""Tables with a number to explain, for the regression of RON-Gauss; bounds are extremes, taken as public.

Diabetes is not shipped; `diabetes.py` says how to have it.
"""

from pathlib import Path

import numpy as np
from bench_ron_gauss import Rows

HERE = Path(__file__).resolve().parents[1]
PLACES = {
    "diabetes": HERE.parent / "build" / "diabetes.npz",
    "concrete": HERE / "data" / "uci_concrete.npz",
    "energy": HERE / "data" / "uci_energy.npz",
}
DIMENSION = 4
"""p, as for the wine, which has about as many columns."""


def with_targets() -> list[Rows]:
    """Return the tables that are there."""
    return [with_target(name) for name, path in PLACES.items() if path.is_file()]


def with_target(name: str) -> Rows:
    """Return a table with columns and target mapped to [-1, 1]."""
    with np.load(PLACES[name], allow_pickle=False) as held:
        values, target = held["X"].astype(np.float64), held["y"].astype(np.float64)
    mapped = 2 * (values - values.min(axis=0)) / np.ptp(values, axis=0) - 1
    scaled = 2 * (target - target.min()) / np.ptp(target) - 1
    shape = f"{values.shape[0]} x {values.shape[1]}"
    return Rows(f"{name} {shape}", mapped, np.zeros(len(target), np.int64), scaled, DIMENSION, name)
