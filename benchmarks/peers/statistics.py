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
from showing import Cell, FloatArray, IntArray, Shown, spread

from lintra_analysis.estimators.pca import pca
from lintra_analysis.estimators.regression import regression
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_protocol.noise.clipping import clip_norms
from lintra_protocol.privacy.gaussian import gaussian_mu
from peers.tukey import MODELS, tukey_em

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
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(
            asked, rows=table.rows, bound=DEVIATIONS, row_bound=table.row_bound, epsilon=EPSILON, rank=RANK,
            seeds=np.array(seeds), learnt=np.array([halves(table, seed)[0] for seed in seeds]),
        )  # fmt: skip
        subprocess.run([python, str(Path(__file__).with_name("fits.py")), str(asked), str(answered)], check=True)
        with np.load(answered, allow_pickle=False) as held:
            return dict(held)


def _ours(rows: FloatArray, bound: float, seed: int) -> FloatArray:
    size = rows.shape[1]
    fit = regression(released(rows, bound, seed), f"c{size - 1}", [f"c{i}" for i in range(size - 1)])
    return fit.coef_


def _least_squares(rows: FloatArray, _bound: float, _seed: int) -> FloatArray:
    return np.asarray(np.linalg.lstsq(rows[:, :-1], rows[:, -1], rcond=None)[0])


def _tukey(rows: FloatArray, _bound: float, seed: int) -> FloatArray | None:
    return tukey_em(rows, EPSILON, DELTA, seed)


def _components(rows: FloatArray, bound: float, seed: int) -> FloatArray:
    return pca(released(rows, bound, seed), RANK, about="centers").components


Fit = Callable[[FloatArray, float, int], FloatArray | None]
REGRESSIONS: dict[str, Fit] = {
    "no privacy": _least_squares, "Lintra, second moments": _ours, "AdaSSP (a curator)": adassp,
    "TukeyEM (a curator)": _tukey,
}  # fmt: skip
COMPONENTS: dict[str, Fit] = {"Lintra, second moments": _components}


def race(runs: int, python: str | None) -> tuple[Shown, Shown]:
    """Return R2, and the share of the best two directions, of everybody on every table."""
    found = [_on_table(table, runs, python) for table in tables()]
    heads = ("table", "rows learnt from", "columns")
    said = (
        f"epsilon {EPSILON:g}, delta {DELTA:g} (peers without delta: pure epsilon); {runs} runs, each with rows of its "
        f"own to learn from. Lintra promises to whoever's row may be replaced and needs no curator; the others promise "
        "to whoever's row may be there or not, or replaced, and a curator sees the rows."
    )
    late = "A peer that gave no answer within 60 s of CPU time for two runs of a table was not asked again: a dash."
    return (
        Shown(
            "race-regression", "R2 on test rows of a linear regression at epsilon 1",
            (*heads, *REGRESSIONS, "diffprivlib 0.6.6 (a curator)"), tuple(row for row, _ in found),
            f"{said} AdaSSP and TukeyEM are written here as we read their papers, since no package of them is in the "
            f"registry. TukeyEM takes {MODELS:,} models or one for as many rows as there are coefficients, and gives "
            "nothing where its check fails: a dash. Look at the flights: time in the air and distance are nearly the "
            "same column there, so that regressions of 16 rows are far off. OpenDP has a regression on one feature "
            f"only; of clipped gradient descent no maintained linear regression is known. {late}",
        ),
        Shown(
            "race-components", f"Share of the best {RANK} directions' length on test rows at epsilon 1",
            (*heads, *COMPONENTS, "diffprivlib 0.6.6", "OpenDP 0.16"), tuple(row for _, row in found),
            f"{said} The exponential mechanisms of both peers draw a direction by rejection, which takes ever longer "
            f"the larger the eigenvalues are. {late}",
        ),
    )  # fmt: skip


def _on_table(table: Table, runs: int, python: str | None) -> tuple[tuple[Cell, ...], tuple[Cell, ...]]:
    """Return the row of a table in either race."""
    peers = by_peers(table, python, range(runs)) if python else {}
    parts = [tuple(table.rows[numbers] for numbers in halves(table, seed)) for seed in range(runs)]

    def of_fit(fit: Fit, score: Callable[[FloatArray, FloatArray], float]) -> Cell:
        answers = ((fit(learnt, table.row_bound, seed), tested) for seed, (learnt, tested) in enumerate(parts))
        return answered([score(each, tested) for each, tested in answers if each is not None], runs)

    def of_peer(name: str, score: Callable[[FloatArray, FloatArray], float]) -> Cell:
        names = {seed: f"{name}_{seed}" for seed in range(runs)}
        return answered([score(peers[key], parts[seed][1]) for seed, key in names.items() if key in peers], runs)

    row = (table.name, len(parts[0][0]), table.rows.shape[1])
    return (
        (*row, *(of_fit(fit, r2) for fit in REGRESSIONS.values()), of_peer("ibm_regression", r2)),
        (
            *row, *(of_fit(fit, captured) for fit in COMPONENTS.values()),
            *(of_peer(name, captured) for name in ("ibm_components", "opendp_components")),
        ),
    )  # fmt: skip


def answered(scores: Sequence[float], runs: int) -> Cell:
    """Return the spread of the runs with an answer, and how many those are where some have none."""
    if not scores:
        return None
    return spread(scores) if len(scores) == runs else f"{spread(scores)}, an answer in {len(scores)} of {runs} runs"
