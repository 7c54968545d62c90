"""How every benchmark of a paper shows what it found: one table, one drawing, as Markdown, JSON, CSV and PNG.

A benchmark makes `Shown` objects and hands them to `show`. Cells that vary from run to run are `Spread`s: the median
and the 10 % and 90 % points. `--write` puts a table into the page of docs/ that has the marks of its name, between
these, with the command, the date and the machine; tests/papers/test_figures.py computes the small ones.
"""

import argparse
import csv
import datetime
import json
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

DOCS = Path(__file__).resolve().parents[1] / "docs"

INK, COLOURS = "#222222", ("#2f6db5", "#d9822b", "#3a8f4d", "#8a5fb0", "#b5413f", "#7a7f87", "#1f9e9e", "#b59a2f")
MARKERS = "osD^vPX*"


@dataclass(frozen=True)
class Spread:
    """What some runs gave: median, 10 % and 90 % points, and their number."""

    median: float
    low: float
    high: float
    runs: int

    def __str__(self) -> str:
        return f"{number(self.median)} ({number(self.low)} to {number(self.high)})"


Cell = str | int | float | Spread | None


def spread(values: Iterable[float]) -> Spread:
    """Return the spread of at least one run."""
    held = np.asarray(list(values), np.float64)
    low, median, high = np.quantile(held, [0.1, 0.5, 0.9])
    return Spread(float(median), float(low), float(high), held.size)


@dataclass(frozen=True)
class Plot:
    """A drawing of columns of the table against its first one."""

    x: str
    y: str
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Shown:
    """A table or figure of a paper, computed again.

    Attributes:
        name: of files and of the mark in the page.
        title: one line.
        heads: of the columns.
        rows: a None is shown as a dash.
        note: how to read it.
        plot: None for a table only.
    """

    name: str
    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    plot: Plot | None = None

    def markdown(self) -> str:
        """Return the table as it stands in the page."""
        lines = ["| " + " | ".join(self.heads) + " |", "|" + " --- |" * len(self.heads)]
        lines += ["| " + " | ".join(text(cell) for cell in row) + " |" for row in self.rows]
        return "\n".join(lines)

    def plain(self) -> dict[str, object]:
        """Return what JSON takes."""
        rows = [[vars(cell) if isinstance(cell, Spread) else cell for cell in row] for row in self.rows]
        return {"name": self.name, "title": self.title, "heads": list(self.heads), "rows": rows, "note": self.note}


def number(value: float) -> str:
    """Return three digits of a number."""
    if not np.isfinite(value):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 and abs(value) < 1e7 else f"{value:.3g}"


def text(cell: Cell) -> str:
    """Return a cell in words."""
    if cell is None:
        return "—"
    return number(cell) if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, int) else str(cell)


def load() -> str:
    """Return a sentence that says how busy the machine is: a figure of time is worth little without it."""
    cores = os.cpu_count() or 1
    return f"The load of the last minute was {os.getloadavg()[0]:.1f} on {cores} cores when this began."


def parser(description: str | None, runs: int, full_runs: int) -> argparse.ArgumentParser:
    """Return the options that all such benchmarks have."""
    found = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    found.add_argument("--full", action="store_true", help="full sizes, a paper's own where there is one")
    found.add_argument("--runs", type=int, help=f"of every cell (default {runs}, with --full {full_runs})")
    found.add_argument("--only", nargs="+", help="names of tables or figures")
    found.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    found.add_argument("--output", type=Path, help="a folder for CSV and PNG files")
    found.add_argument("--write", action="store_true", help="put the tables into the page of docs/ that shows them")
    found.set_defaults(small_runs=runs, full_runs=full_runs)
    return found


def runs_of(asked: argparse.Namespace) -> int:
    """Return how often every cell is drawn."""
    return int(asked.runs or (asked.full_runs if asked.full else asked.small_runs))


def show(parts: dict[str, Callable[[], Shown]], asked: argparse.Namespace) -> list[Shown]:
    """Compute what was asked for, and print, draw and write it."""
    if unknown := set(asked.only or ()) - set(parts):
        raise SystemExit(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(parts)}")
    if asked.write:
        # A mark that is missing is found before hours of computing, and not after them.
        for name in asked.only or parts:
            page_of(name)
    found = []
    for name in asked.only or parts:
        shown = parts[name]()
        found.append(shown)
        if not asked.json:
            print(f"\n{shown.title}\n\n{shown.markdown()}\n\n{shown.note}", flush=True)
        if asked.output:
            save(shown, asked.output)
        if asked.write:
            write(shown)
    if asked.json:
        print(json.dumps([shown.plain() for shown in found], indent=1))
    return found


def save(shown: Shown, folder: Path) -> None:
    """Write NAME.csv, and NAME.png where there is something to draw."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{shown.name}.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        wide = [any(isinstance(row[i], Spread) for row in shown.rows) for i in range(len(shown.heads))]
        heads = (
            [head, f"{head} 10%", f"{head} 90%"] if long else [head]
            for head, long in zip(shown.heads, wide, strict=True)
        )
        writer.writerow(chain.from_iterable(heads))
        for row in shown.rows:
            writer.writerow(chain.from_iterable(_cells(cell, long) for cell, long in zip(row, wide, strict=True)))
    if shown.plot:
        draw(shown, folder / f"{shown.name}.png")


def _cells(cell: Cell, wide: bool) -> list[Cell]:
    if isinstance(cell, Spread):
        return [cell.median, cell.low, cell.high]
    return [cell, cell, cell] if wide else [cell]


def draw(shown: Shown, path: Path) -> None:
    """Draw the columns with numbers against the first one; bars span 10 % to 90 % of the runs."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    assert shown.plot
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "text.color": INK})
    figure, axes = plt.subplots(figsize=(7.5, 4.6))
    for index, head in enumerate(shown.heads[1:], 1):
        points = [(row[0], cell) for row in shown.rows if isinstance(cell := row[index], float | Spread)]
        if not points:
            continue
        x = [float(str(at).replace(",", "")) for at, _ in points]
        y = [cell.median if isinstance(cell, Spread) else cell for _, cell in points]
        low = [cell.low if isinstance(cell, Spread) else cell for _, cell in points]
        high = [cell.high if isinstance(cell, Spread) else cell for _, cell in points]
        style = {"color": COLOURS[(index - 1) % len(COLOURS)], "marker": MARKERS[(index - 1) % len(MARKERS)]}
        axes.plot(x, y, label=head, linewidth=1.4, markersize=4, color=style["color"], marker=style["marker"])
        axes.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
    axes.set_xlabel(shown.plot.x)
    axes.set_ylabel(shown.plot.y)
    axes.set_xscale("log" if shown.plot.log_x else "linear")
    axes.set_yscale("log" if shown.plot.log_y else "linear")
    axes.set_title(shown.title, loc="left", fontsize=9.5, fontweight="bold", wrap=True)
    axes.legend(fontsize=7.5, frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def stamp() -> str:
    """Return the command, the date and the machine of a run; of a path only its last part."""
    words, left = [Path(sys.argv[0]).name], iter(sys.argv[1:])
    for word in left:
        if word == "--output":
            next(left)
        elif word not in ("--write", "--show"):
            words.append(word.rpartition("/")[2])
    machine = (
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}"
    )
    return f"`python benchmarks/{' '.join(words)}`, {datetime.date.today():%d %B %Y}, {machine}"  # noqa: DTZ011


def block(name: str) -> re.Pattern[str]:
    """Return the pattern of what a benchmark wrote under a name: its own text is the only group."""
    return re.compile(rf"(?<=<!-- {re.escape(name)} -->\n).*?(?=<!-- end {re.escape(name)} -->)", re.DOTALL)


def page_of(name: str, docs: Path = DOCS) -> Path:
    """Return the page that has the marks of a table.

    Raises:
        SystemExit: no page has them, or more than one.
    """
    pages = [page for page in sorted(docs.rglob("*.md")) if block(name).search(page.read_text("utf-8"))]
    if len(pages) != 1:
        marks = f"<!-- {name} --> and <!-- end {name} -->"
        raise SystemExit(f"{len(pages)} pages have the lines {marks}: put them where the table shall stand, once")
    return pages[0]


def write(shown: Shown, docs: Path = DOCS) -> None:
    """Put a table between its marks, in place of what an earlier run wrote, one level below the heading over it."""
    page = page_of(shown.name, docs)
    held = page.read_text("utf-8")
    above = re.sub(
        r"<!-- ([\w.-]+) -->\n.*?<!-- end \1 -->", "", held[: held.index(f"<!-- {shown.name} -->")], flags=re.DOTALL
    )
    level = "##" if "\n## " not in above else "###"
    body = f"\n{level} {shown.title}\n\n{wrapped(stamp())}\n\n{shown.markdown()}\n\n{wrapped(shown.note)}\n\n"
    page.write_text(block(shown.name).sub(lambda _: body, held), "utf-8")


def wrapped(words: str, width: int = 100) -> str:
    """Return prose in lines of at most so many characters; an empty line parts paragraphs."""
    if "\n\n" in words:
        return "\n\n".join(wrapped(paragraph, width) for paragraph in words.split("\n\n"))
    lines = [""]
    for word in words.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)
