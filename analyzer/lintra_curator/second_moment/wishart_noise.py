"""Added Wishart noise: the table together with k random examples (Sheffet 2019, Algorithm 3)."""

import math
from dataclasses import dataclass

import numpy as np

from lintra_analysis.releases.sampling import FLOATING_POINT_LAW, chi_squares, gaussians
from lintra_curator.second_moment.bounded_table import BoundedTable
from lintra_curator.second_moment.calibration import wishart_degrees, wishart_scale
from lintra_curator.second_moment.central_second_moment import (
    Calibration,
    CentralSecondMoment,
    NoiseRecord,
    finite_positive,
    symmetric_mean,
)
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.statement import Claim


@dataclass(frozen=True)
class WishartNoise:
    """S + W - k c B^2 I with W ~ W_d(c B^2 I, k).

    The release before debiasing is positive definite. There is no Renyi or concentrated guarantee: with a small
    probability the release shows that a row is missing, and delta pays for it.

    Attributes:
        scale: c; k follows. 1 by default, which is an example as long as the bound.
        degrees: k, above d + 1; c follows. Give one of the two at most.

    >>> from lintra_curator import BoundedTable, curator_claim, plain_columns
    >>> import numpy as np
    >>> from lintra_protocol.crypto.randomness import bulk_system_randomness
    >>> generator = np.random.default_rng(0)
    >>> rows = generator.normal(0, 0.5, size=(4000, 2))
    >>> table = BoundedTable.of(rows, plain_columns(["left", "right"], 2.0), row_bound=2.0)
    >>> release = WishartNoise().release(table, curator_claim(1.0, 1e-6), bulk_system_randomness())
    >>> release.values.shape, release.noise.delta_at(1.0) <= 1e-6
    ((2, 2), True)
    """

    scale: float | None = None
    degrees: float | None = None

    def __post_init__(self) -> None:
        if self.scale is not None and self.degrees is not None:
            raise ValueError(
                "give the scale or the degrees of Wishart noise, not both: the other follows from the claim"
            )

    def release(self, table: BoundedTable, claim: Claim, random_bytes: RandomBytes) -> CentralSecondMoment:
        """Release the second moment of a table.

        Args:
            table: the curator's rows.
            claim: to calibrate to.
            random_bytes: a cryptographic source.

        Raises:
            CalibrationError: the claim cannot be kept with these parameters.
            ValueError: scale or degrees are out of range.
        """
        size = table.rows.shape[1]
        if self.degrees is None:
            scale = finite_positive(1.0 if self.scale is None else self.scale, "the scale c")
            return draw_wishart(table, claim, scale, wishart_degrees(claim, size, scale), "exact", random_bytes)
        if not size + 1 < self.degrees < math.inf:
            raise ValueError(f"Wishart noise on {size} columns needs more than {size + 1} degrees, got {self.degrees}")
        scale = wishart_scale(claim, self.degrees - size + 1)
        return draw_wishart(table, claim, scale, self.degrees, "exact", random_bytes)


def draw_wishart(
    table: BoundedTable, claim: Claim, scale: float, degrees: float, calibration: Calibration, random_bytes: RandomBytes
) -> CentralSecondMoment:
    """Draw S + W_d(c B^2 I, k), whatever it promises."""
    size = table.rows.shape[1]
    unit = scale * table.squared_bound
    factor = wishart_factor(size, degrees, random_bytes)
    raw = table.products() + symmetric_mean(unit * factor @ factor.T)
    bias = degrees * unit
    noise = NoiseRecord(
        mechanism="wishart",
        claim=claim,
        calibration=calibration,
        law=FLOATING_POINT_LAW,
        sigma=math.sqrt(degrees) * unit,
        num_columns=size,
        degrees=float(degrees),
        scale=scale,
        debias=bias,
    )
    values = raw - bias * np.eye(size)
    return CentralSecondMoment(table.columns, values, raw, noise, table.rows.shape[0], table.row_bound)


def wishart_factor(size: int, degrees: float, random_bytes: RandomBytes) -> FloatArray:
    """Draw F with F F^T ~ W_d(I, k): Bartlett's triangle of shape `(d, d)`, or k Gaussian columns if k < d.

    Raises ValueError if `degrees` is below d and no whole number.
    """
    if degrees < size:
        if degrees != int(degrees) or degrees < 1:
            raise ValueError(f"fewer degrees than columns must be a whole number of at least 1, got {degrees}")
        return gaussians((size, int(degrees)), random_bytes)
    factor = np.tril(gaussians((size, size), random_bytes), -1)
    diagonal = [math.sqrt(float(chi_squares(degrees - i, (1,), random_bytes)[0])) for i in range(size)]
    np.fill_diagonal(factor, diagonal)
    return factor
