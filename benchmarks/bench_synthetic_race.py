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

All scores are kept in the work folder. What is there is shown, with `--write` on the page, whether it is complete or
not; to measure again take another folder. A comparison says that Lintra is better (worse) than the better peer if at
least nine in ten of its runs are better (worse) than the peer's median, and even with it otherwise.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from race.measures import ITERATIONS, Pairs, Race, Score, verdicts
from race.tables import WORDS, tables
from showing import Cell, Shown, show, spread

from lintra_analysis.synthetic.model import fit
from lintra_analysis.synthetic.pairs import GOOD, ROUGH
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.statement import Neighbours

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
NOTIONS: tuple[tuple[str, Neighbours, Pairs], ...] = (
    ("Lintra, null row", "zero-out", "rule"),
    ("Lintra, replaced row", "replace-one", "rule"),
    ("Lintra, null row, no pair tables", "zero-out", ()),
)
OURS = NOTIONS[0][0]
BOUNDS = ("real rows, those learnt from", "real rows apart", "columns shuffled")
WEATHER, NAMED = "nyc_weather", ("month", "temp")
"""Two columns of the weather whose relation is no straight line."""
PEERS = tuple(method.upper() for method in ITERATIONS)
WITHIN = 1.1
"""The aim in two columns together: no more than so many times the better peer's error."""


@dataclass(frozen=True)
class Result:
    """One run of one competitor on one table, or, of `pairs`, what was said of pairs of columns and held."""

    table: str
    who: str
    epsilon: float
    seed: int
    scores: Score
    seconds: float


@dataclass
class Results:
    """All results of a work folder."""

    path: Path
    found: dict[tuple[str, str, float, int], Result] = field(default_factory=dict)

    @classmethod
    def of(cls, work: Path) -> "Results":
        """Read what an earlier run left."""
        held = cls(work / "results.jsonl")
        for line in held.path.read_text("utf-8").splitlines() if held.path.exists() else ():
            result = Result(**json.loads(line))
            held.found[result.table, result.who, result.epsilon, result.seed] = result
        return held

    def add(
        self, key: tuple[str, str, float, int], measured: Callable[[], tuple[Score, float] | None], least: int
    ) -> None:
        """Measure, if that has not been done with so many measures, and keep it."""
        if key in self.found and len(self.found[key].scores) >= least:
            return
        if (done := measured()) is None:
            return
        self.found[key] = Result(*key, *done)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(self.found[key])) + "\n")

    def of_one(self, table: str, who: str, epsilon: float) -> list[Result]:
        """Return the runs of a competitor on a table."""
        return [one for key, one in sorted(self.found.items()) if key[:3] == (table, who, epsilon)]


def compete(race: Race, epsilon: float, seeds: int, peer_seeds: int, results: Results) -> Iterator[str]:
    """Measure what is missing on one table; yields a line after each competitor."""
    table, least = race.table.name, 3 + race.trees

    def add(who: str, seed: int, measured: Callable[[], tuple[Score, float] | None]) -> None:
        results.add((table, who, epsilon, seed), measured, least)

    generator = np.random.default_rng(5)
    shuffled = np.column_stack([generator.permutation(column) for column in race.train.T])
    for who, rows in zip(BOUNDS, (race.train, race.test, shuffled), strict=True):
        add(who, 0, partial(_as_it_is, race, rows, who))
    for method in ITERATIONS:
        for seed in range(peer_seeds):
            add(method.upper(), seed, partial(_peer, race, method, epsilon, seed))
        yield f"{table}: {method}"
    for seed in range(seeds):
        for who, neighbours, pairs in NOTIONS:
            add(who, seed, partial(_own, race, epsilon, seed, neighbours, pairs))
        results.add((table, "pairs", epsilon, seed), partial(_judged, race, epsilon, seed), 1)
        yield f"{table}: Lintra, seed {seed}"


def _as_it_is(race: Race, rows: FloatArray, who: str) -> tuple[Score, float]:
    return race.score(rows, who.replace(" ", "-")), 0.0


def _peer(race: Race, method: str, epsilon: float, seed: int) -> tuple[Score, float] | None:
    found = race.peer(method, epsilon, seed)
    return found and (race.score(found[0], f"{method}-{epsilon:g}-{seed}"), found[1])


def _own(race: Race, epsilon: float, seed: int, neighbours: Neighbours, pairs: Pairs) -> tuple[Score, float]:
    start = time.process_time()
    rows = race.coded_rows(fit(race.release(epsilon, seed, neighbours, pairs)), seed)
    spent = time.process_time() - start
    return race.score(rows, f"lintra-{neighbours}-{pairs and 'pairs'}-{epsilon:g}-{seed}"), spent


def _judged(race: Race, epsilon: float, seed: int) -> tuple[Score, float]:
    """Return how many pairs of columns of a release without pair tables are called good or rough, and how many are."""
    judged = verdicts(race, epsilon, seed)
    good = [true for stated, true in judged if stated <= GOOD]
    rough = [true for stated, true in judged if GOOD < stated <= ROUGH]
    found: Score = {
        "pairs": len(judged),
        "good": len(good),
        "good held": sum(true <= GOOD for true in good),
        "rough": len(rough),
        "rough held": sum(true <= ROUGH for true in rough),
    }
    return found, 0.0


def shown(race: Race, epsilon: float, results: Results) -> Shown:
    """Return the table of one table."""
    table, target = race.table.name, "accuracy" if race.table.levels[-1] else "R2"
    heads = ("", "correlations", "two columns", f"linear {target}", *([f"trees {target}"] if race.trees else []))
    lines: list[tuple[Cell, ...]] = []
    missing = []
    for who in (*BOUNDS, *PEERS, *(words for words, *_ in NOTIONS)):
        runs = results.of_one(table, who, epsilon)
        if not runs:
            missing.append(who)
            continue
        cells = [_cell([run.scores[measure] for run in runs]) for measure in list(runs[0].scores)[: len(heads) - 1]]
        seconds = f"{np.median([run.seconds for run in runs]):.1f}" if who not in BOUNDS else None
        lines.append((who, *cells, len(runs), seconds))
    absent = f" Not run here: {', '.join(missing)}." if missing else ""
    return Shown(
        f"synthetic-{table}",
        f"{WORDS.get(table, table).capitalize()} (`{table}`), {len(race.train):,} rows and "
        f"{len(race.table.names)} columns, epsilon {epsilon:g}",
        (*heads, "runs", "CPU s"),
        tuple(lines),
        f"Medians of the runs, of several with their 10 % and 90 % points.{absent}",
    )


def _cell(values: Sequence[float]) -> str:
    found = spread(values)
    several = f" ({found.low:.3f} to {found.high:.3f})" if len(values) > 1 else ""
    return f"{found.median:.3f}{several}"


def compared(names: Sequence[str], epsilon: float, results: Results) -> Shown:
    """Return who is better in what: Lintra with null rows or the better peer."""
    lines: list[tuple[Cell, ...]] = []
    met = []
    for table in names:
        own = results.of_one(table, OURS, epsilon)
        peers = {who: results.of_one(table, who, epsilon) for who in PEERS}
        if not own or not any(peers.values()):
            continue
        words, wins, ratio = [], {}, 0.0
        for measure, sign in (("correlations", 1), ("pairs", 1), ("linear", -1)):
            medians = {who: float(np.median([r.scores[measure] for r in runs])) for who, runs in peers.items() if runs}
            best = min(medians, key=lambda who: sign * medians[who])
            ours = np.array([run.scores[measure] for run in own])
            better = float(np.mean(sign * ours < sign * medians[best]))
            wins[measure] = "better than" if better >= 0.9 else "worse than" if better <= 0.1 else "even with"
            words.append(f"{wins[measure]} {best}, {np.median(ours):.3f} against {medians[best]:.3f}")
            if measure == "pairs":
                ratio = float(np.median(ours)) / medians[best]
        kept = wins["correlations"] == wins["linear"] == "better than" and ratio <= WITHIN
        met.append(kept)
        fits = " and ".join(f"{len(runs)} of {who}" for who, runs in peers.items())
        lines.append((WORDS.get(table, table), *words, f"{ratio:.2f}", "yes" if kept else "no", fits))
    return Shown(
        "synthetic-compared",
        "Lintra, null row, against the better of MST and AIM",
        ("table", "correlations", "two columns", "linear model", "ratio in two columns", "aim met", "fits"),
        tuple(lines),
        f"Medians. The aim is to be better in correlations and in what is trained, and no more than {WITHIN} times as "
        f"far in two columns: it is met on {sum(met)} of {len(met)} tables.",
    )


def of_pairs(names: Sequence[str], epsilon: float, results: Results) -> Shown:
    """Return what was said of pairs of columns, and how often it held."""
    lines: list[tuple[Cell, ...]] = []
    for table in names:
        runs = results.of_one(table, "pairs", epsilon)
        if not runs:
            continue
        added = {what: int(sum(run.scores[what] for run in runs)) for what in runs[0].scores}
        lines.append((WORDS.get(table, table), len(runs), *(_held(added, what) for what in ("good", "rough"))))
    return Shown(
        "synthetic-pairs",
        f"Pairs of columns whose correlations `fidelity` calls good or rough, epsilon {epsilon:g}, replaced rows",
        ("table", "releases", f"good: within {GOOD} of the truth", f"rough: within {ROUGH}"),
        tuple(lines),
        "Releases without pair tables.",
    )


def _held(added: dict[str, int], what: str) -> str | None:
    return f"{added[f'{what} held']} of {added[what]}" if added[what] else None


def named(race: Race, epsilon: float, seeds: int, results: Results) -> Shown:
    """Return how far two columns together are from the truth that rise and fall, with tables and without."""
    asked: tuple[tuple[str, Pairs], ...] = (
        ("no table", ()),
        ("all pairs that the rule chooses", "rule"),
        (f"`pairs: {json.dumps([NAMED])}`", (NAMED,)),
    )
    lines: list[tuple[Cell, ...]] = []
    for who, pairs in asked:
        for seed in range(seeds):
            key = (race.table.name, who, epsilon, seed)
            results.add(key, partial(_together, race, epsilon, seed, pairs), 1)
        runs = results.of_one(race.table.name, who, epsilon)
        lines.append((who, len(runs), _cell([run.scores["together"] for run in runs])))
    half = len(race.train) // 2
    apart = race.with_train(race.train[:half]).together(race.train[half:], *NAMED)
    lines.append(("two halves of the truth", 1, f"{apart:.3f}"))
    return Shown(
        "synthetic-named-pair",
        f"How far {' and '.join(NAMED)} together are from the truth on hourly weather",
        ("tables of pairs", "runs", "total variation"),
        tuple(lines),
        f"{len(race.train):,} rows, epsilon {epsilon:g}, replaced rows: medians with their 10 % and 90 % points.",
    )


def _together(race: Race, epsilon: float, seed: int, pairs: Pairs) -> tuple[Score, float]:
    start = time.process_time()
    rows = race.coded_rows(fit(race.release(epsilon, seed, "replace-one", pairs)), seed)
    return {"together": race.together(rows, *NAMED)}, time.process_time() - start


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and show every table, then the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=SHARED, help="a folder of .npz files with X and y")
    parser.add_argument("--work", type=Path, required=True, help="a folder for what was found")
    parser.add_argument("--peers", type=Path, help="the Python of an environment with dpmm")
    parser.add_argument("--trees", action="store_true", help="score boosted trees of the peers' scikit-learn as well")
    parser.add_argument("--tables", nargs="*", help=f"names; by default {', '.join(WORDS)}")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--peer-seeds", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    parser.add_argument("--write", action="store_true", help="put the tables into the page that shows it")
    parser.set_defaults(only=None, output=None)
    chosen = parser.parse_args(arguments)
    chosen.work.mkdir(parents=True, exist_ok=True)
    if chosen.peers is None:
        print("No --peers given, so MST and AIM are those of --work; the head of this file says how to install them.")
    if chosen.trees and chosen.peers is None:
        sys.exit("--trees needs --peers, whose environment has scikit-learn")
    if (
        chosen.peers
        and subprocess.run([chosen.peers, "-c", "import dpmm"], capture_output=True, check=False).returncode
    ):
        sys.exit(f"{chosen.peers} does not know dpmm: {chosen.peers} -m pip install dpmm==0.1.9")
    results, made = Results.of(chosen.work), dict(tables(chosen.data))
    names = [name for name in chosen.tables or WORDS if name in made]
    parts: dict[str, Callable[[], Shown]] = {}
    for name in names:
        race = Race.of(made[name](), chosen.peers, chosen.work, chosen.trees)
        for done in compete(race, chosen.epsilon, chosen.seeds, chosen.peer_seeds, results):
            print(done, file=sys.stderr, flush=True)
        parts[f"synthetic-{name}"] = partial(shown, race, chosen.epsilon, results)
    if WEATHER in names:
        race = Race.of(made[WEATHER](), None, chosen.work, trees=False)
        parts["synthetic-named-pair"] = partial(named, race, chosen.epsilon, chosen.seeds // 2, results)
    parts["synthetic-compared"] = lambda: compared(names, chosen.epsilon, results)
    parts["synthetic-pairs"] = lambda: of_pairs(names, chosen.epsilon, results)
    show(parts, chosen)


if __name__ == "__main__":
    main()
