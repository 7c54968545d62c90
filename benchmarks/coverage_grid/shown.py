"""The tables of the pages that are made of kept cells, with what they come to."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from showing import Shown

from coverage_grid.cells import Cell
from coverage_grid.kept import Key
from coverage_grid.population import Pairs
from coverage_grid.tables import GRID
from coverage_grid.verdicts import LEAST, LEAST_R2, MOST, error, high, low, marks, poor

Each = TypeVar("Each", bound=Cell | Pairs)
Known = Mapping[Key, Cell | Pairs]
CLASSES = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
"""Where classes of strength begin."""


def tables(known: Known) -> list[Shown]:
    """Return every table that the cells suffice for."""
    asked = [
        (grid, cells(known, "cohort", among=GRID)),
        (apart, cells(known, "cohort", but=GRID)),
        (population, cells(known, "population")),
        (strength, cells(known, "cohort", among=GRID)),
    ]
    found = [make(held) for make, held in asked if held]
    if pairs := [cell for key, cell in known.items() if key.kind == "pairs" and isinstance(cell, Pairs)]:
        found.append(correlations(pairs))
    if widest := cells(known, "population", residuals="any"):
        found.append(any_residuals(widest, cells(known, "population")))
    return found


def cells(
    known: Known, kind: str, residuals: str = "alike", among: Iterable[str] = (), but: Iterable[str] = ()
) -> list[Cell]:
    """Return the cells of a kind, of some tables or of all but some.

    Raises:
        ValueError: they are not of the same number of draws.
    """
    found = [
        cell
        for key, cell in known.items()
        if isinstance(cell, Cell) and (key.kind, key.residuals) == (kind, residuals)
        if (not among or key.table in among) and key.table not in but
    ]
    if len({cell.draws for cell in found}) > 1:
        raise ValueError(f"cells of {kind} have different numbers of draws")
    return found


def share(value: float, digits: int = 3) -> str:
    """Return a share without its 0; all and none have one digit."""
    if value in (0.0, 1.0):
        return f"{value:.0f}"
    shown = f"{value:.{digits}f}"
    return shown.lstrip("0") if value < 1 else shown


def span(values: Iterable[float], digits: int = 3) -> str:
    """Return the least and the most of some shares."""
    held = list(values)
    least, most = share(min(held), digits), share(max(held), digits)
    return least if least == most else f"{least} to {most}"


def by_epsilon(
    found: Sequence[Each], words: Callable[[Each], str], lead: Callable[[Each], tuple[str, ...]]
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return heads and rows: a line for each table, size and intercept, a column for each epsilon."""
    names = list(dict.fromkeys(cell.table for cell in found))
    lines: dict[tuple[int, int, bool], tuple[tuple[str, ...], dict[float, str]]] = {}
    for cell in found:
        at = names.index(cell.table), cell.log2_clients, lead(cell)[1:] == ("no",)
        lines.setdefault(at, (lead(cell), {}))[1][cell.epsilon] = words(cell)
    epsilons = sorted({cell.epsilon for cell in found})
    rows = (lines[at] for at in sorted(lines))
    return (
        tuple(f"epsilon {epsilon:g}" for epsilon in epsilons),
        tuple((*first, *(entries.get(epsilon, "") for epsilon in epsilons)) for first, entries in rows),
    )


def _lead(cell: Cell) -> tuple[str, ...]:
    return f"{cell.table} 2^{cell.log2_clients}", "yes" if cell.intercept else "no"


def entry(cell: Cell) -> str:
    """Return least coverage with its marks, the share of unbounded releases and coverage of r2."""
    r2 = "" if cell.r2 is None else f" {share(cell.r2)}"
    return f"{share(min(cell.coverage))}{marks(cell)} ({share(cell.unbounded, 2)}){r2}"


def _regressions(name: str, title: str, found: list[Cell], note: str) -> Shown:
    heads, rows = by_epsilon(found, entry, _lead)
    return Shown(name, title, ("table, n", "intercept", *heads), rows, note)


def _checked(found: list[Cell]) -> str:
    checked, different = sum(cell.checked for cell in found), sum(cell.different for cell in found)
    return (
        f"`regression` itself was run on {checked} of the releases, and {different or 'none'} of its intervals says "
        "otherwise."
    )


def grid(found: list[Cell]) -> Shown:
    """Return the table of the cohort, and whether it keeps what was demanded."""
    least = [share_ for cell in found for share_ in cell.coverage]
    r2 = [cell.r2 for cell in found if cell.r2 is not None]
    draws = found[0].draws
    note = (
        f"Demanded: every coefficient in {share(LEAST, 2)} to {share(MOST, 2)} within two simulation errors (one is "
        f"{share(error(0.95, draws))} at .95), or above and marked ^. {_count(found, low)} of {len(found)} cells keep "
        f"it, {sum(map(high, found))} of them above; the least of {len(least):,} coefficients is {share(min(least))}. "
        f"Of r2 at least {share(LEAST_R2, 2)} was demanded within two errors: {_count(found, poor)} cells keep it, "
        f"the least is {share(min(r2))}.\n\n{_checked(found)}"
    )
    if beside := [min(cell.penalised) for cell in found if cell.penalised and cell.unbounded > 0.5]:
        note += (
            "\n\nWhere more than half of a cell's releases are unbounded, the penalised coefficients beside are "
            f"covered in {span(beside)} of them (the least of each cell)."
        )
    if weak := [cell for cell in found if cell.strength < 1 and cell.unbounded < 1]:
        looks = [1 - cell.unbounded for cell in weak]
        held = float(np.average([cell.bounded or 0.0 for cell in weak], weights=looks))
        note += (
            f"\n\nA bounded interval is no proof that features are told apart. In the {len(weak)} cells of a "
            f"strength below 1 where some releases look bounded all the same, up to {share(max(looks), 2)} of the "
            f"releases do, and their intervals hold the truth in {share(held, 2)} on average."
        )
    return _regressions("coverage", f"Coverage of the cohort's coefficients, {draws} releases a cell", found, note)


def apart(found: list[Cell]) -> Shown:
    """Return the table of those that nobody had looked at."""
    r2 = [cell.r2 for cell in found if cell.r2 is not None]
    told = [cell.r2_told for cell in found if cell.r2_told is not None]
    beside = [min(cell.penalised) for cell in found if cell.penalised and cell.unbounded > 0.5]
    note = (
        f"{_count(found, low)} of {len(found)} cells keep what was demanded, with a least coverage of "
        f"{share(min(min(cell.coverage) for cell in found))}. Of r2, which is told in at most {share(max(told), 2)} of "
        f"a cell's releases, the least is {share(min(r2))}, and of the penalised coefficients "
        f"beside {share(min(beside))}. {_checked(found)}"
    )
    return _regressions("coverage-apart", f"Tables kept apart, {found[0].draws} releases a cell", found, note)


def population(found: list[Cell]) -> Shown:
    """Return the table of the population, and which cells fall short."""
    every = [one for cell in found for one in cell.coverage]
    short = [cell for cell in found if low(cell)]
    names = sorted({cell.table for cell in short})
    each = [[cell for cell in short if cell.table == name] for name in names]
    words = ", ".join(
        f"{len(at)} of {at[0].table} (down to {share(min(min(one.coverage) for one in at))})" for at in each
    )
    note = (
        f"{_count(found, low)} of {len(found)} cells keep {share(LEAST, 2)} within two simulation errors "
        f"({share(error(LEAST, found[0].draws))} each); the average over all {len(every):,} coefficients is "
        f"{share(float(np.mean(every)))}, since most sets at small epsilon are unbounded. Marked with ! are the "
        f"others: {words}. {_checked(found)}"
    )
    plain = [replace(cell, coverage=[min(cell.coverage)]) for cell in found]
    heads, rows = by_epsilon(plain, lambda cell: entry(cell).replace("^", ""), _lead)
    title = f"Coverage of the population's coefficients, {found[0].draws} releases a cell"
    return Shown("coverage-population", title, ("table, n", "intercept", *heads), rows, note)


def correlations(found: list[Pairs]) -> Shown:
    """Return the table of correlations, and what means come to."""

    def words(cell: Pairs) -> str:
        return ", ".join(f"{share(min(one), 2)} ({share(float(np.mean(one)))})" for one in cell.correlations)

    own, other = ([cell.correlations[at] for cell in found] for at in (0, 1))
    means = [one for cell in found for one in cell.means]
    worst = {cell.table: 1.0 for cell in found}
    for cell in found:
        worst[cell.table] = min(worst[cell.table], min(cell.correlations[1]))
    fallen = ", ".join(f"{name} to {share(worst[name], 2)}" for name in sorted(worst, key=lambda name: worst[name]))
    draws = found[0].draws
    note = (
        f"Correlations of the cohort: the averages of all {len(found)} cells are {span(map(np.mean, own))}, the least "
        f"of {sum(map(len, own)):,} shares is {share(min(map(min, own)), 2)}. Means, of cohort and population: "
        f"averages {span(map(np.mean, means))}, the least {share(min(map(min, means)), 2)}. With {draws} releases a "
        f"share that is .95 in truth has a simulation error of {share(error(0.95, draws))}.\n\n"
        f"Of the population the least correlation falls, over all cells of a table: {fallen}. The lowest average of a "
        f"cell is {share(min(map(float, map(np.mean, other))))}.\n\n"
        f"The share of intervals that are not all of [-1, 1] is {span((cell.told for cell in found), 2)}, and in "
        f"{sum(cell.told > 0.9 for cell in found)} cells above {share(0.9, 1)}."
    )
    heads, rows = by_epsilon(found, words, lambda cell: (f"{cell.table} 2^{cell.log2_clients}",))
    title = f"Coverage of correlations, {draws} releases a cell"
    return Shown("coverage-pairs", title, ("table, n", *heads), rows, note)


def any_residuals(found: list[Cell], usual: list[Cell]) -> Shown:
    """Return coverage and widths of intervals that assume nothing of residuals, beside those of one variance."""
    beside = {(*_lead(cell), cell.epsilon): min(cell.coverage) for cell in usual}
    rows = tuple(
        (
            *_lead(cell),
            f"{cell.epsilon:g}",
            share(beside[*_lead(cell), cell.epsilon]),
            share(min(cell.coverage)),
            "—" if cell.width is None else f"{cell.width:.1f}",
        )
        for cell in sorted(found, key=lambda cell: (cell.table, not cell.intercept))
    )
    heads = ("table, n", "intercept", "epsilon", "one variance", "any", "times as wide")
    least = min(min(cell.coverage) for cell in found)
    held = "all" if least == 1 else f"at least {share(least)}"
    note = (
        f'Least coverage of a coefficient. With `residuals="any"` every coefficient is covered in {held} of the '
        f"{found[0].draws} releases of a cell. Times as wide: the length "
        "of intervals over that of the linearised one of one variance, the median over coefficients of "
        f"{found[0].checked} releases."
    )
    return Shown("coverage-any", "The population, whatever the variances of residuals", heads, rows, note)


def strength(found: list[Cell]) -> Shown:
    """Return what share of releases is unbounded, by the strength of the features."""
    rows = []
    for start, end in zip(CLASSES, (*CLASSES[1:], float("inf")), strict=True):
        held = [cell for cell in found if start <= max(cell.strength, 0.0) < end]
        words = "below 1" if start == 0 else f"above {start:g}" if end == float("inf") else f"{start:g} to {end:g}"
        rows.append((words, len(held), span((cell.unbounded for cell in held), 3) if held else "—"))
    note = f"{found[0].draws} releases of each of the {len(found)} cells."
    heads = ("strength", "cells", "share unbounded")
    return Shown("coverage-strength", "Releases without bounded intervals, by strength", heads, tuple(rows), note)


def _count(found: list[Cell], fault: Callable[[Cell], bool]) -> int:
    return sum(not fault(cell) for cell in found)
