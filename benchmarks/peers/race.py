"""The race of regressions on public tables, by the protocol of docs/explanation/race.md.

A cell is a table, one way to bound rows and one epsilon. Cells are kept in benchmarks/data/race.jsonl with their date
and commit, one a line, and one that is there is not run again; the tables of the page are made of that file.
"""

import datetime
import json
import math
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from showing import Cell, FloatArray, IntArray, Shown, spread

from peers.contestants import CONTESTANTS, CURATOR, HESSIAN, NO_PRIVACY, OURS, PEERS, WEIGHTED, Setting
from peers.public_tables import TABLES

KEPT = Path(__file__).resolve().parents[1] / "data" / "race.jsonl"
PREPARED = Path(__file__).resolve().parents[2] / "build" / "race" / "tables"
EPSILONS, DEVIATIONS, RUNS = (0.25, 1.0, 4.0), 3.0, 20
LARGEST, STANDARD = "largest", "standard"
BOUNDS = (LARGEST, STANDARD)
"""How rows are bounded: as the authors of Iterative Hessian Mixing do it, or as Lintra's other races do."""

Scores = dict[str, dict[str, list[float]]]


@dataclass(frozen=True)
class Bounded:
    """A table within public bounds.

    Attributes:
        rows: shape `(n, D)`, the target last.
        feature_bound, target_bound, row_bound, entry_bound: as in `Setting`.
        delta: of the promise.
    """

    rows: FloatArray
    feature_bound: float
    target_bound: float
    row_bound: float
    entry_bound: float
    delta: float

    def setting(self, epsilon: float) -> Setting:
        """Return what is public."""
        bounds = (self.feature_bound, self.target_bound, self.row_bound, self.entry_bound)
        return Setting(epsilon, self.delta, *bounds)


def bounded(rows: FloatArray, how: str) -> Bounded:
    """Return a table in the units of one way to bound rows; what they take from the table counts as public."""
    count = len(rows) * 4 // 5
    if how == LARGEST:
        longest = float(np.linalg.norm(rows[:, :-1], axis=1).max())
        largest = float(np.abs(rows[:, -1]).max())
        scaled = np.column_stack([rows[:, :-1] / longest, rows[:, -1] / largest])
        return Bounded(scaled, 1.0, 1.0, math.sqrt(2), 1.0, count**-2.0)
    standard = np.clip((rows - rows.mean(axis=0)) / rows.std(axis=0), -DEVIATIONS, DEVIATIONS)
    size = rows.shape[1]
    return Bounded(standard, math.sqrt(size - 1), DEVIATIONS, math.sqrt(size), DEVIATIONS, 1e-6)


def parts(count: int, seed: int) -> tuple[IntArray, IntArray]:
    """Return the numbers of the rows to learn from, four fifths, and of those to test on."""
    order = np.random.default_rng([seed, 1]).permutation(count)
    return order[: count * 4 // 5], order[count * 4 // 5 :]


def error(found: FloatArray, rows: FloatArray) -> float:
    """Return the mean squared error over that of predicting 0."""
    size = rows.shape[1] - 1
    predicted = rows[:, :-1] @ found[:size] + (found[size] if len(found) > size else 0.0)
    target = rows[:, -1]
    return float(np.square(target - predicted).sum() / np.square(target).sum())


def by_peers(jobs: Sequence[tuple[Bounded, float]], python: str, runs: int) -> list[dict[str, FloatArray]]:
    """Return for each table and epsilon what those with an environment of their own made of it, by name and run."""
    with tempfile.TemporaryDirectory() as folder:
        pairs = [(Path(folder) / f"{job}-in.npz", Path(folder) / f"{job}-out.npz") for job in range(len(jobs))]
        for (table, epsilon), (asked, _) in zip(jobs, pairs, strict=True):
            np.savez(
                asked, rows=table.rows, bound=table.entry_bound, row_bound=table.row_bound, epsilon=epsilon,
                peers=[name for name in PEERS if name != "opendp_regression" or table.rows.shape[1] == 2],
                seeds=np.arange(runs), learnt=np.array([parts(len(table.rows), seed)[0] for seed in range(runs)]),
            )  # fmt: skip
        words = [str(path) for pair in pairs for path in pair]
        subprocess.run([python, str(Path(__file__).with_name("fits.py")), *words], check=True)
        return [dict(np.load(answered, allow_pickle=False)) for _, answered in pairs]


def measured(
    table: Bounded, epsilon: float, peers: dict[str, FloatArray], runs: int, *, weighted: bool = True
) -> Scores:
    """Return the errors of everybody on the rows learnt from and on those tested on, run by run."""
    setting = table.setting(epsilon)
    scores: Scores = {}
    for seed in range(runs):
        learnt, tested = (table.rows[numbers] for numbers in parts(len(table.rows), seed))
        found = {name: fit(learnt, setting, seed) for name, fit in CONTESTANTS.items() if name != WEIGHTED or weighted}
        found |= {said: peers.get(f"{name}_{seed}") for name, said in PEERS.items()}
        for name, answer in found.items():
            if answer is not None:
                held = scores.setdefault(name, {"train": [], "test": []})
                held["train"].append(error(answer, learnt))
                held["test"].append(error(answer, tested))
    return scores


def run(python: str, folder: Path, names: Sequence[str], runs: int, kept: Path = KEPT) -> None:
    """Measure the cells of some tables that are not kept yet, and keep them."""
    known = {(cell["table"], cell["bounds"], cell["epsilon"]) for cell in cells(kept)}
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    for name in names:
        with np.load(folder / f"{name}.npz", allow_pickle=False) as held:
            rows = held["rows"]
        left = [(how, epsilon) for how in BOUNDS for epsilon in EPSILONS if (name, how, epsilon) not in known]
        tables = {how: bounded(rows, how) for how in BOUNDS}
        answers = by_peers([(tables[how], epsilon) for how, epsilon in left], python, runs)
        for (how, epsilon), peers in zip(left, answers, strict=True):
            scores = measured(tables[how], epsilon, peers, runs, weighted=how == STANDARD)
            summed = {
                who: {part: [*_points(values), len(values)] for part, values in held.items()}
                for who, held in scores.items()
            }
            line = {
                "table": name, "bounds": how, "epsilon": epsilon, "rows": len(rows) * 4 // 5,
                "features": rows.shape[1] - 1, "runs": runs, "date": f"{datetime.date.today():%Y-%m-%d}",  # noqa: DTZ011
                "commit": head.stdout.strip(), "errors": summed,
            }  # fmt: skip
            with kept.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line, separators=(",", ":")) + "\n")


def _points(values: Sequence[float]) -> list[float]:
    found = spread(values)
    return [float(f"{value:.4g}") for value in (found.median, found.low, found.high)]


def cells(kept: Path = KEPT) -> Iterator[dict[str, Any]]:
    """Yield the kept cells."""
    if kept.exists():
        yield from map(json.loads, kept.read_text("utf-8").splitlines())


def private(cell: dict[str, Any]) -> dict[str, dict[str, list[float]]]:
    """Return the errors of those who keep a promise and answered in every run."""
    return {who: held for who, held in cell["errors"].items() if who != NO_PRIVACY and held["test"][3] == cell["runs"]}


def best(cell: dict[str, Any], part: str) -> str:
    """Name the contestant of the smallest median error."""
    held = private(cell)
    return min(held, key=lambda who: held[who][part][0])


def counts(kept: Path = KEPT) -> Shown:
    """Return who is best on how many tables, and who beats Iterative Hessian Mixing on how many."""
    lines: list[tuple[Cell, ...]] = []
    for how, epsilon in ((how, epsilon) for how in BOUNDS for epsilon in EPSILONS):
        here = [cell for cell in cells(kept) if (cell["bounds"], cell["epsilon"]) == (how, epsilon)]
        who = [name for name in CONTESTANTS if name != NO_PRIVACY] + list(PEERS.values())
        for part in ("test", "train"):
            winners = [best(cell, part) for cell in here]
            ahead = [
                sum(private(cell)[name][part][0] < private(cell)[HESSIAN][part][0] for cell in here)
                if all(name in private(cell) for cell in here) else None
                for name in (OURS, CURATOR, WEIGHTED)
            ]  # fmt: skip
            lines.append((how, epsilon, part, len(here), *(winners.count(name) for name in who), *ahead))
    return Shown(
        "race-counts", "On how many tables each has the smallest median error",
        ("bounds", "epsilon", "error", "tables", *(name for name in CONTESTANTS if name != NO_PRIVACY), *PEERS.values(),
         "Lintra ahead of Hessian Mixing", "Lintra, curator, ahead", "Lintra, row weights, ahead"),
        tuple(lines), f"{_kept(kept)} {SAID}",
    )  # fmt: skip


def errors(how: str, epsilon: float, kept: Path = KEPT) -> Shown:
    """Return the median test error of everybody on every table, and the name of the best."""
    here = [cell for cell in cells(kept) if (cell["bounds"], cell["epsilon"]) == (how, epsilon)]
    who = [name for name in (*CONTESTANTS, *PEERS.values()) if name != WEIGHTED or how == STANDARD]

    def of(cell: dict[str, Any], name: str) -> Cell:
        if name not in cell["errors"]:
            return None
        median, _, _, answers = cell["errors"][name]["test"]
        return float(median) if answers == cell["runs"] else f"{answers} of {cell['runs']}"

    rows = tuple(
        (cell["table"], cell["rows"], cell["features"], *(of(cell, name) for name in who), best(cell, "test"))
        for cell in sorted(here, key=lambda cell: -cell["rows"])
    )
    return Shown(
        f"race-{how}-{epsilon:g}", f"Test error, bounds {how!r}, epsilon {epsilon:g}",
        ("table", "rows", "features", *who, "best"), rows, f"{_kept(kept)} {SAID}",
    )  # fmt: skip


SAID = (
    "Medians of 20 runs, whose 10 % and 90 % points are in the kept file. Error: mean squared error over that of "
    "predicting 0. Lintra is the sum over servers, for a replaced row. All others are curators, for a row that may "
    "become the null row, or a replaced one. '19 of 20': no answer in one run."
)


def _kept(kept: Path) -> str:
    found = list(cells(kept))
    days, commits = sorted({cell["date"] for cell in found}), sorted({cell["commit"] for cell in found})
    return f"Kept cells of {' to '.join(dict.fromkeys((days[0], days[-1])))}, commits {', '.join(commits)}."


def shown() -> dict[str, Callable[[], Shown]]:
    """Return the tables by name."""
    found = {f"race-{how}-{epsilon:g}": (how, epsilon) for how in BOUNDS for epsilon in EPSILONS}
    return {"race-counts": counts} | {name: (lambda which=which: errors(*which)) for name, which in found.items()}


ALL = tuple(TABLES)
