"""A secret Gaussian projection of the table with a ridge, released as its second moment (Sheffet 2019, Alg. 1, 2)."""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from lintra_analysis.estimators.estimates import IntervalEstimate, check_confidence
from lintra_analysis.releases.sampling import FLOATING_POINT_LAW, gaussians
from lintra_curator.claims.row_checks import require_count
from lintra_curator.second_moment.adaptive import LOOK_SHARE, look_at_eigenvalue
from lintra_curator.second_moment.bounded_table import BoundedTable
from lintra_curator.second_moment.calibration import adaptive_weight, projection_weight
from lintra_curator.second_moment.central_second_moment import (
    Calibration,
    CentralSecondMoment,
    Mechanism,
    NoiseRecord,
    symmetric_mean,
)
from lintra_curator.second_moment.wishart_noise import wishart_factor
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.statement import Claim


@dataclass(frozen=True)
class GaussianProjection:
    """M^T M for M = R A + sqrt(w2) G, R and G secret and Gaussian, M of r rows: W_d(S + w2 I, r).

    Attributes:
        sketch_rows: r, fixed without a look at the rows.
        adaptive: pay for a look at the smallest eigenvalue of S, and add less of a ridge where it is large.

    >>> from lintra_curator import BoundedTable, curator_claim, plain_columns
    >>> import numpy as np
    >>> from lintra_protocol.crypto.randomness import bulk_system_randomness
    >>> generator = np.random.default_rng(0)
    >>> rows = generator.normal(0, 0.5, size=(4000, 2))
    >>> table = BoundedTable.of(rows, plain_columns(["left", "right"], 2.0), row_bound=2.0)
    >>> release = GaussianProjection(sketch_rows=200).release(table, curator_claim(1.0, 1e-6), bulk_system_randomness())
    >>> release.values.shape, release.noise.delta_at(1.0) <= 1e-6
    ((2, 2), True)
    """

    sketch_rows: int
    adaptive: bool = False

    def release(self, table: BoundedTable, claim: Claim, random_bytes: RandomBytes) -> CentralSecondMoment:
        """Release the second moment of a table.

        Args:
            table: the curator's rows.
            claim: to calibrate to.
            random_bytes: a cryptographic source; the projection is drawn from it and never leaves.

        Raises:
            CalibrationError: the claim cannot be kept with so many rows.
            ValueError: the number of rows is none.
        """
        require_count(self.sketch_rows, "sketch_rows")
        products = table.products()
        noise = ridge_plan(table, products, claim, "projection", self.sketch_rows, self.adaptive, random_bytes)
        return draw_projection(table, products, noise, random_bytes)


def draw_projection(
    table: BoundedTable, products: FloatArray, noise: NoiseRecord, random_bytes: RandomBytes
) -> CentralSecondMoment:
    """Draw W_d(S + ridge I, r), S the products of shape `(d, d)`, with the ridge and r of a plan."""
    size, sketch_rows = table.rows.shape[1], whole_degrees(noise)
    noise = replace(noise, sigma=noise.ridge / math.sqrt(sketch_rows))
    factor = ridge_root(products, noise.ridge) @ wishart_factor(size, sketch_rows, random_bytes)
    raw = symmetric_mean(factor @ factor.T)
    values = raw / sketch_rows - noise.ridge * np.eye(size)
    return CentralSecondMoment(table.columns, values, raw, noise, table.rows.shape[0], table.row_bound)


def ridge_plan(
    table: BoundedTable,
    products: FloatArray,
    claim: Claim,
    mechanism: Mechanism,
    degrees: int,
    adaptive: bool,
    random_bytes: RandomBytes,
) -> NoiseRecord:
    """Return the ridge to add before a draw of `degrees` degrees, its privacy, and what a look showed.

    If it is `adaptive`, it looks at the smallest eigenvalue of `products`, shape `(d, d)`, with noise.
    """
    if not adaptive:
        return fixed_ridge(table, claim, mechanism, degrees, projection_weight(claim, degrees), "exact")
    look_mu = gaussian_mu(claim.float_epsilon, claim.float_delta) / 2
    weight = adaptive_weight(claim, degrees, look_mu)
    noise = fixed_ridge(table, claim, mechanism, degrees, weight, "exact")
    test = look_at_eigenvalue(look_mu, LOOK_SHARE * claim.float_delta, weight)
    scatter = float(gaussians((1,), random_bytes)[0]) * table.squared_bound * test.deviation
    look = float(np.linalg.eigvalsh(products)[0]) + scatter
    ridge = table.squared_bound * float(test.ridge(np.asarray(look / table.squared_bound)))
    return replace(noise, ridge=ridge, debias=ridge, look_mu=look_mu, look=look)


def fixed_ridge(
    table: BoundedTable, claim: Claim, mechanism: Mechanism, degrees: int, weight: float, calibration: Calibration
) -> NoiseRecord:
    """Return the noise of a draw about S + (B^2 / weight) I."""
    ridge = table.squared_bound / weight
    return NoiseRecord(
        mechanism,
        claim,
        calibration,
        FLOATING_POINT_LAW,
        0.0,
        table.rows.shape[1],
        degrees=float(degrees),
        weight=weight,
        ridge=ridge,
        debias=ridge,
    )


def whole_degrees(noise: NoiseRecord) -> int:
    """Return the degrees of a draw about a ridge, which are whole; raise ValueError if the record has none."""
    if noise.degrees is None:
        raise ValueError(f"a {noise.mechanism} release states its degrees")
    return int(noise.degrees)


def ridge_root(products: FloatArray, ridge: float) -> FloatArray:
    """Return L with L L^T = S + ridge I, shape `(d, d)`; never fails, whatever the rows are."""
    values, vectors = np.linalg.eigh(products)
    root: FloatArray = vectors * np.sqrt(np.maximum(values, 0) + ridge)
    return root


def exact_ridge_intervals(
    release: CentralSecondMoment, target: str, features: list[str], confidence: float = 0.95
) -> tuple[IntervalEstimate, ...]:
    """Return intervals for the ridge solution of the table itself, exact for every r above the number of features.

    The draw M has independent Gaussian rows, so that regressing its target on its features is ordinary least squares
    with Gaussian errors: b +- t_{r-p} sqrt(|M theta|^2 / (r - p) diag((M_X^T M_X)^-1)) covers
    (S_XX + w2 I)^-1 S_Xy, w2 the ridge that was added (after Sheffet, ICML 2017). `release` is that of
    `GaussianProjection`; `features` are p columns that explain it. `confidence` is that of each interval.

    Returns:
        One number for each feature, in normalised units.

    Raises:
        InvalidAnalysisError: the release is no projection, or has too few rows for the features.
    """
    check_confidence(confidence)
    if release.noise.mechanism != "projection" or release.noise.degrees is None:
        raise InvalidAnalysisError("exact ridge intervals need a release by projection")
    freedom = release.noise.degrees - len(features)
    if freedom < 1:
        raise InvalidAnalysisError(
            f"{len(features)} features need more than {release.noise.degrees:.0f} rows of the projection"
        )
    raw = release.restrict([*features, target]).raw
    inverse = np.linalg.inv(raw[:-1, :-1])
    solution = inverse @ raw[:-1, -1]
    residual = float(raw[-1, -1] - raw[-1, :-1] @ solution)
    errors = np.sqrt(max(residual, 0.0) / freedom * np.diagonal(inverse))
    reach = float(special.stdtrit(freedom, (1 + confidence) / 2))
    pairs = zip(solution.tolist(), errors.tolist(), strict=True)
    return tuple(IntervalEstimate(value, sd, (value - reach * sd, value + reach * sd)) for value, sd in pairs)
