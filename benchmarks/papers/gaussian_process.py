"""A private prediction of a Gaussian process at one public point (Wei et al. 2023, v4).

Released is N(m, v + sigma^2) with the posterior mean and variance m and v at the point. One record lowers the variance
by a bounded factor, but may move the mean by an amount that grows with the square root of the number of records, so
that a public bound of that number is part of the promise.
"""

import math
from dataclasses import dataclass

import numpy as np

from lintra_analysis.releases.sampling import FLOATING_POINT_LAW
from lintra_curator.calibrated.calibrated_gaussian import CalibratedPlan, Sensitivity, calibrate, calibrated_draw
from lintra_curator.claims.row_checks import checked_rows, require_bound, require_count
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.statement import Claim

_SOLVER = 1 + 1e-7


@dataclass(frozen=True)
class RadialKernel:
    """The kernel amplitude exp(-|a - b|^2 / (2 length^2)), with public parameters.

    `amplitude` is K, the prior variance at every point; `length` is in units of the inputs.
    """

    amplitude: float
    length: float

    def __post_init__(self) -> None:
        require_bound(self.amplitude, "amplitude")
        require_bound(self.length, "length")

    def __call__(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return the kernel between rows of shapes `(n, d)` and `(k, d)`, shape `(n, k)`."""
        squares = np.square(first[:, np.newaxis, :] - second[np.newaxis, :, :]).sum(axis=2)
        values: FloatArray = self.amplitude * np.exp(-squares / (2 * self.length**2))
        return values


@dataclass(frozen=True)
class GaussianProcessPlan:
    """What is public about a private prediction, and the noise that follows.

    Attributes:
        kernel: with its amplitude K and length.
        noise_variance: of the targets about the process.
        target_bound: Y; targets are clipped to [-Y, Y].
        max_rows: a bound of the number of records.
        calibrated: the noise and the promise.
    """

    kernel: RadialKernel
    noise_variance: float
    target_bound: float
    max_rows: int
    calibrated: CalibratedPlan


@dataclass(frozen=True, repr=False)
class GaussianProcessRelease:
    """A private prediction at one public point; another point is another release, with a claim of its own.

    Attributes:
        point: the inputs, shape `(d,)`, public.
        value: a draw of N(m, v + sigma^2).
        plan: what is public, and the promise.
    """

    point: tuple[float, ...]
    value: float
    plan: GaussianProcessPlan
    law: str = FLOATING_POINT_LAW

    def __repr__(self) -> str:
        return f"GaussianProcessRelease(point={self.point}, {self.plan.calibrated.promise})"


def process_sensitivity(
    sigma: float, amplitude: float, noise_variance: float, target_bound: float, max_rows: int
) -> Sensitivity:
    """Return the sensitivity of the prediction to one record added or removed.

    With a record the variance v becomes at least v s^2 / (K + s^2), so that the logarithm of v + sigma^2 moves by at
    most ln((K + sigma^2) / (K s^2 / (K + s^2) + sigma^2)), attained by a first record at the point itself. The paper
    has ln(1 + K / sigma^2). `sigma` is that of the added noise, at least 0; `amplitude` is K. `noise_variance` is s^2;
    `target_bound` is Y. `max_rows` is a bound of the number of records.
    """
    square = sigma**2
    posterior = amplitude * noise_variance / (amplitude + noise_variance)
    ratio = math.log((amplitude + square) / (posterior + square))
    shift = mean_shift(amplitude, noise_variance, target_bound, max_rows)
    # v itself may be close to 0 in the larger data, so that sigma alone is counted.
    return Sensitivity(shift / sigma if sigma > 0 else math.inf, ratio, ratio, one_direction=True)


def mean_shift(amplitude: float, noise_variance: float, target_bound: float, max_rows: int) -> float:
    """Return a bound of how far one record moves the posterior mean at a point; of the order of sqrt(max_rows).

    With v = min(K, s^2) and gain = sqrt(K v) / (v + s^2), the smaller of gain Y sqrt(n), by all targets together, and
    of gain (Y + Y sqrt(n K) / (2 s)), by the record's own and the others' prediction of it; the paper has
    sqrt(n K) Y / s (docs/reference/mechanisms/calibrated_gaussian.md#gaussian-process).
    """
    root = math.sqrt(max_rows)
    v = min(amplitude, noise_variance)
    gain = math.sqrt(amplitude * v) / (v + noise_variance)
    single = 1 + root * math.sqrt(amplitude / noise_variance) / 2
    return gain * target_bound * min(root, single) * _SOLVER


def plan_gaussian_process(
    claim: Claim, kernel: RadialKernel, noise_variance: float, target_bound: float, max_rows: int
) -> GaussianProcessPlan:
    """Return the noise of a private prediction, from public parameters alone.

    `claim` has neighbours "zero-out", here a record that is left out altogether; `kernel` is public. `noise_variance`
    is that of the targets about the process, public; `target_bound` is Y. `max_rows` is a public bound of the number of
    records; without one nothing can be promised.

    Raises:
        ValueError: if an argument is out of range.
    """
    require_bound(noise_variance, "noise_variance")
    require_bound(target_bound, "target_bound")
    require_count(max_rows, "max_rows")
    if claim.neighbours != "zero-out":
        raise ValueError("a prediction is accounted for neighbours 'zero-out' only")
    calibrated = calibrate(
        claim, lambda sigma: process_sensitivity(sigma, kernel.amplitude, noise_variance, target_bound, max_rows)
    )
    return GaussianProcessPlan(kernel, noise_variance, target_bound, max_rows, calibrated)


def gaussian_process_prediction(
    inputs: FloatArray, targets: FloatArray, point: FloatArray, plan: GaussianProcessPlan, random_bytes: RandomBytes
) -> GaussianProcessRelease:
    """Release a private prediction at a public point.

    `inputs` has shape `(n, d)`, any finite values: the kernel is bounded by itself. `targets` has shape `(n,)`, clipped
    to the plan's bound; `point` has shape `(d,)`, public. `plan` is from `plan_gaussian_process`.

    Raises:
        ValueError: if the shapes do not fit, a number is not finite, or there are more records than the plan allows.
    """
    table, place = checked_rows(inputs), checked_rows(np.asarray(point, dtype=np.float64)[np.newaxis])
    answers = np.asarray(targets, dtype=np.float64)
    if answers.shape != (len(table),) or place.shape[1] != table.shape[1] or not np.isfinite(answers).all():
        raise ValueError(
            f"a prediction needs finite inputs (n, d), targets (n,) and point (d,), got {table.shape}, "
            f"{answers.shape} and {place.shape[1:]}"
        )
    if len(table) > plan.max_rows:
        raise ValueError(f"there are more records than max_rows = {plan.max_rows}; plan with a larger public bound")
    mean, variance = posterior(plan, table, np.clip(answers, -plan.target_bound, plan.target_bound), place)
    draw = calibrated_draw(np.array([mean]), np.array([[variance]]), plan.calibrated.sigma, random_bytes)
    return GaussianProcessRelease(tuple(map(float, place[0])), float(draw[0]), plan)


def posterior(
    plan: GaussianProcessPlan, inputs: FloatArray, targets: FloatArray, point: FloatArray
) -> tuple[float, float]:
    """Return the posterior mean and variance at a point of shape `(1, d)`; not private."""
    matrix = plan.kernel(inputs, inputs) + plan.noise_variance * np.eye(len(inputs))
    cross = plan.kernel(inputs, point)[:, 0]
    solved = np.linalg.solve(matrix, np.column_stack([targets, cross]))
    return float(cross @ solved[:, 0]), max(0.0, float(plan.kernel.amplitude - cross @ solved[:, 1]))
