"""How the demonstration's settings were chosen: on flights that the demonstration does not show, by one rule.

The rule was written down before it was tried. Its grid and its measure are below; the flights are 100,000 of those
that are not among the demonstration's clients, as numbers of an earlier collection would be. It prints the choice
that `study.py` holds (tests/unit/deploy/test_study.py runs it again).

    python deploy/choose.py
"""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from flights import NAMES, load_flights
from study import BOUNDS, DELTA, EPSILON, FEATURES, QUORUM, RANK, REGULARIZATION, TARGET
from yardsticks import Problem, Truth, sketched

from lintra_analysis.planning.coalition import usual_claim
from lintra_analysis.planning.option import plan_option
from lintra_analysis.planning.question import Question
from lintra_analysis.releases.columns import ScaledColumn
from lintra_protocol.documents import real
from lintra_protocol.ring import FloatArray

SHOWN = 100_000
OTHERS = 100_000
QUESTION = ("dep_delay", TARGET)
"""What the question is about: these columns have one deviation as their unit, the others a multiple of theirs."""

MULTIPLES, ROW_BOUNDS, SKETCH_ROWS = (1, 2), (2.0, 3.0, 4.0), (75, 150, 300)
DRAWS = 15
"""Simulated sketches for each candidate; the one with the largest median R2 is taken."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """One candidate: the multiple of the deviations, the norm that rows are clipped to, and the rows of the sketch."""

    multiple: int
    row_bound: float
    sketch_rows: int


def other_flights() -> FloatArray:
    """Return flights that the demonstration does not show, shape `(OTHERS, 12)`."""
    return load_flights(SHOWN + OTHERS)[0][SHOWN:]


def units(rows: FloatArray, multiple: int) -> dict[str, tuple[float, float]]:
    """Return centre and scale of every column, from flights that are not shown, to two digits."""
    return {
        name: (
            float(f"{rows[:, index].mean():.2g}"),
            float(f"{(1 if name in QUESTION else multiple) * rows[:, index].std():.2g}"),
        )
        for index, name in enumerate(NAMES)
    }


def candidates() -> Iterator[Choice]:
    """Yield the grid."""
    yield from itertools.starmap(Choice, itertools.product(MULTIPLES, ROW_BOUNDS, SKETCH_ROWS))


def median_r2(rows: FloatArray, choice: Choice) -> float:
    """Return the median R2 of regressions on simulated sketches of other flights, with the noise that a task has."""
    columns = tuple(
        ScaledColumn(name=name, center=center, scale=scale, lower=BOUNDS[name][0], upper=BOUNDS[name][1])
        for name, (center, scale) in units(rows, choice.multiple).items()
    )
    truth = Truth(rows, Problem(columns, TARGET, FEATURES, REGULARIZATION, RANK))
    noise, seeds = planned_noise(choice), [bytes([draw]) * 32 for draw in range(1, DRAWS + 1)]
    return float(np.median([sketched(truth, choice.sketch_rows, choice.row_bound, noise, seed) for seed in seeds]))


def chosen(rows: FloatArray, among: Sequence[Choice] | None = None) -> Choice:
    """Return the candidate with the largest median R2; the first of the grid where two are alike."""
    return max(among or tuple(candidates()), key=lambda choice: median_r2(rows, choice))


def planned_noise(choice: Choice) -> float:
    """Return the deviation of the noise in an entry of the sketch, as the task will have it, coalitions included."""
    fewest = math.floor(QUORUM * OTHERS)
    claim = usual_claim(epsilon=real(EPSILON), delta=real(DELTA), min_clients=fewest, is_sketch=True)
    question = Question(
        columns=len(NAMES), claim=claim, max_clients=OTHERS, rows=choice.sketch_rows, row_bound=real(choice.row_bound)
    )
    return plan_option("osnap", question).deviations["entry"]


def main() -> None:
    """Print every candidate's median, and the choice with its units."""
    rows = other_flights()
    for choice in candidates():
        print(f"{choice}: {median_r2(rows, choice):.3f}")
    best = chosen(rows)
    print("chosen:", best)
    for name, unit in units(rows, best.multiple).items():
        print(name, *unit)


if __name__ == "__main__":
    main()
