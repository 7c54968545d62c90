"""The experiments as the paper's text describes them: raw columns, nothing clipped, means, MOD-SULQ and SSP.

The model and the local baseline add N(0, c n^-p) to the table itself, c = 2 ln(1.25/delta) / epsilon^2, as if no entry
could move by more than 1. The text leaves the noise of its central baselines open; here it is that of the papers that
it cites, for rows of norm at most 1, which raw columns do not keep. So nothing here promises anything about real rows;
the mechanisms that do stand in figures.py and in tables.py, by a protocol of our own.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np
from showing import Cell, FloatArray, Shown, number

from secure_sketching.designs import Table, low_rank_table, regression_table
from secure_sketching.mechanisms import Claim, Mechanism, Rng, Seen, as_run, low_rank_excess, ridge_ratio
from secure_sketching.tables import LOW_RANK_EPSILON, PUBLISHED, RIDGE, RIDGE_EPSILON, rows_of

POWERS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.0)
FEW = (1.0, 0.5, 0.0)
COLUMNS = 50

Score = Callable[[Table, Seen], float]


def mod_sulq(table: Table, claim: Claim, rng: Rng) -> Seen:
    """Return the second moments with the noise of MOD-SULQ (Chaudhuri, Sarwate, Sinha 2012, Algorithm 1)."""
    size, epsilon = table.root.shape[1], claim.epsilon
    inside = (size * size + size) / (claim.delta * 2 * math.sqrt(2 * math.pi))
    deviation = (size + 1) / epsilon * math.sqrt(2 * math.log(inside)) + 1 / math.sqrt(epsilon)
    return Seen(table.gram + deviation * symmetric(size, rng))


def sufficient_statistics(table: Table, claim: Claim, rng: Rng) -> Seen:
    """Return the products of SSP (Vu and Slavkovic 2009): features, and features with the target, half the budget each.

    Each half is the classical Gaussian mechanism for products that move by at most 1.
    """
    size = table.root.shape[1]
    deviation = math.sqrt(2 * math.log(1.25 / (claim.delta / 2))) / (claim.epsilon / 2)
    noise = np.zeros((size, size))
    noise[:-1, :-1] = symmetric(size - 1, rng)
    noise[:-1, -1] = rng.normal(size=size - 1)
    return Seen(table.gram + deviation * noise)


def symmetric(size: int, rng: Rng) -> FloatArray:
    """Return symmetric noise of deviation 1 in every entry."""
    upper = np.triu(rng.normal(size=(size, size)))
    return np.asarray(upper + np.triu(upper, 1).T)


def sizes(full: bool) -> tuple[int, ...]:
    """Return n = 1000 * 1.5^i up to a million, which the text names beside them; or every fourth."""
    grid = [int(1000 * 1.5**i) for i in range(17)]
    return (*grid, 10**6) if full else (*grid[::4], 10**6)


def mean(values: list[float]) -> str:
    """Return a mean and the deviation of the runs around it, as the paper's tables have them."""
    return f"{number(float(np.mean(values)))} ± {number(float(np.std(values)))}"


def lines(
    make: Callable[[int, Rng], Table],
    score: Score,
    claim: Claim,
    mechanisms: dict[str, Mechanism],
    full: bool,
    runs: int,
) -> Iterator[tuple[Cell, ...]]:
    """Yield a line for every n: the means, and that of the model over that of the central baseline, which is last."""
    for count in sizes(full):
        found: list[list[float]] = []
        for column, mechanism in enumerate(mechanisms.values()):
            rngs = [np.random.default_rng([12, count, run, column]) for run in range(runs)]
            tables = (make(count, np.random.default_rng([12, count, run])) for run in range(runs))
            answers = [(table, mechanism(table, claim, rng)) for table, rng in zip(tables, rngs, strict=True)]
            found.append([score(table, seen) for table, seen in answers if seen is not None])
        yield (count, *map(mean, found), float(np.mean(found[0]) / np.mean(found[-1])))


def compared(full: bool, central: Mechanism, name: str) -> dict[str, Mechanism]:
    """Return the model by its exponents of n, and the central baseline."""
    shown = POWERS if full else FEW
    words = {1.0: "the model, p = 1", 0.0: "local, p = 0"}
    return {words.get(p, f"p = {p:g}"): as_run(p) for p in shown} | {name: central}


def low_rank(full: bool, runs: int, epsilon: float = 0.5, rank: int = 5) -> Shown:
    """Return psi against n on the synthetic table of low rank."""
    mechanisms = compared(full, mod_sulq, "central, MOD-SULQ")
    rows = tuple(
        lines(
            lambda count, rng: low_rank_table(count, COLUMNS, rank, rng),
            lambda table, seen: low_rank_excess(table, seen, rank),
            Claim(epsilon), mechanisms, full, runs,
        )
    )  # fmt: skip
    return Shown(
        "described-low-rank",
        f"Low-rank approximation as described: mean psi, d = {COLUMNS}, k = {rank}, epsilon {epsilon:g}",
        ("n", *mechanisms, "model over central"), rows, f"{NOTE} {runs} runs.",
    )  # fmt: skip


def ridge(full: bool, runs: int, epsilon: float = 0.1, features: int = 10) -> Shown:
    """Return phi against n on the synthetic regression."""
    mechanisms = compared(full, sufficient_statistics, "central, SSP")
    rows = tuple(
        lines(
            lambda count, rng: regression_table(count, features, float(count), rng),
            lambda table, seen: ridge_ratio(table, seen, RIDGE),
            Claim(epsilon), mechanisms, full, runs,
        )
    )  # fmt: skip
    return Shown(
        "described-ridge",
        f"Ridge regression as described: mean phi, d = {features}, lambda = {RIDGE:g}, mu^2 = n, epsilon {epsilon:g}",
        ("n", *mechanisms, "model over central"), rows, f"{NOTE} {runs} runs.",
    )  # fmt: skip


NOTE = (
    "Mean and deviation of the runs. Model and local add N(0, c n^-p) to the table itself. The central noise is that "
    "of the cited papers for rows of norm 1; MOD-SULQ's grows with d + 1, SSP has half the budget for each of its two "
    "products. The last column is below 1 where the model is better than the central baseline."
)


def real(runs: int, *, low: bool) -> Shown:
    """Return Table 2 or 3 as described: raw columns of the rows at hand, as if there were as many as the paper had."""
    claim = Claim(LOW_RANK_EPSILON if low else RIDGE_EPSILON)
    mechanisms = {
        "local, p = 0": as_run(0.0),
        "its model, p = 1": as_run(1.0),
        "central": mod_sulq if low else sufficient_statistics,
    }
    found: list[tuple[Cell, ...]] = []
    for number_, case in enumerate(PUBLISHED):
        if not case.file:
            continue
        rows = rows_of(case.file)
        rows = rows[:, :-1] if low else rows
        gram = rows.T @ rows * (case.count / len(rows))
        table = Table(case.name, case.count, np.linalg.cholesky(gram).T, math.inf, math.inf)
        printed = case.psi if low else case.phi
        cells: list[Cell] = [case.name]
        means = []
        for column, (mechanism, theirs) in enumerate(zip(mechanisms.values(), printed, strict=True)):
            seen = [mechanism(table, claim, np.random.default_rng([13, number_, column, run])) for run in range(runs)]
            values = [
                low_rank_excess(table, one, case.rank) if low else ridge_ratio(table, one, RIDGE)
                for one in seen
                if one is not None
            ]
            means.append(float(np.mean(values)))
            cells += [theirs, mean(values)]
        found.append((*cells, printed[1] / printed[2], means[1] / means[2]))
    what = "2: low rank, mean psi" if low else "3: ridge, mean phi"
    return Shown(
        f"described-table-{2 if low else 3}",
        f"Table {what} at epsilon {claim.epsilon:g}, raw columns as described",
        ("data", *(head for name in mechanisms for head in (f"paper: {name}", name)), "paper: model over central",
         "model over central"),
        tuple(found),
        f"Mean and deviation of {runs} runs. Power has 19,444 and Elevation 5,000 consecutive rows here, whose second "
        "moments are scaled to the full number of rows. Columns are raw and nothing is clipped. The noise is made for "
        "entries that move by 1, so that it promises nothing about these rows.",
    )  # fmt: skip


def parts(full: bool, runs: int) -> dict[str, Callable[[], Shown]]:
    """Return the tables by name."""
    return {
        "described-low-rank": lambda: low_rank(full, runs),
        "described-ridge": lambda: ridge(full, runs),
        "described-table-2": lambda: real(runs, low=True),
        "described-table-3": lambda: real(runs, low=False),
    }
