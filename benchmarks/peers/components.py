"""Components on real tables: Lintra, and the peers in their own environment.

One rule for everybody: the mean and the deviation of every column count as public; rows are standardised by them and
every entry is clipped at three deviations; B = sqrt(D) bounds a row's norm, target included, since D is the mean of
the squared norms. Four fifths of the rows, drawn by the seed, are learnt from and one fifth is tested on. Nothing is
chosen by its result.
"""

import math
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from showing import Cell, FloatArray, IntArray, Shown, spread

from lintra_analysis.estimators.pca import pca
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_protocol.noise.clipping import clip_norms
from lintra_protocol.privacy.gaussian import gaussian_mu

EPSILON, DELTA, DEVIATIONS = 1.0, 1e-6, 3.0
RANK = 2
PEERS = ("ibm_components", "opendp_components")
DATA = Path(__file__).resolve().parents[1] / "data"
FLIGHTS = Path(__file__).resolve().parents[2] / "deploy" / "data" / "flights.npy.bz2"
MOST_FLIGHTS = 20_000


@dataclass(frozen=True)
class Table:
    """Standardised rows, the target last, entries clipped at three deviations."""

    name: str
    rows: FloatArray

    @property
    def row_bound(self) -> float:
        """Return B."""
        return math.sqrt(self.rows.shape[1])


def tables() -> list[Table]:
    """Return the tables, smallest first."""
    found = [_stored("concrete", DATA / "uci_concrete.npz"), _stored("power", DATA / "real" / "power_19k.npz")]
    sys.path.insert(0, str(FLIGHTS.parents[1]))
    from flights import load_flights

    return [*found, _standardised("flights", load_flights(MOST_FLIGHTS)[0])]


def _stored(name: str, path: Path) -> Table:
    with np.load(path, allow_pickle=False) as held:
        return _standardised(name, np.column_stack([held["X"], held["y"]]).astype(np.float64))


def _standardised(name: str, rows: FloatArray) -> Table:
    return Table(name, np.clip((rows - rows.mean(axis=0)) / rows.std(axis=0), -DEVIATIONS, DEVIATIONS))


def halves(table: Table, seed: int) -> tuple[IntArray, IntArray]:
    """Return the numbers of the rows to learn from and of those to test on."""
    order = np.random.default_rng([seed, 1]).permutation(len(table.rows))
    cut = len(order) * 4 // 5
    return order[:cut], order[cut:]


def released(rows: FloatArray, bound: float, seed: int) -> SecondMomentSum:
    """Return what three servers release of the rows' products: symmetric noise, whoever's row may be replaced."""
    rng, size = np.random.default_rng([seed, 2]), rows.shape[1]
    sd = bound**2 / gaussian_mu(EPSILON, DELTA)
    upper = np.triu(rng.normal(size=(size, size)), 1) * sd
    noise = upper + upper.T + np.diag(rng.normal(size=size) * math.sqrt(2) * sd)
    clipped = clip_norms(rows, bound)
    columns = tuple(ScaledColumn(f"c{i}", 0.0, 1.0, -DEVIATIONS, DEVIATIONS) for i in range(size))
    return SecondMomentSum(columns, clipped.T @ clipped + noise, sd, len(rows), bound)


def captured(directions: FloatArray, tested: FloatArray) -> float:
    """Return the share of the best rank's squared length on test rows that directions, shape `(k, D)`, hold."""
    gram = tested.T @ tested
    basis = np.linalg.qr(directions.T)[0]
    return float(np.trace(basis.T @ gram @ basis) / np.linalg.eigvalsh(gram)[-len(directions) :].sum())


def by_peers(table: Table, python: str, seeds: Sequence[int]) -> dict[str, FloatArray]:
    """Return what every peer made of the rows to learn from, by name and seed."""
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(
            asked, rows=table.rows, bound=DEVIATIONS, row_bound=table.row_bound, epsilon=EPSILON, rank=RANK,
            seeds=np.array(seeds), peers=PEERS, learnt=np.array([halves(table, seed)[0] for seed in seeds]),
        )  # fmt: skip
        subprocess.run([python, str(Path(__file__).with_name("fits.py")), str(asked), str(answered)], check=True)
        with np.load(answered, allow_pickle=False) as held:
            return dict(held)


def _components(rows: FloatArray, bound: float, seed: int) -> FloatArray:
    return pca(released(rows, bound, seed), RANK, about="centers").components


def race(runs: int, python: str | None) -> Shown:
    """Return the share of the best two directions, of everybody on every table."""
    return Shown(
        "race-components", f"Share of the best {RANK} directions' length on test rows at epsilon 1",
        ("table", "rows learnt from", "columns", "Lintra, second moments", "diffprivlib 0.6.6", "OpenDP 0.16"),
        tuple(_on_table(table, runs, python) for table in tables()),
        f"epsilon {EPSILON:g}, delta {DELTA:g} (peers without delta: pure epsilon); {runs} runs, each with rows of its "
        "own to learn from. Lintra promises to whoever's row may be replaced and needs no curator; the others promise "
        "to whoever's row may be there or not, or replaced, and a curator sees the rows. The exponential mechanisms of "
        "both peers draw a direction by rejection, which takes ever longer the larger the eigenvalues are. A peer that "
        "gave no answer within 60 s of CPU time for two runs of a table was not asked again: a dash.",
    )  # fmt: skip


def _on_table(table: Table, runs: int, python: str | None) -> tuple[Cell, ...]:
    """Return the row of a table."""
    peers = by_peers(table, python, range(runs)) if python else {}
    parts = [tuple(table.rows[numbers] for numbers in halves(table, seed)) for seed in range(runs)]
    ours = [captured(_components(learnt, table.row_bound, seed), tested) for seed, (learnt, tested) in enumerate(parts)]

    def of_peer(name: str) -> Cell:
        names = {seed: f"{name}_{seed}" for seed in range(runs)}
        return answered([captured(peers[key], parts[seed][1]) for seed, key in names.items() if key in peers], runs)

    theirs = (of_peer(name) for name in PEERS)
    return (table.name, len(parts[0][0]), table.rows.shape[1], answered(ours, runs), *theirs)


def answered(scores: Sequence[float], runs: int) -> Cell:
    """Return the spread of the runs with an answer, and how many those are where some have none."""
    if not scores:
        return None
    return spread(scores) if len(scores) == runs else f"{spread(scores)}, an answer in {len(scores)} of {runs} runs"
