"""Second moments with the calibrations as they were published, to compare with the exact ones of `second_moment`.

They release as the exact ones do; what they promise need not be what was asked for: `noise.delta_at` says what it is.
"""

import math
from dataclasses import dataclass

from lintra_analysis.releases.sampling import FLOATING_POINT_LAW
from lintra_curator.claims.row_checks import require_count
from lintra_curator.second_moment.bounded_table import BoundedTable
from lintra_curator.second_moment.central_second_moment import CentralSecondMoment, NoiseRecord
from lintra_curator.second_moment.gaussian_noise import symmetric_noise
from lintra_curator.second_moment.inverse_wishart import draw_inverse_wishart
from lintra_curator.second_moment.projection import draw_projection, fixed_ridge
from lintra_curator.second_moment.wishart_noise import draw_wishart
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.privacy.statement import Claim
from papers import published


@dataclass(frozen=True)
class PublishedGaussianNoise:
    """Noise of one deviation in every entry, in floating point (Dwork et al. 2014, Analyze Gauss)."""

    def release(self, table: BoundedTable, claim: Claim, random_bytes: RandomBytes) -> CentralSecondMoment:
        """Release the second moment of a table.

        Counted on and above the diagonal, neighbours are sqrt(2) B^2 ("replace-one") or B^2 apart: orthogonal rows
        whose products lie on the diagonal.
        """
        size = table.rows.shape[1]
        sigma = published.gaussian_sigma(claim) * table.squared_bound
        distance = math.sqrt(2) if claim.neighbours == "replace-one" else 1.0
        mu = distance * table.squared_bound / sigma
        values = table.products() + sigma * symmetric_noise(size, 1.0, random_bytes)
        stated = NoiseRecord("gaussian", claim, "published", FLOATING_POINT_LAW, sigma, size, mu=mu, weighted=False)
        return CentralSecondMoment(table.columns, values, values, stated, table.rows.shape[0], table.row_bound)


@dataclass(frozen=True)
class PublishedProjection:
    """A projection to `sketch_rows` rows with the ridge of Sheffet 2019, Theorem 3.1, more than the claim needs."""

    sketch_rows: int

    def release(self, table: BoundedTable, claim: Claim, random_bytes: RandomBytes) -> CentralSecondMoment:
        """Release the second moment of a table."""
        require_count(self.sketch_rows, "sketch_rows")
        weight = 1 / published.theorem_3_1_ridge(claim, self.sketch_rows)
        noise = fixed_ridge(table, claim, "projection", self.sketch_rows, weight, "published")
        return draw_projection(table, table.products(), noise, random_bytes)


@dataclass(frozen=True)
class PublishedInverseWishartDraw:
    """An inverse Wishart draw of `degrees` degrees with the ridge of Sheffet 2019, Theorem 3.1, at r = nu."""

    degrees: int

    def release(self, table: BoundedTable, claim: Claim, random_bytes: RandomBytes) -> CentralSecondMoment:
        """Release the second moment of a table."""
        require_count(self.degrees, "degrees", table.rows.shape[1] + 4)
        weight = 1 / published.theorem_3_1_ridge(claim, self.degrees)
        noise = fixed_ridge(table, claim, "inverse-wishart", self.degrees, weight, "published")
        return draw_inverse_wishart(table, table.products(), noise, random_bytes)


@dataclass(frozen=True)
class PublishedWishartNoise:
    """Wishart noise with the k of Sheffet 2019, Algorithm 3, at c = 1, which is more than the claim needs."""

    def release(self, table: BoundedTable, claim: Claim, random_bytes: RandomBytes) -> CentralSecondMoment:
        """Release the second moment of a table."""
        degrees = published.wishart_degrees(claim, table.rows.shape[1])
        return draw_wishart(table, claim, 1.0, degrees, "published", random_bytes)
