"""A thousand Fourier features of each flight, through three servers and an analyzer that are processes of their own.

    python deploy/demo_wide.py [--clients 2000] [--rank 20] [--pairs 500] [--epsilon 4] [--flights 327346]

Twice: every flight of a few thousand is a client of its own, and sixteen airlines send one report each for all of
theirs. Random features of six columns (Rahimi and Recht 2007) explain how late a flight arrives along the directions
that a range finder releases; R2 is of predictions of all flights, beside that of least squares without privacy.
"""

import argparse
import json
import math
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from demo_organisations import COLUMNS, load
from rich.console import Console
from services import Service, analyst_token, local_services, running

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_analysis.releases.sampling import gaussians, uniforms
from lintra_client import BlockingClient
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.task import Task

NUM_SERVERS = 3
TARGET = "arr_delay"
WIDTH = 0.25
"""Deviation of a frequency, for columns in their public scales."""
MOST_DEVIATIONS, HALF = 4.0, 0.5
"""A delay is clipped at so many scales, which weigh as much as half of all features together."""
ROW_BOUND = "1.11803"
BLOCK = 1 << 14
console = Console()


@dataclass(frozen=True, eq=False)
class WideFlights:
    """Flights as rows of features: cosines and sines of norm 1, and the delay behind them.

    Attributes:
        table: six columns and the delay from their public centres in public scales, shape `(n, 7)`.
        frequencies: shape `(6, pairs)`.
    """

    table: FloatArray
    frequencies: FloatArray

    @classmethod
    def of(cls, table: FloatArray, pairs: int) -> "WideFlights":
        """Draw frequencies that everybody knows."""
        centres, scales = np.array([column[3] for column in COLUMNS]), np.array([column[4] for column in COLUMNS])
        frequencies = WIDTH * gaussians((len(COLUMNS) - 1, pairs), expand(bytes(32), "frequencies"))
        return cls((table - centres) / scales, frequencies)

    @property
    def names(self) -> list[str]:
        """Return the names of the features, then that of the target."""
        pairs = self.frequencies.shape[1]
        return [*(f"cos{i}" for i in range(pairs)), *(f"sin{i}" for i in range(pairs)), TARGET]

    def rows(self, chosen: IntArray) -> FloatArray:
        """Return features and target of some flights, shape `(k, 2 pairs + 1)`."""
        held = self.table[chosen]
        turned = held[:, :-1] @ self.frequencies
        target = np.clip(held[:, -1], -MOST_DEVIATIONS, MOST_DEVIATIONS) * (HALF / MOST_DEVIATIONS)
        size = math.sqrt(self.frequencies.shape[1])
        return np.column_stack([np.cos(turned) / size, np.sin(turned) / size, target])

    def blocks(self) -> Iterator[FloatArray]:
        """Yield all rows, some at a time."""
        for start in range(0, len(self.table), BLOCK):
            yield self.rows(np.arange(start, min(start + BLOCK, len(self.table))))


def specification(flights: WideFlights, rank: int, epsilon: float, min_clients: int, **more: object) -> dict[str, Any]:
    """Return what is asked for: a range finder with the delay as its target, and shares spread over the servers."""
    *features, target = flights.names
    most = 1 / math.sqrt(flights.frequencies.shape[1])
    columns = [{"name": name, "lower": -most, "upper": most, "center": 0, "scale": 1} for name in features]
    columns.append({"name": target, "lower": -HALF, "upper": HALF, "center": 0, "scale": 1})
    return {
        "purpose": "How late flights arrive, along the directions of very many features",
        "columns": columns,
        "mechanism": {"kind": "range_finder", "rank": rank, "targets": [{"column": target}]},
        "row_bound": ROW_BOUND,
        "epsilon": epsilon,
        "min_clients": min_clients,
        "share_form": "spread",
    } | more


def through_clients(
    analyzer: AnalyzerClient, flights: WideFlights, clients: int, rank: int, epsilon: float
) -> dict[str, Any]:
    """Collect some flights, each as a client of its own, release them, and return how well they predict all."""
    # The same flights for everybody, spread over the year.
    chosen = np.sort(np.argsort(uniforms((len(flights.table),), expand(bytes(32), "flights")))[:clients])
    task = Task.from_value(analyzer.create_task(specification(flights, rank, epsilon, clients))["definition"])
    begun, started = time.monotonic(), time.process_time()
    with BlockingClient(task.task_id, [entry.url for entry in task.servers], ledger=None) as client:
        for start in range(0, clients, 256):
            summary = client.send_many(flights.rows(chosen[start : start + 256]))
            if summary.failed:
                raise RuntimeError(str(summary.failed[0]))
    seconds = {"send": time.monotonic() - begun, "client CPU": time.process_time() - started}
    return released(analyzer, task, flights, seconds, clients)


def through_organisations(
    analyzer: AnalyzerClient, flights: WideFlights, carrier: IntArray, names: list[str], rank: int, epsilon: float
) -> dict[str, Any]:
    """Collect all flights, one report of each airline, release them, and return how well they predict."""
    who = {"rows_per_person": 1, "max_rows": 100_000}
    asked = specification(flights, rank, epsilon, len(names), max_clients=len(names), contributors=who)
    task = Task.from_value(analyzer.create_task(asked)["definition"])
    begun, started = time.monotonic(), time.process_time()
    for number in range(len(names)):
        with BlockingClient(task.task_id, [entry.url for entry in task.servers], ledger=None) as client:
            client.send_contribution(client.contribution(flights.rows(np.flatnonzero(carrier == number))))
    seconds = {"contribute": time.monotonic() - begun, "organisations' CPU": time.process_time() - started}
    return released(analyzer, task, flights, seconds, len(names))


def released(
    analyzer: AnalyzerClient, task: Task, flights: WideFlights, seconds: dict[str, float], reports: int
) -> dict[str, Any]:
    """Release a task and return what its ridge regression tells, and R2 of its predictions of all flights."""
    begun = time.monotonic()
    release_id = analyzer.release(task.task_id)
    seconds["release"] = time.monotonic() - begun
    record = analyzer.record(release_id).verified(analyzer.keys()["identity_key"])
    begun = time.monotonic()
    found = analyzer.analyse(release_id, "wide-ridge", target=TARGET)["result"]
    seconds["analyse"] = time.monotonic() - begun
    slopes, left, spread = np.array(found["coefficients"]), 0.0, []
    for block in flights.blocks():
        left += float(np.square(block[:, -1] - block[:, :-1] @ slopes - found["intercept"]).sum())
        spread.append(block[:, -1])
    outcome = np.concatenate(spread)
    return {
        "reports": reports,
        "rows": found["num_clients"],
        "words": task.num_words,
        "epsilon": record.privacy.epsilon,
        "directions": found["components"],
        "r2": 1 - left / float(np.square(outcome - outcome.mean()).sum()),
        "explained": found["explained_share"],
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
    }


def without_privacy(flights: WideFlights) -> float:
    """Return R2 of least squares on all features of all flights, nothing clipped but delays."""
    products = np.zeros((len(flights.names) + 1,) * 2)
    for block in flights.blocks():
        design = np.column_stack([np.ones(len(block)), block])
        products += design.T @ design
    solution = np.linalg.lstsq(products[:-1, :-1], products[:-1, -1], rcond=1e-12)[0]
    whole = float(products[-1, -1]) - float(products[0, -1]) ** 2 / float(products[0, 0])
    left = float(products[-1, -1] - 2 * solution @ products[:-1, -1] + solution @ products[:-1, :-1] @ solution)
    return 1 - left / whole


def memory(services: list[Service]) -> dict[str, int]:
    """Return the most MiB that each service held so far."""
    for service in services:
        service.note_memory()
    return {service.name: service.peak_memory >> 20 for service in services}


def main() -> None:
    """Start the services, send both ways, release, and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clients", type=int, default=2000)
    parser.add_argument("--rank", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--epsilon", type=float, default=4.0, help="of the clients; the airlines promise 1")
    parser.add_argument("--flights", type=int, help="take only so many of the airlines' flights")
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    options = parser.parse_args()
    table, carrier, names = load()
    if options.flights is not None:
        table, carrier = table[:: -(-len(table) // options.flights)], carrier[:: -(-len(carrier) // options.flights)]
    flights = WideFlights.of(table, options.pairs)
    folder = Path(tempfile.mkdtemp(prefix="lintra-wide-"))
    servers, analyzer = local_services(folder, NUM_SERVERS)
    token = analyst_token(folder)
    with ExitStack() as stack:
        stack.enter_context(running([*servers, analyzer]))
        desk = stack.enter_context(AnalyzerClient(analyzer.url, token))
        result: dict[str, Any] = {"columns": len(flights.names), "rank": options.rank}
        result["clients"] = through_clients(desk, flights, options.clients, options.rank, options.epsilon)
        result["organisations"] = through_organisations(desk, flights, carrier, names, options.rank, 1.0)
        result["MiB"] = memory([*servers, analyzer])
        stored = [sum(f.stat().st_size for f in folder.glob(f"{one.name}-data/**/*") if f.is_file()) for one in servers]
        result["MiB on disk"] = [size >> 20 for size in stored]
    shutil.rmtree(folder)
    result["r2 without privacy"] = without_privacy(flights)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "wide.json").write_text(json.dumps(result, indent=2) + "\n")
    console.print_json(data=result)


if __name__ == "__main__":
    main()
