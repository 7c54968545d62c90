"""The tables of docs/explanation/benchmarks-scale.md, which the benchmark writes between two marks from its JSON."""

import platform
import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log
from pathlib import Path
from typing import cast

import numpy as np

from scale.costs import ReleaseCost, StageCost

Kept = Mapping[str, object]
"""What the JSON holds: the machine, the last day, the rows by key, and the releases."""

Rows = Mapping[str, Mapping[str, object]]

BEGIN, END = "<!-- scale -->", "<!-- end scale -->"


def machine(cores: int | None) -> str:
    """Return what the numbers were measured on."""
    return f"{cores} cores, {platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}"


def section(kept: Kept) -> list[str]:
    """Return the lines of the section: all that was measured, as the JSON has it."""
    rows = cast("Rows", kept["rows"])
    costs = [_cost(one) for one in cast("Rows", kept["releases"]).values()]
    stamp = f"`python benchmarks/bench_scale.py`, {kept['day']}, {kept['machine']}"
    said = textwrap.wrap(missed(rows), 100)
    return [stamp, "", *rows_table(rows), "", *said, "", *stages_table(costs), *exponents(costs)]


def rows_table(found: Rows) -> list[str]:
    """Return the table of all rows: ratios first, then the figures; and when each was measured, beside what load."""
    lines = [
        "| row | times the floor | today | floor | aim | met | unit | measured | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for key, one in sorted(found.items()):
        today, floor, target = (one[name] for name in ("today", "floor", "target"))
        assert isinstance(today, int | float)
        ratio = f"{today / floor:.3g}" if isinstance(floor, int | float) and floor else ""
        aim = "" if target is None else f"{'>=' if one['at_least'] else '<='} {target:g}"
        shown = "" if floor is None else f"{floor:.3g}"
        kept = {True: "yes", False: "no", None: ""}[met(one)]
        if met(one) is False and beyond_floor(one):
            kept = "no: its floor is beyond it"
        figures = f"{ratio} | {today:.3g} | {shown} | {aim} | {kept} | {one['unit']} | {one['measured']}"
        lines.append(f"| {one['what']} (`{key}`) | {figures} | {one['remark']} |")
    return lines


def beyond_floor(one: Mapping[str, object]) -> bool:
    """Return whether a row's floor misses its aim, so that on that machine and day no software could have kept it.

    A floor that the row itself goes beyond is none, and excuses nothing.
    """
    today, floor, target = one["today"], one["floor"], one["target"]
    if not isinstance(today, int | float) or not isinstance(floor, int | float) or not isinstance(target, int | float):
        return False
    return today <= floor < target if one["at_least"] else today >= floor > target


def met(one: Mapping[str, object]) -> bool | None:
    """Return whether a row's figure keeps its aim; None if it has none, or was measured at another size."""
    today, target = one["today"], one["target"]
    if not isinstance(today, int | float) or not isinstance(target, int | float) or one.get("quick", False):
        return None
    return today >= target if one["at_least"] else today <= target


def missed(found: Rows) -> str:
    """Return in sentences which rows miss their aims, and of which of them the floor does."""
    aimed = {key: met(one) for key, one in sorted(found.items()) if met(one) is not None}
    if not aimed:
        return "No row with an aim was measured at its whole size."
    those = [key for key, kept in aimed.items() if not kept]
    if not those:
        return f"All {len(aimed)} aims are met."
    floors = [key for key in those if beyond_floor(found[key])]
    ours = [key for key in those if key not in floors]
    said = f"{len(aimed) - len(those)} of {len(aimed)} aims are met."
    if floors:
        said += f" Of {_named(floors)} the floor itself misses the aim on this machine."
    return said + (f" Missed though the floor keeps it: {_named(ours)}." if ours else "")


def _named(keys: Sequence[str]) -> str:
    return ", ".join(f"`{key}`" for key in keys)


def _cost(found: Mapping[str, object]) -> ReleaseCost:
    stages = found["stages"]
    assert isinstance(stages, list | tuple)
    return ReleaseCost(
        int(str(found["num_reports"])), int(str(found["num_servers"])), tuple(StageCost(**one) for one in stages)
    )


def stages_table(costs: Sequence[ReleaseCost]) -> list[str]:
    """Return what the stages of some releases cost, and how that grows with the number of reports."""
    lines = [
        "| n | N | stage | analyzer CPU s | server CPU s | analyzer MiB | server MiB | wire MiB |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    return lines + [
        f"| {cost.num_reports:,} | {cost.num_servers} | {stage.stage} | {stage.analyzer_cpu:.2f} "
        f"| {stage.server_cpu:.2f} | {stage.analyzer_peak:.0f} | {stage.server_peak:.0f} "
        f"| {stage.wire / 2**20:.1f} |"
        for cost in costs
        for stage in cost.stages
    ]


def exponents(costs: Sequence[ReleaseCost]) -> list[str]:
    """Return how CPU grows from each size to the next, for each number of servers: as n to this power."""
    lines = []
    for servers in sorted({cost.num_servers for cost in costs}):
        own = sorted((cost for cost in costs if cost.num_servers == servers), key=lambda cost: cost.num_reports)
        for small, large in pairwise(own):
            grown = log(large.cpu / small.cpu) / log(large.num_reports / small.num_reports)
            sizes = f"from {small.num_reports:,} to {large.num_reports:,} reports"
            lines.append(f"* N = {servers}: {sizes} CPU grows as n^{grown:.2f}.")
    return lines


def write_section(page: Path, lines: Sequence[str]) -> None:
    """Put lines between the marks of a page.

    Raises:
        ValueError: the page has no marks.
    """
    text = page.read_text("utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"{page} needs one {BEGIN} and one {END}")
    before, _, rest = text.partition(BEGIN)
    page.write_text(before + BEGIN + "\n\n" + "\n".join(lines) + "\n\n" + END + rest.partition(END)[2], "utf-8")
