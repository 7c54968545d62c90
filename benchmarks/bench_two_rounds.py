"""What the second round of `ron_gauss` is worth: the covariance's error, by how far the mean lies from the middle.

    python benchmarks/bench_two_rounds.py [--runs 20] [--json] [--write]

5,000 clients of ten numbers, epsilon 1, delta 1e-6, no label. The mean lies a radii of the rows from the middle of the
bounds, and the bound of the first task is 1.5 sqrt(1 + a^2) radii. The noise of all clients is drawn as one Gaussian,
rounded. The table stands on docs/reference/mechanisms/ron_gauss_centred.md.
"""

import time
from fractions import Fraction

import numpy as np
from showing import Shown, parser, runs_of, show, spread

from lintra_analysis.kinds.decode import read
from lintra_analysis.releases.centred_products import CentredProducts
from lintra_analysis.releases.joint_sums import ProjectedSums
from lintra_analysis.releases.release import Release
from lintra_analysis.spec.build_task import build_task
from lintra_analysis.spec.second_round import build_second_task
from lintra_analysis.spec.specification import Specification
from lintra_analysis.synthetic.centred_model import fit_two_rounds
from lintra_analysis.synthetic.model import fit
from lintra_analysis.trial.collection import placeholder_keys, placeholder_servers
from lintra_protocol.crypto.randomness import expand, system_randomness
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.task import Task

CLIENTS, COLUMNS, RADIUS, FACTOR = 5000, 10, 0.15, 1.5
DISTANCES = (0.0, 0.5, 1.0, 2.0, 4.0)
"""Of the mean from the middle, in radii: a."""


def asked(distance: float, rounds: int) -> Specification:
    """Return what is asked for."""
    return Specification.model_validate(
        {
            "purpose": "a benchmark",
            "columns": [{"name": f"x{number}", "lower": -1, "upper": 1} for number in range(COLUMNS)],
            "mechanism": {"kind": "ron_gauss", "bins": 0, "rounds": rounds},
            "row_bound": float(f"{FACTOR * RADIUS * (1 + distance**2) ** 0.5:.6g}"),
            "epsilon": 1,
            "delta": "0.000001",
            "min_clients": CLIENTS,
        }
    )


def built(specification: Specification) -> Task:
    """Return its first task, whose servers and keys belong to nobody."""
    secret = system_randomness
    return build_task(specification, placeholder_servers(secret), placeholder_keys(secret), int(time.time()), secret)


def summed(task: Task, rows: FloatArray, rng: np.random.Generator) -> ProjectedSums | CentredProducts:
    """Return the release of normalised rows."""
    exact = task.measurement.exact_reports(rows).sum(axis=0, keepdims=True)
    deviations = task.measurement.layout.sigmas * len(rows) ** 0.5
    whole = read(
        task, exact + np.rint(rng.normal(size=exact.shape) * deviations).astype(np.int64), np.array([len(rows)])
    )
    found = whole.centred or whole.joint_sums
    assert found is not None
    return found


def errors(distance: float, run: int) -> tuple[float, float, float]:
    """Return relative Frobenius errors: in one round, in two with the default bound, in two with 1.5 radii."""
    rng = np.random.default_rng([run, int(10 * distance)])
    left = rng.normal(0, RADIUS / COLUMNS**0.5, (CLIENTS, COLUMNS)) * np.linspace(0.5, 1.5, COLUMNS)
    rows, truth = left + distance * RADIUS / COLUMNS**0.5, np.cov(left.T, bias=True)
    one, shared = built(asked(distance, 1)), asked(distance, 2)
    first = built(shared)
    opened, whole = summed(first, rows, rng), summed(one, rows, rng)
    assert isinstance(opened, ProjectedSums)
    assert isinstance(whole, ProjectedSums)
    found = [fit(whole).covariance]
    for bound in (None, Fraction(FACTOR * RADIUS).limit_denominator(10**6)):
        second = build_second_task(
            shared, first, Release(joint_sums=opened), int(time.time()) + 10_000, expand(bytes(32), "second"), bound
        )
        closed = summed(second, rows, rng)
        assert isinstance(closed, CentredProducts)
        found.append(fit_two_rounds(opened, closed).covariance)
    single, default, tight = (float(np.linalg.norm(each - truth) / np.linalg.norm(truth)) for each in found)
    return single, default, tight


def table(runs: int) -> Shown:
    """Return the errors by distance."""
    lines = [[spread(found) for found in zip(*(errors(a, run) for run in range(runs)), strict=True)] for a in DISTANCES]
    return Shown(
        "two-rounds",
        "Relative Frobenius error of the covariance, in one round and in two",
        ("a", "one round", "two, the default bound", f"two, {FACTOR} radii"),
        tuple((f"{a:g}", *line) for a, line in zip(DISTANCES, lines, strict=True)),
        f"{CLIENTS:,} clients, p = {COLUMNS}, epsilon 1, delta 1e-6, no label: medians of {runs} runs with their 10 % "
        "and 90 % points. The mean lies a radii of the rows from the middle, and the bound of the first task is "
        f"{FACTOR} sqrt(1 + a^2) radii.",
    )


def main() -> None:
    """Show it."""
    asked_for = parser(__doc__, 20, 100).parse_args()
    show({"two-rounds": lambda: table(runs_of(asked_for))}, asked_for)


if __name__ == "__main__":
    main()
