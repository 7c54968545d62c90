"""An inverse Wishart draw around the table with a ridge: Bayesian posterior sampling (Sheffet 2019, Alg. 4, 5).

For every pair of neighbours the two laws are those of a projection with as many rows, inverted and swapped; so the
curve, the ridge and the calibration are those of `projection`.
"""

import math
from dataclasses import replace

import numpy as np

from lintra_curator.promise.claim import CentralClaim
from lintra_curator.promise.promise import require_count
from lintra_curator.second_moment.projection import ridge_plan, ridge_root
from lintra_curator.second_moment.releases import Calibration, CentralSecondMoment, Noise, symmetric_mean
from lintra_curator.second_moment.tables import Table
from lintra_curator.second_moment.wishart import wishart_factor
from lintra_protocol.randomness import RandomBytes


def release_inverse_wishart(
    table: Table,
    claim: CentralClaim,
    random_bytes: RandomBytes,
    *,
    degrees: int,
    adaptive: bool = False,
    calibration: Calibration = "exact",
) -> CentralSecondMoment:
    """Release X ~ W^-1_d(S + w2 I, nu), the inverse of a W_d((S + w2 I)^-1, nu).

    Args:
        table: the curator's rows.
        claim: to calibrate to.
        random_bytes: a cryptographic source.
        degrees: nu, above d + 3 so that the draw has a variance; fixed without a look at the rows. The posterior's
            own nu0 + n is possible, but needs a ridge that grows with sqrt(n).
        adaptive: pay for a look at the smallest eigenvalue of S, and add less of a ridge where it is large.
        calibration: "published" for the ridge of Theorem 3.1 with r = nu.

    Raises:
        CalibrationError: the claim cannot be kept with so many degrees.
        ValueError: the options do not go together.
    """
    size = table.rows.shape[1]
    require_count(degrees, "degrees", size + 4)
    products = table.products()
    noise = ridge_plan(table, products, claim, "inverse-wishart", degrees, adaptive, calibration, random_bytes)
    noise = replace(noise, sigma=_deviation(noise, degrees - size))
    # X = L W^-1 L^T for L L^T = S + w2 I and W ~ W_d(I, nu): no inverse of the data is taken.
    root = ridge_root(products, noise.ridge)
    half = np.linalg.solve(wishart_factor(size, degrees, random_bytes), root.T)
    raw = symmetric_mean(half.T @ half)
    values = (degrees - size - 1) * raw - noise.ridge * np.eye(size)
    return CentralSecondMoment(table.columns, values, raw, noise, table.rows.shape[0], table.row_bound)


def _deviation(noise: Noise, excess: int) -> float:
    """Return the sd of an entry off the diagonal where there are no data, for nu - d = `excess`."""
    return noise.ridge * math.sqrt((excess - 1) / (excess * (excess - 3)))
