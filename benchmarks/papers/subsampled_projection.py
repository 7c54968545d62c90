"""Random projection of a Poisson sample of the rows (Wei et al. 2023, v4 Figure 3).

Sampling saves computation, never accuracy: the ridge shrinks more slowly than the sampling rate, so that the noise on
the estimate of D^T D, sigma^2 / q, only grows. It is here because the paper has it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.sampling import FLOATING_POINT_LAW, uniforms
from lintra_curator.claims.claim import CalibrationError, curator_claim, point_statement
from lintra_curator.claims.row_checks import bounded_rows
from lintra_curator.projection.random_projection import ProjectionPlan, named_columns, plan_projection, project
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.privacy.statement import Claim, PrivacyStatement


def unsampled_claim(claim: Claim, rate: float) -> Claim:
    """Return what a mechanism must promise on the sample for the whole to keep `claim`.

    epsilon' = ln(1 + (e^epsilon - 1) / q) and delta' = delta / q (Balle, Barthe, Gaboardi 2018, Theorem 8, backwards).
    `claim` is "zero-out"; sampling does not amplify a replaced row in this way. `rate` is q, with which every row is
    kept, above delta and at most 1.

    Raises:
        ValueError: if the rate is out of range or the neighbours differ in more than one row's presence.
        CalibrationError: the rate does not exceed delta.
    """
    if claim.neighbours != "zero-out":
        raise ValueError("Poisson sampling is accounted for neighbours 'zero-out' only")
    if not 0 < rate <= 1:
        raise ValueError(f"a sampling rate lies in (0, 1], got {rate}")
    if claim.float_delta >= rate:
        raise CalibrationError(f"a sampling rate must exceed delta = {claim.float_delta}, got {rate}")
    epsilon = claim.float_epsilon
    inner = math.log1p(math.expm1(epsilon) / rate) if epsilon < 700 else epsilon - math.log(rate)
    return curator_claim(inner, claim.float_delta / rate, claim.neighbours)


@dataclass(frozen=True, eq=False, repr=False)
class SubsampledRelease:
    """A random projection of a sample of the rows; which rows and how many stays secret.

    Attributes:
        columns: the d columns.
        values: the sketch of the sample, shape `(r, d)`.
        sigma2: the ridge, in row units squared.
        rate: q.
        num_clients: rows before sampling, a public number.
        promise: for the whole.
    """

    columns: tuple[ScaledColumn, ...]
    values: FloatArray
    sigma2: float
    rate: float
    num_clients: int
    promise: PrivacyStatement
    law: str = FLOATING_POINT_LAW

    def __repr__(self) -> str:
        rows, size = self.values.shape
        return f"SubsampledRelease(rows={rows}, columns={size}, rate={self.rate}, {self.promise})"

    def gram(self) -> FloatArray:
        """Return (S^T S / r - sigma2 I) / q, shape `(d, d)`, an unbiased estimate of D^T D over all rows."""
        rows, size = self.values.shape
        estimate: FloatArray = (self.values.T @ self.values / rows - self.sigma2 * np.eye(size)) / self.rate
        return estimate

    def second_moment(self) -> NoReturn:
        """Refuse: the rows that were not drawn add an error of which the sketch shows nothing.

        Raises:
            InvalidAnalysisError: always.
        """
        raise InvalidAnalysisError(
            "the sketch of a sample does not show the error of the sampling, so no interval can be given; use gram() "
            "for the estimate alone, or release a projection of all rows, which is also more accurate"
        )


def plan_subsampled(claim: Claim, rate: float, sketch_rows: int, row_bound: float) -> ProjectionPlan:
    """Return the ridge of a projection of a Poisson sample, with the promise for the whole.

    `claim` is the promise, neighbours "zero-out"; `rate` is q, above delta and at most 1. `sketch_rows` are r;
    `row_bound` is l, public.
    """
    inner = plan_projection(unsampled_claim(claim, rate), sketch_rows, row_bound)
    delta_hi = min(rate * inner.promise.delta, claim.float_delta)
    promise = point_statement(
        claim, delta_hi, "proved", f"{inner.promise.note}; amplified by secret sampling at {rate:g}"
    )
    return ProjectionPlan(sketch_rows, row_bound, inner.sigma2, inner.leverage, promise)


def subsampled_projection(
    rows: FloatArray,
    claim: Claim,
    rate: float,
    sketch_rows: int,
    row_bound: float,
    random_bytes: RandomBytes,
    *,
    clip: bool = True,
    names: Sequence[str] | None = None,
) -> SubsampledRelease:
    """Release a random projection of the rows that independent coins of probability `rate` select.

    `rows` are D, shape `(n, d)`; `claim` is the promise, neighbours "zero-out". `rate` is q, above delta and at most 1;
    `sketch_rows` are r. `row_bound` is l, public. `clip` says to shrink longer rows onto the sphere; if False they are
    refused. `names` are those of the columns; "x0", "x1", .. by default.
    """
    plan = plan_subsampled(claim, rate, sketch_rows, row_bound)
    table = bounded_rows(rows, row_bound, clip=clip)
    columns = named_columns(names, table.shape[1], row_bound)
    drawn = table[uniforms((len(table),), random_bytes) < rate]
    values = project(drawn, plan.sigma2, sketch_rows, random_bytes)
    return SubsampledRelease(columns, values, plan.sigma2, rate, len(table), plan.promise)
