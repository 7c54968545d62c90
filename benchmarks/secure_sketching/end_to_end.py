"""The paper's ridge regression through real services: three servers, an analyzer, and a client for every row.

The table is that of Figures 3 and 4 in our numbering, the rows are really drawn, sent, added up and released by
processes of this machine on loopback. Beside what the release gives stands the law that the other tables draw from.
"""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from showing import Cell, FloatArray, Shown, spread

from secure_sketching.designs import Table, regression_table
from secure_sketching.mechanisms import Claim, Mechanism, our_sketch, ridge_ratio, second_moments
from secure_sketching.mechanisms import ridge_cost as cost

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "deploy"))

COUNT, FEATURES, EPSILON, RIDGE = 5_062, 10, 1.0, 10.0
LAWS: dict[str, Mechanism] = {"second_moment": second_moments, "osnap": our_sketch}
"""Equation (4) has no value at so few clients (figure-5-d10-eps0.1-lambda10-mu1)."""


def rows_of(table: Table, rng: np.random.Generator) -> FloatArray:
    """Return rows with the table's second moments: a frame of orthonormal columns times its root."""
    frame = np.linalg.qr(rng.normal(size=(table.count, len(table.root))))[0]
    return np.asarray(frame @ table.root)


def specification(kind: str, table: Table) -> dict[str, Any]:
    """Return the task, ready for `POST /v1/tasks`."""
    bound = float(f"{table.entry_bound * 1.01:.6g}")
    names = [*(f"x{i}" for i in range(FEATURES)), "y"]
    return {
        "purpose": f"The ridge regression of the paper's figures ({kind})",
        "columns": [{"name": name, "lower": -bound, "upper": bound, "center": 0.0, "scale": 1.0} for name in names],
        "mechanism": {"kind": kind},
        "row_bound": float(f"{table.row_bound * 1.01:.6g}"),
        "epsilon": EPSILON,
        "delta": 1e-6,
        "min_clients": table.count,
        "max_clients": table.count,
        "max_rejected": 0,
    }


def released(kinds: tuple[str, ...], table: Table, rows: FloatArray, workers: int) -> dict[str, tuple[float, int]]:
    """Return phi of each kind's release and the number of rows that it counts, from services that run for it."""
    from services import analyst_token, local_services, running

    from lintra_analysis.access.rest_client import AnalyzerClient
    from lintra_client.upload.simulate import simulate

    found = {}
    with tempfile.TemporaryDirectory(prefix="lintra-figure-") as folder, ExitStack() as stack:
        servers, analyzer = local_services(Path(folder), 3)
        token = analyst_token(Path(folder))
        stack.enter_context(running([*servers, analyzer]))
        client = stack.enter_context(AnalyzerClient(analyzer.url, token))
        for kind in kinds:
            task = client.create_task(specification(kind, table))
            urls = [server["url"] for server in task["definition"]["servers"]]
            sent = simulate(task["task_id"], urls, rows, workers, lambda _: None)
            if sent.sent != len(rows):
                raise RuntimeError(f"only {sent.sent} of {len(rows)} rows were sent: {sent}")
            release = client.release(task["task_id"])
            asked = {"kind": "regression", "target": "y", "regularization": RIDGE}
            record = client.record(release).verified(client.keys()["identity_key"]).model_dump(mode="json")
            answer = client.analyse(release, **asked)["result"]
            slopes = {each["name"]: each["value"] for each in answer["coefficients"]}
            solution = np.array([slopes[f"x{i}"] for i in range(FEATURES)])
            found[kind] = phi(table, solution), int(record["num_clients"])
    return found


def phi(table: Table, solution: FloatArray) -> float:
    """Return the ridge cost of coefficients over that of the best ones."""
    gram = table.gram
    best = np.linalg.solve(gram[:-1, :-1] + RIDGE * np.eye(FEATURES), gram[:-1, -1])
    return cost(table, solution, RIDGE) / cost(table, np.asarray(best), RIDGE)


def table_of_services(runs: int, workers: int = 2) -> Shown:
    """Return what real services release beside the law of the other tables."""
    rng = np.random.default_rng(31)
    table = regression_table(COUNT, FEATURES, float(COUNT), rng)
    real = released(tuple(LAWS), table, rows_of(table, rng), workers)
    lines: list[tuple[Cell, ...]] = []
    for kind, law in LAWS.items():
        drawn = (law(table, Claim(EPSILON), np.random.default_rng([31, run])) for run in range(runs))
        scores = [ridge_ratio(table, seen, RIDGE) for seen in drawn if seen is not None]
        value, counted = real[kind]
        lines.append((kind, counted, value, spread(scores)))
    return Shown(
        "end-to-end",
        f"Ridge regression through real services, d = {FEATURES}, lambda = {RIDGE:g}, mu^2 = n, epsilon {EPSILON:g}",
        ("mechanism", "clients", "phi, released by three servers", "phi, by the law of the other tables"),
        tuple(lines),
        "Each row is a client's, sealed and sent to three server processes; the analyzer adds their sums and is asked "
        "for the regression over REST. One release each, with the system's randomness, so that another run prints "
        f"other numbers in that column. Beside it {runs} runs of the law. The released point is drawn towards 0.",
    )  # fmt: skip
