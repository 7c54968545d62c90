"""Sixteen airlines, one regression: each sends one report for all of its flights, and nobody sees any airline's sums.

`make demo-organisations` starts three servers and an analyzer on this machine, as processes of their own. What the
airlines learn together stands beside what each learns alone, under the same promise and without any.
"""

import argparse
import json
import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from flights import DATA, load_flights
from rich.console import Console
from rich.table import Table
from services import analyst_token, local_services, running
from staying import add_option, sign_in_link, stay

from lintra_analysis import regression
from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_analysis.kinds.decode import read
from lintra_client import BlockingClient
from lintra_protocol.crypto.randomness import bulk_system_randomness
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import LintraError
from lintra_protocol.task import Task

NUM_SERVERS = 3
TARGET = "arr_delay"
EPSILON, DELTA = "1", "0.000001"
# Public bounds, centres and scales, in round numbers that anybody could have said beforehand.
COLUMNS = (
    ("month", 1, 12, 6.5, 3.5),
    ("day", 1, 31, 16, 9),
    ("sched_dep_time", 0, 2400, 1350, 470),
    ("dep_delay", -60, 300, 12, 40),
    ("air_time", 0, 720, 150, 95),
    ("distance", 0, 5000, 1050, 730),
    (TARGET, -90, 300, 7, 45),
)
console = Console()


def main() -> None:
    """Start the services, let every airline report, release, regress, and show what came out."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="demo-output", help="folder for organisations.json")
    add_option(parser)
    options, begun = parser.parse_args(), time.monotonic()
    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    rows, carrier, names = load()
    folder = Path(tempfile.mkdtemp(prefix="lintra-organisations-"))
    servers, analyzer = local_services(folder, NUM_SERVERS)
    token = analyst_token(folder)
    console.print(f"Starting {NUM_SERVERS} servers and an analyzer, each a process of its own, on loopback")
    with ExitStack() as stack:
        stack.enter_context(running([*servers, analyzer]))
        desk = stack.enter_context(AnalyzerClient(analyzer.url, token))
        result = run(desk, rows, carrier, names)
        result["seconds"]["total"] = round(time.monotonic() - begun, 1)
        (output / "organisations.json").write_text(json.dumps(result, indent=2) + "\n")
        show(result)
        if options.stay:
            stay(lambda: sign_in_link(analyzer), console)
    shutil.rmtree(folder)


def load() -> tuple[FloatArray, IntArray, list[str]]:
    """Return the flights with the seven columns, shape `(n, 7)`, which airline's each is, and the airlines' codes."""
    table, own = load_flights()
    with np.load(DATA.with_name("flight_carriers.npz"), allow_pickle=False) as held:
        carrier, names = held["carrier"].astype(np.int64), held["carriers"].tolist()
    return table[:, [own.index(name) for name, *_ in COLUMNS]], carrier, names


def specification(num_airlines: int, max_rows: int) -> dict[str, object]:
    """Return what is asked for: products of the columns, each flight a person of one row."""
    return {
        "purpose": "How late flights arrive, from what is known at departure: a regression over all airlines",
        "columns": [
            {"name": name, "lower": low, "upper": high, "center": center, "scale": scale}
            for name, low, high, center, scale in COLUMNS
        ],
        "mechanism": {"kind": "second_moment", "intercept": "1.5", "trace": True},
        "row_bound": 3,
        "epsilon": EPSILON,
        "delta": DELTA,
        "min_clients": num_airlines,
        "max_clients": num_airlines,
        "contributors": {"rows_per_person": 1, "max_rows": max_rows},
    }


def run(analyzer: AnalyzerClient, rows: FloatArray, carrier: IntArray, names: list[str]) -> dict[str, Any]:
    """Collect, release and regress; return all numbers that are shown."""
    seconds, begun = {}, time.monotonic()
    created = analyzer.create_task(specification(len(names), 100_000))
    task = Task.from_value(created["definition"])
    urls = [entry.url for entry in task.servers]
    alone: list[dict[str, Any]] = []
    for number, name in enumerate(names):
        own = rows[carrier == number]
        # Without a ledger: an airline that keeps one has every person of its file charged.
        with BlockingClient(task.task_id, urls, ledger=None) as client:
            made = client.contribution(own)
            client.send_contribution(made)
        noised = task.measurement.contribution(made.normalised, made.persons, bulk_system_randomness())
        alone.append({"airline": name, "rows": len(own), **scores(task, noised, own, rows)})
        console.print(f"  {name}: {len(own):,} flights in one report")
    seconds["contribute"] = round(time.monotonic() - begun, 1)
    begun = time.monotonic()
    release_id = analyzer.release(task.task_id)
    record = analyzer.record(release_id).verified(analyzer.keys()["identity_key"])
    seconds["release"] = round(time.monotonic() - begun, 1)
    features = [name for name, *_ in COLUMNS[:-1]]
    answer = analyzer.analyse(release_id, "regression", target=TARGET, features=features)["result"]
    return {
        "task_id": task.task_id,
        "release_id": release_id,
        "privacy": record.privacy.persons,
        "epsilon": record.privacy.epsilon,
        "colluding": {str(each.percent): each.epsilon for each in record.privacy.if_colluding},
        "rows": len(rows),
        "r2": score(answer["coefficients"], answer["intercept"]["value"], rows),
        "r2_non_private": score_of(fitted(rows), rows),
        "alone": sorted(alone, key=lambda each: -each["rows"]),
        "seconds": seconds,
    }


def scores(task: Task, noised: IntArray, own: FloatArray, rows: FloatArray) -> dict[str, float | None]:
    """Return R2 over all flights of what one airline learns from its own: with the same promise, and without any."""
    plain = score_of(fitted(own), rows)
    try:
        found = regression(read(task, noised[np.newaxis], np.array([1])), TARGET, of="cohort")
    except LintraError:
        return {"r2": None, "r2_non_private": plain}
    slopes = [{"name": each.name, "value": each.value} for each in found.coefficients]
    return {"r2": score(slopes, found.intercept.value, rows), "r2_non_private": plain}


def score(coefficients: list[dict[str, Any]], intercept: float, rows: FloatArray) -> float:
    """Return R2 over all flights of coefficients in the columns' units."""
    value = {each["name"]: float(each["value"]) for each in coefficients}
    return score_of(np.array([intercept, *(value[name] for name, *_ in COLUMNS[:-1])]), rows)


def fitted(rows: FloatArray) -> FloatArray:
    """Return ordinary least squares of the last column, the intercept first."""
    design = np.column_stack([np.ones(len(rows)), rows[:, :-1]])
    return np.asarray(np.linalg.lstsq(design, rows[:, -1], rcond=None)[0], np.float64)


def score_of(solution: FloatArray, rows: FloatArray) -> float:
    """Return R2 of an intercept and slopes over rows as they are, nothing clipped."""
    residual = rows[:, -1] - solution[0] - rows[:, :-1] @ solution[1:]
    return float(1 - residual @ residual / np.square(rows[:, -1] - rows[:, -1].mean()).sum())


def show(result: dict[str, Any]) -> None:
    """Print the table, the promise and the times."""
    table = Table(title=f"R2 of {TARGET} over all {result['rows']:,} flights")
    for name in ("", "flights", f"epsilon {EPSILON}", "without privacy"):
        table.add_column(name, justify="left" if not name else "right")
    table.add_row(
        "all airlines together", f"{result['rows']:,}", f"{result['r2']:.3f}", f"{result['r2_non_private']:.3f}"
    )
    for each in result["alone"]:
        private = "nothing" if each["r2"] is None else f"{each['r2']:.3f}"
        table.add_row(f"{each['airline']} alone", f"{each['rows']:,}", private, f"{each['r2_non_private']:.3f}")
    console.print(table)
    told = ", ".join(f"{float(value):.3g} if {percent} % do" for percent, value in result["colluding"].items())
    console.print(f"Promised to {result['privacy']}: epsilon if other airlines collude: {told}.")
    console.print("An airline's own sums are seen by nobody unless all others collude; then with its own noise.")
    console.print("Time: " + ", ".join(f"{name} {value} s" for name, value in result["seconds"].items()))


if __name__ == "__main__":
    main()
