"""Figures 2 to 5: low-rank approximation and ridge regression against n, by the noise's exponent and by mechanism.

The text at hand has the axes, not the captions: that 2 and 3 are the low-rank figures and 4 and 5 those of ridge
regression, the first of each by the exponent p, is inferred.
"""

from collections.abc import Callable, Iterator

import numpy as np
from showing import Cell, Plot, Shown, spread

from secure_sketching.designs import Table, low_rank_table, regression_table
from secure_sketching.mechanisms import Claim, Mechanism, Seen, as_run, compared, low_rank_excess, ridge_ratio

POWERS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.0)
COLUMNS = 50
LOW_RANK_NOTE = (
    "psi = what the released k directions miss beyond the best k, over n; that of no directions is 1, of random ones "
    "1 - k/d. Median and 10 % and 90 % points of {runs} runs; delta 1e-6, a replaced row, m = 100 for equation (4). "
    "Bounds of rows and entries come from the law of the table, so that nothing is clipped; a dash is where equation "
    "(4) has no value. 'As run' adds N(0, c n^-p) to the table itself and promises nothing about a release."
)
RIDGE_NOTE = (
    "phi = ridge cost of the released coefficients over that of the best ones. The target is an exact linear function, "
    "so that the best cost is lambda's share alone and phi is large wherever anything is lost. 'Zero' predicts 0. "
    "Otherwise as in the low-rank figures, {runs} runs."
)
Make = Callable[[int, np.random.Generator], Table]
Score = Callable[[Table, Seen], float]


def sizes(full: bool) -> tuple[int, ...]:
    """Return n = 1000 * 1.5^i, i = 0 to 16, or every fourth of them."""
    return tuple(int(1000 * 1.5**i) for i in range(0, 17, 1 if full else 4))


def cells(
    make: Make,
    score: Score,
    claim: Claim,
    mechanisms: dict[str, Mechanism],
    counts: tuple[int, ...],
    runs: int,
    seed: int,
) -> Iterator[list[Cell]]:
    """Yield a row for every n: each mechanism's spread over tables and noise."""
    for count in counts:
        row: list[Cell] = [count]
        for column, mechanism in enumerate(mechanisms.values()):
            found = []
            for run in range(runs):
                # The same tables for all mechanisms, noise of their own.
                table = make(count, np.random.default_rng([seed, count, run]))
                seen = mechanism(table, claim, np.random.default_rng([seed, count, run, column]))
                found += [] if seen is None else [score(table, seen)]
            row.append(spread(found) if found else None)
        yield row


def low_rank(name: str, rank: int, epsilon: float, full: bool, runs: int, *, by_power: bool) -> Shown:
    """Return psi against n, by the exponent of the noise or by mechanism."""
    mechanisms = {f"p = {p:g}": as_run(p) for p in POWERS} if by_power else compared(target=False)

    def make(count: int, rng: np.random.Generator) -> Table:
        return low_rank_table(count, COLUMNS, rank, rng)

    def score(table: Table, seen: Seen) -> float:
        return low_rank_excess(table, seen, rank)

    rows = list(cells(make, score, Claim(epsilon), mechanisms, sizes(full), runs, 2))
    heads = ["n", *mechanisms]
    if not by_power:
        heads, rows = [*heads, "zero"], [[*row, 1.0] for row in rows]
    title = f"Low-rank approximation, d = {COLUMNS}, k = {rank}, epsilon {epsilon:g}"
    return drawn(name, title, heads, rows, LOW_RANK_NOTE.format(runs=runs), "psi", by_power=by_power)


def ridge(
    name: str, features: int, epsilon: float, ridge_: float, power: int, full: bool, runs: int, *, by_power: bool
) -> Shown:
    """Return phi against n, by the exponent of the noise or by mechanism; mu^2 = n^power."""
    mechanisms = {f"p = {p:g}": as_run(p) for p in POWERS} if by_power else compared(target=True)

    def make(count: int, rng: np.random.Generator) -> Table:
        return regression_table(count, features, float(count) ** power, rng)

    def score(table: Table, seen: Seen) -> float:
        return ridge_ratio(table, seen, ridge_)

    rows = list(cells(make, score, Claim(epsilon), mechanisms, sizes(full), runs, 4))
    heads = ["n", *mechanisms]
    if not by_power:
        zero = [float(count) ** power * (1 + ridge_ / float(count) ** power) / ridge_ for count in sizes(full)]
        heads, rows = [*heads, "zero"], [[*row, last] for row, last in zip(rows, zero, strict=True)]
    title = f"Ridge regression, d = {features}, lambda = {ridge_:g}, mu^2 = n^{power}, epsilon {epsilon:g}"
    return drawn(name, title, heads, rows, RIDGE_NOTE.format(runs=runs), "phi", by_power=by_power)


def drawn(
    name: str, title: str, heads: list[str], rows: list[list[Cell]], note: str, error: str, *, by_power: bool
) -> Shown:
    """Return a figure of an error against n, both on logarithmic axes."""
    what = "noise as run, variance c n^-p" if by_power else "by mechanism"
    shown = tuple(map(tuple, rows))
    return Shown(name, f"{title}: {what}", tuple(heads), shown, note, Plot("n", error, log_x=True, log_y=True))


def parts(full: bool, runs: int) -> dict[str, Callable[[], Shown]]:
    """Return the figures by name; with `full` every k, epsilon, d, lambda and mu of the paper."""
    found: dict[str, Callable[[], Shown]] = {}
    for rank, epsilon in [(k, e) for k in (5, 10) for e in (0.05, 0.1, 0.5)] if full else [(5, 0.5)]:
        for figure, by_power in (("figure-2", True), ("figure-3", False)):
            name = f"{figure}-k{rank}-eps{epsilon:g}"
            found[name] = _low_rank(name, rank, epsilon, full, runs, by_power)
    grid = [(d, e, r, w) for d in (3, 10, 50) for e in (0.01, 0.03, 0.05, 0.1) for r in (1, 10, 100) for w in (0, 1, 2)]
    for features, epsilon, size, power in grid if full else [(10, 0.1, 10, 1)]:
        for figure, by_power in (("figure-4", True), ("figure-5", False)):
            name = f"{figure}-d{features}-eps{epsilon:g}-lambda{size}-mu{power}"
            found[name] = _ridge(name, features, epsilon, size, power, full, runs, by_power)
    return found


def _low_rank(name: str, rank: int, epsilon: float, full: bool, runs: int, by_power: bool) -> Callable[[], Shown]:
    return lambda: low_rank(name, rank, epsilon, full, runs, by_power=by_power)


def _ridge(
    name: str, features: int, epsilon: float, size: float, power: int, full: bool, runs: int, by_power: bool
) -> Callable[[], Shown]:
    return lambda: ridge(name, features, epsilon, size, power, full, runs, by_power=by_power)
