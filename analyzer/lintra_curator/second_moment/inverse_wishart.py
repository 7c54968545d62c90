"""An inverse Wishart draw around the table with a ridge: Bayesian posterior sampling (Sheffet 2019, Alg. 4, 5).

For every pair of neighbours the two laws are those of a projection with as many rows, inverted and swapped; so the
curve, the ridge and the calibration are those of `projection`.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from lintra_curator.claims.row_checks import require_count
from lintra_curator.second_moment.bounded_table import BoundedTable
from lintra_curator.second_moment.central_second_moment import CentralSecondMoment, NoiseRecord, symmetric_mean
from lintra_curator.second_moment.projection import ridge_plan, ridge_root, whole_degrees
from lintra_curator.second_moment.wishart_noise import wishart_factor
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.statement import Claim


@dataclass(frozen=True)
class InverseWishartDraw:
    """X ~ W^-1_d(S + w2 I, nu), the inverse of a W_d((S + w2 I)^-1, nu).

    Attributes:
        degrees: nu, above d + 3 so that the draw has a variance; fixed without a look at the rows. The posterior's
            own nu0 + n is possible, but needs a ridge that grows with sqrt(n).
        adaptive: pay for a look at the smallest eigenvalue of S, and add less of a ridge where it is large.

    >>> from lintra_curator import BoundedTable, curator_claim, plain_columns
    >>> import numpy as np
    >>> from lintra_protocol.crypto.randomness import bulk_system_randomness
    >>> generator = np.random.default_rng(0)
    >>> rows = generator.normal(0, 0.5, size=(4000, 2))
    >>> table = BoundedTable.of(rows, plain_columns(["left", "right"], 2.0), row_bound=2.0)
    >>> release = InverseWishartDraw(degrees=200).release(table, curator_claim(1.0, 1e-6), bulk_system_randomness())
    >>> release.values.shape, release.noise.delta_at(1.0) <= 1e-6
    ((2, 2), True)
    """

    degrees: int
    adaptive: bool = False

    def release(self, table: BoundedTable, claim: Claim, random_bytes: RandomBytes) -> CentralSecondMoment:
        """Release the second moment of a table.

        Args:
            table: the curator's rows.
            claim: to calibrate to.
            random_bytes: a cryptographic source.

        Raises:
            CalibrationError: the claim cannot be kept with so many degrees.
            ValueError: there are too few degrees.
        """
        require_count(self.degrees, "degrees", table.rows.shape[1] + 4)
        products = table.products()
        noise = ridge_plan(table, products, claim, "inverse-wishart", self.degrees, self.adaptive, random_bytes)
        return draw_inverse_wishart(table, products, noise, random_bytes)


def draw_inverse_wishart(
    table: BoundedTable, products: FloatArray, noise: NoiseRecord, random_bytes: RandomBytes
) -> CentralSecondMoment:
    """Draw W^-1_d(S + ridge I, nu), S the products of shape `(d, d)`, with the ridge and nu of a plan."""
    size, degrees = table.rows.shape[1], whole_degrees(noise)
    noise = replace(noise, sigma=_deviation(noise, degrees - size))
    # X = L W^-1 L^T for L L^T = S + w2 I and W ~ W_d(I, nu): no inverse of the data is taken.
    root = ridge_root(products, noise.ridge)
    half = np.linalg.solve(wishart_factor(size, degrees, random_bytes), root.T)
    raw = symmetric_mean(half.T @ half)
    values = (degrees - size - 1) * raw - noise.ridge * np.eye(size)
    return CentralSecondMoment(table.columns, values, raw, noise, table.rows.shape[0], table.row_bound)


def _deviation(noise: NoiseRecord, excess: int) -> float:
    """Return the sd of an entry off the diagonal where there are no data, for nu - d = `excess`."""
    return noise.ridge * math.sqrt((excess - 1) / (excess * (excess - 3)))
