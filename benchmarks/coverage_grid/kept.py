"""Cells in a file, one a line: what bench_coverage.py has computed, and what its tables are made of."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from coverage_grid.cells import Cell
from coverage_grid.population import Pairs

DIGITS = 6
"""Digits of a kept number: more than a share of 400 releases has."""


@dataclass(frozen=True)
class Key:
    """What a cell is of; `str` gives its name in the file.

    Attributes:
        kind: "cohort", "population" or "pairs".
        residuals: "alike" or "any", for the population.
    """

    kind: str
    residuals: str
    seed: int
    draws: int
    table: str
    log2_clients: int
    intercept: bool
    epsilon: float

    def __str__(self) -> str:
        how = "" if self.residuals == "alike" else f" {self.residuals}"
        cell = f"{self.table} {self.log2_clients} {self.intercept} {self.epsilon}"
        return f"{self.kind}{how} {self.seed} {self.draws} {cell}"

    @classmethod
    def of(cls, words: str) -> "Key":
        """Read a name."""
        *what, seed, draws, table, size, intercept, epsilon = words.split()
        residuals = what[1] if len(what) > 1 else "alike"
        return cls(what[0], residuals, int(seed), int(draws), table, int(size), intercept == "True", float(epsilon))


def read(path: Path | None) -> dict[Key, Cell | Pairs]:
    """Return the cells that a file holds, in its order; none without a file."""
    if path is None or not path.exists():
        return {}
    return dict(_cells(path))


def _cells(path: Path) -> Iterator[tuple[Key, Cell | Pairs]]:
    for text in path.read_text("utf-8").splitlines():
        one = json.loads(text)
        key = Key.of(one["key"])
        yield key, Pairs(**one["cell"]) if key.kind == "pairs" else Cell(**one["cell"])


def line(key: Key, cell: Cell | Pairs) -> str:
    """Return a cell as a line of a file."""
    held = {name: _rounded(value) for name, value in asdict(cell).items()}
    return json.dumps({"key": str(key), "cell": held}, separators=(",", ":"))


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value
