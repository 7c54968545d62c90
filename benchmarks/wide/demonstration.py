"""What `deploy/demo_wide.py` shows once through real servers, many times: the same tasks, their noise drawn here."""

import math
import time
from dataclasses import dataclass

import numpy as np
from demo_organisations import load
from demo_wide import TARGET, WideFlights, specification

from lintra_analysis.estimators.wide import wide_ridge
from lintra_analysis.kinds.released_parts import scaled_columns
from lintra_analysis.releases.range_sums import RangeSums, TargetProducts
from lintra_analysis.releases.release import Release
from lintra_analysis.releases.sampling import uniforms
from lintra_analysis.spec.build_task import build_task
from lintra_analysis.spec.specification import Specification
from lintra_analysis.trial.collection import placeholder_keys, placeholder_servers
from lintra_protocol.crypto.randomness import expand, system_randomness
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.mechanisms import RangeFinder
from lintra_protocol.task import Task
from wide.moments import Moments, sums_of

CLIENTS, RANK, PAIRS = 2000, 20, 500
"""The demonstration's defaults."""


@dataclass(frozen=True)
class Shows:
    """What runs of one way of collecting show: directions that stood out, and R2 over all flights."""

    reports: int
    rows: int
    epsilon: str
    directions: list[int]
    r2: list[float]


def simulated(runs: int) -> tuple[list[Shows], float]:
    """Return what clients and airlines learn, and R2 of least squares on all features."""
    table, _, names = load()
    flights = WideFlights.of(table, PAIRS)
    # As in the demonstration, the same flights for everybody.
    chosen = np.sort(np.argsort(uniforms((len(table),), expand(bytes(32), "flights")))[:CLIENTS])
    who = {"rows_per_person": 1, "max_rows": 100_000}
    by_clients = _task(specification(flights, RANK, 4, CLIENTS))
    by_airlines = _task(specification(flights, RANK, 1, len(names), max_clients=len(names), contributors=who))
    signs = np.hstack([_mechanism(by_airlines, run).signs(len(flights.names)) for run in range(runs)]) / math.sqrt(RANK)
    held = Moments.of(flights.blocks(), signs, RANK, float(fraction(_mechanism(by_airlines, 0).projected_bound)))
    found = [
        _shown(by_clients, CLIENTS, flights.rows(chosen), None, held, runs),
        _shown(by_airlines, len(names), None, held, held, runs),
    ]
    return found, held.least_squares()


def _task(asked: dict[str, object]) -> Task:
    secret = system_randomness
    request = Specification.model_validate(asked)
    return build_task(request, placeholder_servers(secret), placeholder_keys(secret), int(time.time()), secret)


def _mechanism(task: Task, run: int) -> RangeFinder:
    """Return the task's mechanism with the signs of one run."""
    assert isinstance(task.mechanism, RangeFinder)
    return task.mechanism.model_copy(update={"omega_seed": base64url(bytes([run]) * 32)})


def _shown(
    task: Task, reports: int, rows: FloatArray | None, held: Moments | None, everybody: Moments, runs: int
) -> Shows:
    directions, r2 = [], []
    for run in range(runs):
        mechanism = _mechanism(task, run)
        projection = mechanism.signs(task.num_columns) / math.sqrt(RANK)
        bound = float(fraction(mechanism.projected_bound))
        if held is None:
            assert rows is not None
            values, with_target, count = sums_of([rows], projection, bound), rows.T @ rows[:, -1], len(rows)
        else:
            values = held.clipped[:, run * RANK : (run + 1) * RANK]
            with_target, count = held.products[1:, -1], held.rows
        release = _release(task, mechanism, (values, with_target, projection), (reports, count), run)
        try:
            fit = wide_ridge(Release(range_sums=release), TARGET)
            directions.append(fit.components)
            r2.append(everybody.r2(fit.intercept, fit.coefficients))
        except InvalidAnalysisError:
            # Nothing stands out of the noise: every prediction is the same.
            directions.append(0)
            r2.append(0.0)
    return Shows(reports, CLIENTS if held is None else held.rows, task.claim.epsilon, directions, r2)


def _release(
    task: Task,
    mechanism: RangeFinder,
    sums: tuple[FloatArray, FloatArray, FloatArray],
    counts: tuple[int, int],
    run: int,
) -> RangeSums:
    """Return a release of sums, as `lintra_analysis.kinds.range_finder` makes it of integers."""
    (values, with_target, projection), (reports, rows) = sums, counts
    rng = np.random.default_rng([8, reports, run])
    deviations = math.sqrt(reports) * mechanism.sigma * mechanism.word_scales()
    own, of_target = float(deviations[-1]), float(deviations[0])
    (anchor,) = mechanism.anchor_bounds
    (target,) = mechanism.targets
    noisy = with_target + of_target * rng.normal(size=with_target.shape)
    return RangeSums(
        columns=scaled_columns(task),
        values=values + own * rng.normal(size=values.shape),
        projection=projection,
        noise_sd=own,
        num_clients=rows,
        row_bound=float(fraction(mechanism.row_bound)),
        projected_bound=float(fraction(mechanism.projected_bound)),
        targets=(
            TargetProducts(target.column, (anchor >> target.bits) * 2.0**-mechanism.fraction_bits, noisy, of_target),
        ),
    )
