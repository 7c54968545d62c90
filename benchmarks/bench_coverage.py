"""How often do the intervals of a regression hold the truth, on tables that nobody has tuned anything for?

A table is drawn to n clients once for each cell (without replacement where it has enough rows), its columns centred and
scaled from their .1 % and 99.9 % points, rows shrunk to the 95 % point of their norms; then its second moments are
released again and again with the Gaussian noise of `second_moment` at epsilon and delta 1e-6 (replace-one), with an
intercept of 1 and a tight trace, or with neither. The truth is what the shrunk rows themselves give (`of="cohort"`).

    python benchmarks/bench_coverage.py --quick            # minutes
    python benchmarks/bench_coverage.py --draws 400 --json coverage.json

Tables: those of ../shared/data if that folder is there (`--data` names another), else benchmarks/data and
deploy/data; randhie if statsmodels is installed; and three that are made here: exact dependences, heavy tails, and a
feature that is nearly another.
"""

import argparse
import bz2
import importlib
import importlib.util
import io
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from lintra_analysis.estimators.design import design
from lintra_analysis.estimators.path import regression_path
from lintra_analysis.estimators.regression import regression
from lintra_analysis.estimators.solve import solve
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.gram import GramEstimate
from lintra_analysis.releases.noise_laws.symmetric_noise import SymmetricNoise
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.ring import FloatArray

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[1] / "shared" / "data"
DELTA = 1e-6
EPSILONS = (0.1, 0.5, 1.0, 4.0)
SIZES = (12, 14, 16)
COVERAGE = 0.95


@dataclass(frozen=True)
class Cohort:
    """Shrunk rows in normalised units: what a release is made of.

    Attributes:
        gram: Z^T Z, the constant column first if there is one, the target last.
        num_clients: n.
        row_bound: B, of the columns without the constant.
        constant: the constant column's value, 0 for none.
    """

    gram: FloatArray
    num_clients: int
    row_bound: float
    constant: float

    def sigma(self, epsilon: float) -> float:
        """Return the noise of one product: (B^2 + c^2) / mu."""
        return (self.row_bound**2 + self.constant**2) / gaussian_mu(epsilon, DELTA)

    def release(self, epsilon: float, generator: np.random.Generator) -> GramEstimate:
        """Return the second moments with noise, as the mechanism's law has it."""
        size, sigma = len(self.gram), self.sigma(epsilon)
        noise = sigma * generator.normal(size=(size, size))
        noise = (noise + noise.T) / np.sqrt(2)
        varying = size - bool(self.constant)
        law = SymmetricNoise(sigma)
        if self.constant:
            noise[0, 0] = 0.0
            shift = np.trace(noise) / varying * (1 - 1 / np.sqrt(varying + 1))
            noise[1:, 1:] -= shift * np.eye(varying)
            law = SymmetricNoise(sigma, trace_tight=True, num_columns=varying, exact=0)
        named = [ScaledColumn(f"x{i}", 0, 1, -1e6, 1e6) for i in range(varying - 1)]
        named += [ScaledColumn("y", 0, 1, -1e6, 1e6)]
        if self.constant:
            named = [ScaledColumn("(intercept)", 0, 1 / self.constant, 1, 1), *named]
        return GramEstimate(tuple(named), self.gram + noise, law, self.num_clients, self.row_bound)


def cohort(table: FloatArray, num_clients: int, intercept: bool, generator: np.random.Generator) -> Cohort:
    """Draw clients from a table of shape `(n, d + 1)`, the target last, and prepare their rows."""
    chosen = generator.choice(len(table), num_clients, replace=len(table) < num_clients)
    rows = table[chosen].astype(np.float64)
    low, high = np.quantile(rows, [0.001, 0.999], axis=0)
    scale = np.where(high > low, (high - low) / 2, 1.0)
    rows = (np.clip(rows, low, high) - (low + high) / 2) / scale
    norms = np.linalg.norm(rows, axis=1)
    bound = float(np.quantile(norms, 0.95))
    rows = rows * np.minimum(1, bound / np.maximum(norms, 1e-300))[:, np.newaxis]
    constant = 1.0 if intercept else 0.0
    if intercept:
        rows = np.column_stack([np.ones(num_clients), rows])
    return Cohort(rows.T @ rows, num_clients, bound, constant)


def truth(held: Cohort) -> tuple[FloatArray, FloatArray, float]:
    """Return the slopes, a basis of directions in which nothing tells them, shape `(k, p)`, and r2 of the cohort."""
    gram = held.gram
    features, cross = gram[:-1, :-1], gram[:-1, -1]
    values, vectors = np.linalg.eigh(features)
    kept = values > 1e-9 * values[-1]
    solution = (vectors[:, kept] / values[kept]) @ (vectors[:, kept].T @ cross)
    about = gram[-1, -1] - (gram[0, -1] ** 2 / gram[0, 0] if held.constant else 0.0)
    return solution, vectors[:, ~kept].T, 1 - float(gram[-1, -1] - cross @ solution) / about


@dataclass(frozen=True)
class Cell:
    """Coverage of 95 % intervals over the draws of one cell.

    Attributes:
        worst: of the coefficient that is covered least; those not determined by the rows at all count as covered.
        mean: over coefficients.
        unbounded: share of the draws without finite intervals.
        bounded: coverage in the others, over all coefficients; None if there were none.
        penalised: coverage of the coefficients under the penalty beside, where that is given.
        r2: share of the draws whose r2 interval holds the truth; no interval holds everything.
        r2_told: share of the draws with an interval of r2.
        width: median width of the finite intervals over that of the linearised one.
    """

    table: str
    log2_clients: int
    intercept: bool
    epsilon: float
    draws: int
    slopes: int
    worst: float
    mean: float
    unbounded: float
    bounded: float | None
    penalised: float | None
    r2: float
    r2_told: float
    width: float | None
    seconds: float


def covered(interval: tuple[float, float] | None, value: float) -> bool:
    """Return whether an interval holds a value; none holds everything."""
    return interval is None or interval[0] <= value <= interval[1]


def measure(name: str, held: Cohort, epsilon: float, draws: int, generator: np.random.Generator) -> Cell:
    """Release `draws` times and count."""
    started = time.perf_counter()
    solution, null, r2 = truth(held)
    start = 1 if held.constant else 0
    told = np.abs(null[:, start:]).max(axis=0, initial=0.0) < 1e-6
    sigma = held.sigma(epsilon)
    fitted = len(solution)
    shift = sigma * (2 * np.sqrt(fitted) + 4) * np.diag([0.0] * start + [1.0] * (fitted - start))
    shrunk = np.linalg.solve(held.gram[:-1, :-1] + shift, held.gram[:-1, -1])
    hits, penalised, bounded, shares, widths = [], [], [], [], []
    for _ in range(draws):
        found = regression(held.release(epsilon, generator), "y", of="cohort")
        inside = [covered(one.interval, b) for one, b in zip(found.coefficients, solution[start:], strict=True)]
        hits.append(np.where(told, inside, found.bounded is False))
        bounded.append(found.bounded)
        shares.append((covered(found.r2_interval, r2), found.r2_interval is not None))
        if found.penalised is not None:
            pairs = zip(found.penalised.coefficients, shrunk[start:], strict=True)
            penalised.append([covered(one.interval, b) for one, b in pairs])
        widths += [
            (one.interval[1] - one.interval[0]) / (2 * 1.96 * one.standard_error.total)
            for one in found.coefficients
            if one.interval is not None and one.standard_error is not None
        ]
    each = np.mean(hits, axis=0)
    finite = np.array(hits)[np.array(bounded)]
    return Cell(
        table=name,
        log2_clients=int(np.log2(held.num_clients)),
        intercept=bool(held.constant),
        epsilon=epsilon,
        draws=draws,
        slopes=fitted - start,
        worst=float(each.min()),
        mean=float(each.mean()),
        unbounded=1 - float(np.mean(bounded)),
        bounded=float(finite.mean()) if finite.size else None,
        penalised=float(np.mean(penalised)) if penalised else None,
        r2=float(np.mean([inside for inside, _ in shares])),
        r2_told=float(np.mean([given for _, given in shares])),
        width=float(np.median(widths)) if widths else None,
        seconds=(time.perf_counter() - started) / draws,
    )


@dataclass(frozen=True)
class Choice:
    """Mean r2 on the cohort's own rows of the fit that a path chooses, over the draws of one cell.

    Attributes:
        stein: chosen by the costs that `regression_path` reports.
        residuals: chosen by the costs read on the repaired matrix (Mallows 1973).
        none: without a penalty, eigenvalues raised.
        oracle: of the best penalty in each draw.
    """

    table: str
    log2_clients: int
    intercept: bool
    epsilon: float
    draws: int
    stein: float
    residuals: float
    none: float
    oracle: float


def measure_choice(name: str, held: Cohort, epsilon: float, draws: int, generator: np.random.Generator) -> Choice:
    """Release `draws` times, and compare what paths choose."""
    gram = held.gram
    about = gram[-1, -1] - (gram[0, -1] ** 2 / gram[0, 0] if held.constant else 0.0)
    found = []
    for _ in range(draws):
        chosen = design(held.release(epsilon, generator), "y")
        path = regression_path(chosen.gram, "y")
        fits = [solve(chosen, penalty) for penalty in (0.0, *path.regularizations.tolist())]
        theta = np.array([np.append(-fit.solution, 1.0) for fit in fits])
        shares = 1 - np.sum(theta @ gram * theta, axis=1) / about
        residuals = int(np.argmin([fit.cost for fit in fits[1:]]))
        found.append((shares[1 + path.best], shares[1 + residuals], shares[0], shares[1:].max()))
    means = np.mean(found, axis=0).tolist()
    return Choice(name, int(np.log2(held.num_clients)), bool(held.constant), epsilon, draws, *means)


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
    """Yield the tables in folders, the target last; wide ones are cut to 16 columns. The first of a name counts."""
    seen = set()
    for folder in folders:
        for path in sorted(folder.glob("*.npz")):
            if path.stem in seen or path.stem in {"flight", "elevation_dem", "flight_carriers"}:
                continue
            seen.add(path.stem)
            with np.load(path, allow_pickle=False) as arrays:
                features = arrays["X"][:, :15] if arrays["X"].shape[1] > 20 else arrays["X"]
                yield path.stem, np.column_stack([features, arrays["y"]])
    shipped = HERE.parent / "deploy" / "data" / "flights.npy.bz2"
    if shipped.exists():
        rows = np.load(io.BytesIO(bz2.decompress(shipped.read_bytes())), allow_pickle=False)
        yield "flights", rows.astype(np.float64)
    if importlib.util.find_spec("statsmodels"):
        loaded = importlib.import_module("statsmodels.datasets.randhie").load_pandas()
        frame = loaded.exog.assign(target=loaded.endog)
        yield "randhie", frame.to_numpy(np.float64)


def line(cell: Cell | Choice) -> str:
    """Return one line of the table."""
    start = f"{cell.table:20} 2^{cell.log2_clients:<3} {'yes' if cell.intercept else 'no ':3} {cell.epsilon:4g} "
    if isinstance(cell, Choice):
        return f"{start}  {cell.stein:6.3f}  {cell.residuals:6.3f}     {cell.none:6.3f}  {cell.oracle:6.3f}"

    def shown(value: float | None) -> str:
        return "   -" if value is None else f"{value:4.2f}"

    return (
        f"{start}{cell.slopes:3d}  {cell.worst:5.3f} {cell.mean:5.3f} {cell.unbounded:5.2f} {shown(cell.bounded)} "
        f"{shown(cell.penalised)}  {cell.r2:5.3f} {cell.r2_told:4.2f}  {shown(cell.width)} {1000 * cell.seconds:5.0f}"
    )


HEADER = "table                 n    icpt  eps   p  worst  mean  unbd  bnd. pen.  r2     told  width  ms\n" + "-" * 95


PATH_HEADER = "table                 n    icpt  eps    Stein  residuals   none  oracle\n" + "-" * 70


def main() -> None:
    """Print the table of coverage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of .npz tables with X and y")
    parser.add_argument("--tables", nargs="*", help="only these")
    parser.add_argument("--epsilons", type=float, nargs="*", default=list(EPSILONS))
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES), help="log2 of the numbers of clients")
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="40 draws at 2^12 and 2^14, epsilon .5 and 4")
    parser.add_argument("--path", action="store_true", help="compare the penalties that a path chooses instead")
    parser.add_argument("--json", type=Path, help="write the cells here")
    asked = parser.parse_args()
    if asked.quick:
        asked.draws, asked.sizes, asked.epsilons = 40, [12, 14], [0.5, 4.0]
    folders = [asked.data] if asked.data else [SHARED, HERE / "data"]
    tables = [*stored_tables(folders), *made_tables()]
    cells: list[Cell | Choice] = []
    print(PATH_HEADER if asked.path else HEADER)
    for number, (name, table) in enumerate(tables):
        if asked.tables and name not in asked.tables:
            continue
        for size in asked.sizes:
            for intercept in (True, False):
                generator = np.random.default_rng([asked.seed, number, size, intercept])
                held = cohort(table, 2**size, intercept, generator)
                for epsilon in asked.epsilons:
                    work = measure_choice if asked.path else measure
                    try:
                        cells.append(work(name, held, epsilon, asked.draws, generator))
                    except InvalidAnalysisError as error:
                        print(f"{name}, 2^{size}, epsilon {epsilon:g}: {error}")
                        continue
                    print(line(cells[-1]), flush=True)
    if asked.json:
        asked.json.write_text(json.dumps([asdict(cell) for cell in cells], indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
