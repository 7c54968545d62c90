"""Regression and components on real tables: Lintra, AdaSSP, and the peers in their own environment.

One rule for everybody: the mean and the deviation of every column count as public; rows are standardised by them and
every entry is clipped at three deviations; B = sqrt(D) bounds a row's norm, target included, since D is the mean of
the squared norms. Four fifths of the rows, drawn by the seed, are learnt from and one fifth is tested on. Nothing is
chosen by its result.
"""

import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from showing import Cell, FloatArray, Shown, spread

from lintra_analysis.estimators.pca import pca
from lintra_analysis.estimators.regression import regression
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_protocol.clipping import clip_norms
from lintra_protocol.privacy.gaussian import gaussian_mu

EPSILON, DELTA, DEVIATIONS = 1.0, 1e-6, 3.0
RANK = 2
DATA = Path(__file__).resolve().parents[1] / "data"
FLIGHTS = Path(__file__).resolve().parents[2] / "deploy" / "data" / "flights.npy.bz2"
MOST_FLIGHTS = 20_000
RIDGE_PROBABILITY = 0.05
"""rho of AdaSSP, as its author took it."""


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


def split(table: Table, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return the rows to learn from and those to test on."""
    order = np.random.default_rng([seed, 1]).permutation(len(table.rows))
    cut = len(order) * 4 // 5
    return table.rows[order[:cut]], table.rows[order[cut:]]


def released(rows: FloatArray, bound: float, seed: int) -> SecondMomentSum:
    """Return what three servers release of the rows' products: symmetric noise, whoever's row may be replaced."""
    rng, size = np.random.default_rng([seed, 2]), rows.shape[1]
    sd = bound**2 / gaussian_mu(EPSILON, DELTA)
    upper = np.triu(rng.normal(size=(size, size)), 1) * sd
    noise = upper + upper.T + np.diag(rng.normal(size=size) * math.sqrt(2) * sd)
    clipped = clip_norms(rows, bound)
    columns = tuple(ScaledColumn(f"c{i}", 0.0, 1.0, -DEVIATIONS, DEVIATIONS) for i in range(size))
    return SecondMomentSum(columns, clipped.T @ clipped + noise, sd, len(rows), bound)


def adassp(rows: FloatArray, bound: float, seed: int) -> FloatArray:
    """Return the coefficients of AdaSSP (Wang 2018, Algorithm 2), whoever's row may be there or not.

    The bounds are B for the features and three deviations for the target.
    """
    rng, features, target = np.random.default_rng([seed, 3]), clip_norms(rows[:, :-1], bound), rows[:, -1]
    size = features.shape[1]
    gram, third = features.T @ features, EPSILON / 3
    log = math.log(6 / DELTA)
    least = float(np.linalg.eigvalsh(gram)[0])
    least = max(0.0, least + bound**2 * math.sqrt(log) / third * float(rng.normal()) - bound**2 * log / third)
    wanted = math.sqrt(size * log * math.log(2 * size**2 / RIDGE_PROBABILITY)) * bound**2 / third
    ridge = max(0.0, wanted - least)
    upper = np.triu(rng.normal(size=(size, size)))
    noise = upper + np.triu(upper, 1).T
    noised = gram + math.sqrt(log) * bound**2 / third * noise
    products = features.T @ target + math.sqrt(log) * bound * DEVIATIONS / third * rng.normal(size=size)
    return np.asarray(np.linalg.solve(noised + ridge * np.eye(size), products))


def r2(coefficients: FloatArray, tested: FloatArray) -> float:
    """Return R2 on rows that nobody learnt from."""
    target = tested[:, -1]
    residuals = target - tested[:, :-1] @ coefficients
    return 1 - float(residuals @ residuals) / float(((target - target.mean()) ** 2).sum())


def captured(directions: FloatArray, tested: FloatArray) -> float:
    """Return the share of the best rank's squared length on test rows that directions, shape `(k, D)`, hold."""
    gram = tested.T @ tested
    basis = np.linalg.qr(directions.T)[0]
    return float(np.trace(basis.T @ gram @ basis) / np.linalg.eigvalsh(gram)[-len(directions) :].sum())


def by_peers(table: Table, python: str, seeds: Sequence[int]) -> dict[str, FloatArray]:
    """Return what every peer made of the rows to learn from, by name and seed."""
    found: dict[str, FloatArray] = {}
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            asked, answered = Path(folder) / "in.npz", Path(folder) / "out.npz"
            np.savez(
                asked, rows=split(table, seed)[0], bound=DEVIATIONS, row_bound=table.row_bound, epsilon=EPSILON,
                rank=RANK, seeds=np.array([seed]),
            )  # fmt: skip
            program = Path(__file__).with_name("fits.py")
            subprocess.run([python, str(program), str(asked), str(answered)], check=True)
            with np.load(answered, allow_pickle=False) as held:
                found.update(held)
    return found


def _ours(rows: FloatArray, bound: float, seed: int) -> FloatArray:
    size = rows.shape[1]
    fit = regression(released(rows, bound, seed), f"c{size - 1}", [f"c{i}" for i in range(size - 1)])
    return fit.coef_


def _least_squares(rows: FloatArray, _bound: float, _seed: int) -> FloatArray:
    return np.asarray(np.linalg.lstsq(rows[:, :-1], rows[:, -1], rcond=None)[0])


def race(runs: int, python: str | None) -> tuple[Shown, Shown]:
    """Return R2, and the share of the best two directions, of everybody on every table."""
    seeds = range(runs)
    fits: dict[str, Callable[[FloatArray, float, int], FloatArray]] = {
        "no privacy": _least_squares, "Lintra, second moments": _ours, "AdaSSP (a curator)": adassp,
    }  # fmt: skip
    regressions: list[tuple[Cell, ...]] = []
    components: list[tuple[Cell, ...]] = []
    for table in tables():
        peers = by_peers(table, python, seeds) if python else {}
        halves = {seed: split(table, seed) for seed in seeds}
        row: list[Cell] = [table.name, len(halves[0][0]), table.rows.shape[1]]
        ours = [pca(released(halves[s][0], table.row_bound, s), RANK, about="centers").components for s in seeds]
        regressions.append(
            (
                *row,
                *(
                    spread(r2(fit(halves[s][0], table.row_bound, s), halves[s][1]) for s in seeds)
                    for fit in fits.values()
                ),
                _of_peer(peers, "ibm_regression", seeds, lambda found, s, h=halves: r2(found, h[s][1])),
            )
        )
        components.append(
            (
                *row,
                spread(captured(found, halves[s][1]) for s, found in zip(seeds, ours, strict=True)),
                *(
                    _of_peer(peers, name, seeds, lambda found, s, h=halves: captured(found, h[s][1]))
                    for name in ("ibm_components", "opendp_components")
                ),
            )
        )
    heads = ("table", "rows learnt from", "columns")
    said = f"epsilon {EPSILON:g}, delta {DELTA:g} (peers without delta: pure epsilon); {runs} runs."
    return (
        Shown(
            "race-regression", "R2 on test rows of a linear regression at epsilon 1",
            (*heads, *fits, "diffprivlib 0.6.6 (a curator)"), tuple(regressions),
            f"{said} Lintra promises to whoever's row may be replaced and needs no curator; the others promise to "
            "whoever's row may be there or not, or replaced, and a curator sees the rows. Where no maintained "
            "implementation is known (TukeyEM, clipped gradient descent) there is no column; OpenDP has a regression "
            "on one feature only. A dash: no answer within 20 seconds.",
        ),
        Shown(
            "race-components", f"Share of the best {RANK} directions' length on test rows at epsilon 1",
            (*heads, "Lintra, second moments", "diffprivlib 0.6.6", "OpenDP 0.16"), tuple(components), said,
        ),
    )  # fmt: skip


def _of_peer(
    found: dict[str, FloatArray], name: str, seeds: Sequence[int], score: Callable[[FloatArray, int], float]
) -> Cell:
    scores = [score(found[f"{name}_{seed}"], seed) for seed in seeds if f"{name}_{seed}" in found]
    return spread(scores) if scores else None
