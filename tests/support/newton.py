"""Chains of logistic rounds without servers: the sums of a table's own reports, and all noise drawn at once."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lintra_analysis.kinds.decode import read
from lintra_analysis.releases.newton_sums import NewtonSums
from lintra_analysis.releases.release import Release
from lintra_analysis.spec.build_task import build_task
from lintra_analysis.spec.second_round import build_second_task
from lintra_analysis.spec.specification import Specification
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.task import Task
from support import make_task
from support.analyzer_world import KEYS, NOW, seeded

SERVERS = make_task("sum").servers


def specification(features: int, clients: int, rounds: int = 3, **changes: Any) -> Specification:
    """Return features x1, x2, .. in [-1, 1] with the scale 1, and the target y."""
    columns: list[dict[str, object]] = [
        {"name": f"x{number + 1}", "lower": -1, "upper": 1} for number in range(features)
    ]
    wanted: dict[str, object] = {
        "purpose": "a test",
        "columns": [*columns, {"name": "y", "kind": "boolean"}],
        "mechanism": {"kind": "newton_step", "rounds": rounds, "intercept": 1},
        "row_bound": 2,
        "epsilon": 1,
        "delta": "0.000001",
        "min_clients": clients,
        "max_corrupt_clients": 0,
        "noise": "clients",
        "suite": "x25519",
    }
    return Specification.model_validate(wanted | changes)


def first_task(asked: Specification) -> Task:
    """Return the task of the first round."""
    return build_task(asked, SERVERS, KEYS.public_keys, NOW, seeded("newton"))


def released(task: Task, rows: FloatArray, seed: int, before: Release | None = None) -> Release:
    """Return a release of rows in their own units, shape `(n, d)`, the clients' noise drawn as one.

    `before` is the release of the round before.
    """
    generator, layout = np.random.default_rng(seed), task.measurement.layout
    normalised = task.schema_arrays.normalise(rows)
    exact = np.zeros(layout.num_released, np.int64)
    for some in np.array_split(normalised, max(1, len(rows) // 20_000)):
        exact += task.measurement.exact_reports(some, None, generator.bytes).sum(axis=0)
    noise = np.rint(generator.normal(0, 1, exact.shape) * layout.sigmas * len(rows) ** 0.5).astype(np.int64)
    return read(task, (exact + noise)[np.newaxis], np.array([len(rows)]), lambda task_id: before)


def chain(asked: Specification, rows: FloatArray, seed: int, count: int) -> list[Release]:
    """Return the releases of so many rounds with the same people."""
    task, found = first_task(asked), list[Release]()
    for number in range(count):
        found.append(released(task, rows, 1000 * seed + number, found[-1] if found else None))
        if number + 1 < count:
            task = build_second_task(asked, task, found[-1], NOW + 10_000, seeded(f"newton {number}"))
    return found


def sums(releases: Sequence[Release]) -> list[NewtonSums]:
    """Return their parts."""
    return [release.need("newton") for release in releases]


def logistic_rows(clients: int, slopes: Sequence[float], intercept: float, seed: int) -> FloatArray:
    """Return rows with features uniform in [-1, 1] and a target that follows the logistic law, shape `(n, d)`."""
    generator = np.random.default_rng(seed)
    features = generator.uniform(-1, 1, (clients, len(slopes)))
    chances = 1 / (1 + np.exp(-(intercept + features @ np.array(slopes))))
    return np.column_stack([features, generator.uniform(size=clients) < chances])


def exact_fit(features: FloatArray, target: FloatArray) -> FloatArray:
    """Return the logistic fit without noise by twenty Newton steps, the intercept first; features `(n, f)`."""
    design = np.column_stack([np.ones(len(features)), features])
    solution = np.zeros(design.shape[1])
    for _ in range(20):
        chances = 1 / (1 + np.exp(-(design @ solution)))
        weights = np.maximum(chances * (1 - chances), 1e-12)
        solution += np.linalg.solve(design.T @ (design * weights[:, np.newaxis]), design.T @ (target - chances))
    return solution
