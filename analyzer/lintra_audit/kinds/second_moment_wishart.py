"""The audits of `second_moment_wishart`, whose clients add random examples instead of Gaussian noise."""

from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np

from lintra_audit.exact.wishart_release import audit_wishart_release
from lintra_audit.kinds.kind_audit import KindAudit, Planted, Reports
from lintra_audit.trials.audit_case import Case, make_case_task, numbers
from lintra_audit.trials.neighbours import HOSTILE, Pair, one_unclipped
from lintra_audit.trials.planted_faults import noiseless, only_for, without_room_for_the_count
from lintra_audit.trials.scaled_task import small_claim, task_of_claim
from lintra_audit.trials.simulated_release import Scene
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.mechanisms.layout import CLIPPED, Products, triangle_matrix
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.second_moment_wishart import WishartSecondMoment
from lintra_protocol.noise.discrete_gaussian import discrete_gaussian
from lintra_protocol.privacy.wishart import MIN_FREEDOM
from lintra_protocol.task import Task

_IMPOSSIBLE = 1e6
"""The log ratio where one of the two worlds cannot give the released matrix."""

EXCESS = 12.0
"""Excess kurtosis of the square of a Gaussian, of which a client adds one to the diagonal."""


def cases() -> list[Case]:
    """Return cohorts of twice as many clients as Wishart noise takes, and a large delta.

    With fewer clients or a smaller delta the promise covers events too rare for an audit of this size.
    """
    plain = WishartSecondMoment(row_bound="1", fraction_bits=0, sigma=4100)
    few = partial(
        make_case_task, plain, num_columns=2, min_clients=40, max_corrupt_clients=1, epsilon="2", delta="0.01"
    )
    null = partial(
        make_case_task, plain, num_columns=2, min_clients=40, epsilon="2", delta="0.01", neighbours="zero-out"
    )
    counted = plain.model_copy(update={"clip_count_weight": "1"})
    counts = partial(
        make_case_task, counted, num_columns=2, min_clients=40, max_corrupt_clients=1, epsilon="2", delta="0.01"
    )
    return [
        Case("wishart", "products and examples, n = 40, d = 2, t = 1", few, 40),
        Case("wishart-null-row", "products and examples, n = 40, d = 2, row or null row", null, 40),
        Case("wishart-count", "products, examples and a clip counter, n = 40, d = 2, t = 1", counts, 40),
    ]


def farthest(task: Task) -> Pair:
    """Return far too long rows along two axes, or one of nothing where there is only one.

    With a clip counter the first lies on the sphere.
    """
    first, second = np.zeros((2, task.num_columns))
    second[0] = float(task.mechanism.row_bound) * HOSTILE
    first[1:2] = second[0]
    return one_unclipped(task, (first, second))


def twin(task: Task) -> Task:
    """Return a task of two columns and as few clients as Wishart noise takes, calibrated to the task's claim."""
    columns = min(task.num_columns, 2)
    claim = small_claim(task, MIN_FREEDOM + columns + 1)
    return task_of_claim(task, task.mechanism, claim, numbers(columns))


@dataclass(frozen=True)
class WishartTest:
    """The likelihood ratio of two Wishart laws moved by what is known (Sheffet 2019, Algorithm 3).

    With h honest examples of variance v the released matrix less the known rows, plus the mean h v I that the clients
    took off, is W + A, A the victim's product, and W has the density |W|^((h - d - 1)/2) exp(-tr W / 2v). The small
    noise that hides the grid is left out, which makes this test slightly worse than the best. A clip counter has
    Gaussian noise of its own.
    """

    known: FloatArray  #: the sum of the known rows' products
    victims: tuple[FloatArray, FloatArray]  #: the victim's product in both worlds
    freedom: int  #: h
    variance: float  #: v
    #: weight and midpoint of the counter's log-likelihood ratio; None without a counter
    counter: tuple[float, float] | None = None

    mu: None = None

    def scores(self, released: IntArray) -> FloatArray:
        """Return the log-likelihood ratio of releases of shape `(trials, 1, w)`; shape `(trials,)`."""
        size = len(self.known)
        first, second = np.triu_indices(size)
        matrices = np.zeros((len(released), size, size))
        matrices[:, first, second] = matrices[:, second, first] = released[:, 0, : first.size]
        matrices += self.freedom * self.variance * np.eye(size) - self.known
        logs, possible = [], []
        for victim in self.victims:
            values = np.linalg.eigvalsh(matrices - victim)
            possible.append(values[:, 0] > 0)
            logs.append(np.log(np.maximum(values, 1e-300)).sum(axis=1))
        ratio = (self.freedom - size - 1) / 2 * (logs[1] - logs[0])
        ratio += np.trace(self.victims[1] - self.victims[0]) / (2 * self.variance)
        if self.counter is not None:
            weight, midpoint = self.counter
            ratio += weight * (released[:, 0, -1] - midpoint)
        ratio = np.where(possible[1], ratio, -_IMPOSSIBLE)
        result: FloatArray = np.where(possible[0], ratio, _IMPOSSIBLE)
        return result


def wishart_test(scene: Scene, reports: Reports) -> WishartTest:
    """Form the adversary's optimal test from the rows that it knows."""
    mechanism, size = cast("WishartSecondMoment", scene.task.mechanism), scene.task.num_columns
    others, words = scene.honest[scene.honest != scene.victim], size * (size + 1) // 2
    counter = None
    if CLIPPED in scene.task.measurement.layout:
        totals = [float(world[scene.honest, -1].sum()) for world in reports]
        variance = len(scene.honest) * float(mechanism.sigma) ** 2
        counter = (totals[1] - totals[0]) / variance, (totals[0] + totals[1]) / 2
    return WishartTest(
        known=triangle_matrix(reports[0][others, :words].sum(axis=0)),
        victims=(triangle_matrix(reports[0][scene.victim, :words]), triangle_matrix(reports[1][scene.victim, :words])),
        freedom=len(scene.honest),
        variance=float(mechanism.variance),
        counter=counter,
    )


def variances(measurement: Measurement) -> FloatArray:
    """Return the variance of every word: v^2, twice that on the diagonal, and the rounding noise's; shape `(w,)`.

    That of a clip counter is `sigma` squared.
    """
    wishart = cast("WishartSecondMoment", measurement.mechanism)
    first, second = np.triu_indices(measurement.num_columns)
    products = np.where(first == second, 2.0, 1.0) * float(wishart.variance) ** 2 + wishart.grid_noise**2
    result: FloatArray = np.pad(products, (0, CLIPPED in measurement.layout), constant_values=float(wishart.sigma) ** 2)
    return result


def _one_number(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode with examples whose entries are all the same number: noise in one direction only."""
    exact, wishart = noiseless(measurement, rows), cast("WishartSecondMoment", measurement.mechanism)
    runs, clients, columns = rows.shape
    drawn = discrete_gaussian((runs * clients, 1), wishart.coarse, random_bytes)
    drawn = np.repeat(drawn, columns, axis=1)
    products = Products(drawn, drawn, "upper").of_each_row()
    products -= np.equal(*np.triu_indices(columns)) * wishart.variance
    counter = discrete_gaussian((runs * clients, int(CLIPPED in measurement.layout)), wishart.sigma, random_bytes)
    return exact + np.hstack([products, counter]).reshape(exact.shape)


AUDIT = KindAudit(
    cases=cases,
    faults={
        "one-number-examples": Planted(
            "all entries of an example are the same number",
            only_for("second_moment_wishart", _one_number),
            "wishart",
            frozenset({"black box", "noise law"}),
        ),
        "free-clip-count-of-examples": Planted(
            "clipped rows are counted, but the noise is that of a task without a count",
            only_for("second_moment_wishart", without_room_for_the_count),
            "wishart-count",
            frozenset({"noise law"}),
        ),
    },
    farthest=farthest,
    twin=twin,
    kept=lambda task: "claim",
    test=wishart_test,
    variances=variances,
    excess=EXCESS,
    of_task=audit_wishart_release,
)
