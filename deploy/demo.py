"""The demonstration: real rows, each a client of its own; real servers; one analyzer; two private answers.

`make demo` starts everything on this machine; `make console`, which adds `--stay`, then keeps it up and prints a link
to the console. With `--analyzer` and `--token-file` it uses services that run already (docker-compose.yml). It leaves
result.json and picture.png in the output folder.
"""

import argparse
import json
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from choose import planned_noise
from flights import load_flights
from picture import draw
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from services import Service, analyst_token, local_services, peak_memory, running
from staying import add_option, sign_in_link, stay
from study import (
    DELTA,
    EPSILON,
    FEATURES,
    RANK,
    REGULARIZATION,
    ROW_BOUND,
    ROWS,
    TARGET,
    analyses,
    columns,
    specifications,
)
from summary import certificate_lines, comparison_table, epsilon_of_both, promise_lines
from yardsticks import Problem, Setting, Truth, local_products, local_rows, non_private, simulated, trusted_curator

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_client.upload.simulate import simulate
from lintra_protocol.crypto.ring import FloatArray

NUM_SERVERS = 3
console = Console()


@dataclass
class Stages:
    """How long each stage took, in seconds."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the time a block takes to the stage of this name."""
        begun = time.monotonic()
        yield
        self.seconds[name] = round(self.seconds.get(name, 0.0) + time.monotonic() - begun, 3)


def main() -> None:
    """Parse the command line, find or start the services, run, and show what came out."""
    options = _options()
    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    rows, _ = load_flights(options.rows)
    stages, begun = Stages(), time.monotonic()
    with _existing(options) if options.analyzer else _started(stages) as (analyzer, services):
        result, shown = run(analyzer, rows, options.workers, stages)
        result["seconds"] = {**stages.seconds, "total": round(time.monotonic() - begun, 3)}
        result["peak_memory_bytes"] = _peak_memories(services)
        (output / "result.json").write_text(json.dumps(result, indent=2) + "\n")
        draw(output / "picture.png", result, shown)
        show(result, output)
        if options.stay:
            stay(lambda: sign_in_link(services[-1]), console)


def _peak_memories(services: Sequence[Service]) -> dict[str, int]:
    """Return the most bytes that each of the services, the clients and this process held."""
    for service in services:
        service.note_memory()
    # Of the processes that ended, which are the clients', the largest; in kilobytes.
    clients = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    held = {service.name: service.peak_memory for service in services}
    return held | {"clients": clients, "demo": peak_memory(os.getpid())}


@contextmanager
def _existing(options: argparse.Namespace) -> Iterator[tuple[AnalyzerClient, Sequence[Service]]]:
    """Use an analyzer that runs already."""
    token = Path(options.token_file).read_text().split()[-1]
    with AnalyzerClient(options.analyzer, token) as analyzer:
        yield analyzer, ()


@contextmanager
def _started(stages: Stages) -> Iterator[tuple[AnalyzerClient, Sequence[Service]]]:
    """Start servers and an analyzer for the length of a block; their data go, unless the block fails."""
    folder = Path(tempfile.mkdtemp(prefix="lintra-demo-"))
    servers, analyzer = local_services(folder, NUM_SERVERS)
    services, token = [*servers, analyzer], analyst_token(folder)
    console.print(f"Starting {NUM_SERVERS} servers and an analyzer, each a process of its own, on loopback")
    try:
        with ExitStack() as stack:
            with stages.timed("start"):
                stack.enter_context(running(services))
            yield stack.enter_context(AnalyzerClient(analyzer.url, token)), services
    except BaseException:
        console.print(f"The services' logs and data are in {folder}")
        raise
    shutil.rmtree(folder)


def run(
    analyzer: AnalyzerClient, rows: FloatArray, workers: int, stages: Stages
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Create both tasks, send every row to both, release and analyse them, and score the answers."""
    problem = Problem(columns(), TARGET, FEATURES, REGULARIZATION, RANK)
    tasks: list[dict[str, Any]] = []
    for specification in specifications(len(rows)):
        with stages.timed("create tasks"):
            task = analyzer.create_task(specification)
        tasks.append(_one_task(analyzer, task, rows, workers, stages))
    with stages.timed("yardsticks"):
        truth = Truth(rows, problem)
        r2, explained = non_private(truth)
        for task in tasks:
            _score(task, truth, r2, explained)
    shown = _coefficients(truth, tasks[1].pop("_ridge"))
    tasks[0].pop("_ridge")
    result = {
        "rows": len(rows),
        "servers": NUM_SERVERS,
        "tasks": tasks,
        "bytes_per_report": {task["mechanism"]: task["bytes_per_report"] for task in tasks},
        # Every client answered both tasks: what both releases together cost it.
        "epsilon_of_both": epsilon_of_both([task["certificate"] for task in tasks]),
    }
    return result, shown


def _one_task(
    analyzer: AnalyzerClient, task: dict[str, Any], rows: FloatArray, workers: int, stages: Stages
) -> dict[str, Any]:
    """Collect and release one task, and ask the analyzer for its answers."""
    definition, own = task["definition"], Stages()
    kind = definition["mechanism"]["kind"]
    console.print(
        f"\n[bold]Task {task['task_id'][:12]}[/bold]: {kind}, epsilon {task['epsilon']}, delta {task['delta']}"
    )
    urls = [server["url"] for server in definition["servers"]]
    with (
        stages.timed(f"upload {kind}"),
        own.timed("upload"),
        _bar(f"  {len(rows):,} clients report", len(rows)) as step,
    ):
        sent = simulate(task["task_id"], urls, rows, workers, step)
    if sent.sent != len(rows):
        raise SystemExit(f"only {sent.sent} of {len(rows)} rows were sent: {sent}")
    with stages.timed(f"release {kind}"), own.timed("release"), console.status("  the servers agree and release"):
        release_id = analyzer.release(task["task_id"])
    record = analyzer.record(release_id).verified(analyzer.keys()["identity_key"]).model_dump(mode="json")
    with stages.timed(f"analyse {kind}"), own.timed("analyse"):
        ridge, low_rank = (analyzer.analyse(release_id, **request)["result"] for request in analyses())
    for line in certificate_lines(release_id, record):
        console.print(f"  {line}")
    return {
        "mechanism": kind,
        "task_id": task["task_id"],
        "release_id": release_id,
        "epsilon": float(task["epsilon"]),
        "delta": float(task["delta"]),
        "epsilon_realised": float(record["privacy"]["epsilon"]),
        "sigma": float(record["noise"]["sigma"] * float(record["noise"]["step"])),
        "cohort": record["num_clients"],
        "clipped_rows": sent.clipped,
        "bytes_per_report": task["upload"]["total_bytes"],
        "seconds": own.seconds,
        "certificate": record,
        "_ridge": ridge,
        "low_rank": low_rank,
    }


def _score(task: dict[str, Any], truth: Truth, r2: float, explained: float) -> None:
    """Put the answers of one release beside the yardsticks, scored on the raw rows, which only this script has."""
    kind = task["mechanism"]
    ridge, low_rank = task["_ridge"], task["low_rank"]
    sketch_rows = int(task["certificate"]["rows"]) if kind == "osnap" else 2
    setting = Setting(ROW_BOUND, EPSILON, DELTA, sketch_rows)
    noise = planned_noise(kind, ROW_BOUND, len(truth.rows), sketch_rows)
    task["ridge"] = {
        "r2": truth.r2(truth.normalised(np.array([each["value"] for each in ridge["coefficients"]]))),
        "r2_predicted": ridge["r2"],
        "r2_non_private": r2,
        "r2_simulated": vars(simulated(truth, kind, setting, noise)),
        "r2_central": vars(trusted_curator(truth, kind, setting)),
        "regularised": ridge["regularised"],
        "warnings": ridge["warnings"],
    }
    if kind == "second_moment":
        task["ridge"]["r2_local"] = vars(local_rows(truth, setting))
        task["ridge"]["r2_local_products"] = vars(local_products(truth, setting))
    task["low_rank"] = {
        "rank": RANK,
        "explained": truth.explained(np.array(low_rank["components"]).T),
        "explained_non_private": explained,
        "warnings": low_rank["warnings"],
    }


def _coefficients(truth: Truth, ridge: dict[str, Any]) -> dict[str, Any]:
    """Return what the picture shows of the second moments' regression."""
    features = truth.features
    gram = truth.gram[np.ix_(features, features)] + truth.problem.regularization * np.eye(len(features))
    return {
        "names": list(ridge["features"]),
        "non_private": np.linalg.solve(gram, truth.gram[features, truth.target]).tolist(),
        "second_moment": truth.normalised(np.array([each["value"] for each in ridge["coefficients"]])).tolist(),
        "interval": [
            None if each["interval"] is None else [float(end * unit) for end in each["interval"]]
            for each, unit in zip(ridge["coefficients"], truth.normalised(np.ones(len(features))), strict=True)
        ],
        "regularised": ridge["regularised"],
    }


def show(result: dict[str, Any], output: Path) -> None:
    """Print the one table, the times, and where the files are."""
    console.print()
    console.print(comparison_table(result))
    console.print()
    console.print(
        f"Each client took part in both releases; together they cost it epsilon {result['epsilon_of_both']:.4f} "
        f"at delta {DELTA:g}."
    )
    for line in promise_lines(result["tasks"][0]["certificate"]):
        console.print(line)
    console.print()
    stages = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in result["seconds"].items())
    memory = max(result["peak_memory_bytes"].values()) / 2**20
    console.print(f"Time: {stages}. Largest process: {memory:.0f} MB.")
    console.print(f"Written: {output / 'result.json'}, {output / 'picture.png'}")


@contextmanager
def _bar(text: str, total: int) -> Iterator[Any]:
    """Show a progress bar for a block; it yields the function to call with how much is done."""
    parts = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*parts, console=console) as progress:
        bar = progress.add_task(text, total=total)
        yield lambda done: progress.update(bar, completed=done)
        progress.update(bar, completed=total)


def _options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--rows", type=int, default=ROWS, help=f"how many flights take part, up to 327346 (default: {ROWS})"
    )
    parser.add_argument("--workers", type=int, default=2, help="processes that the clients share")
    parser.add_argument("--output", default="demo-output", help="folder for result.json and picture.png")
    parser.add_argument("--analyzer", help="address of an analyzer that runs already")
    parser.add_argument("--token-file", help="file that ends with an analyst token for it")
    add_option(parser)
    options = parser.parse_args(arguments)
    if options.stay and options.analyzer:
        parser.error("--stay is for services that this command starts; those of --analyzer stay by themselves")
    return options


if __name__ == "__main__":
    main()
