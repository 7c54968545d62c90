"""Baselines of a sketch: noise by other calibrations, and its best number of rows."""

import math
from dataclasses import dataclass

import numpy as np

from lintra_analysis.kinds.context import CalibrationContext
from lintra_analysis.kinds.options import MechanismSpecification
from lintra_analysis.kinds.sketches import sketch_error
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.privacy.calibration import central_sigma, local_sigma, published_mu, published_sigma
from lintra_protocol.privacy.gaussian import gaussian_epsilon, gaussian_mu
from lintra_protocol.privacy.statement import Claim

Context = CalibrationContext[MechanismSpecification]


@dataclass(frozen=True)
class Baselines:
    """One client's noise per entry that others would need for the same promise on the same sketch."""

    #: of Burkhardt et al. 2025, equation (4), for each of s copies; None where it is undefined.
    published: float | None
    #: what it really gives if all rows are filled alike; None where a coalition isolates somebody
    published_epsilon: float | None
    undefined: str  #: why it is undefined, or nothing
    central: float  #: of clients whose noise adds up to a trusted curator's; where servers add it, of that curator
    local: float  #: of clients that trust nobody


def baselines(context: Context, rows: int, sparsity: int = 1) -> Baselines:
    """Return the noise that others would need for the same promise, sketch and row bound."""
    claim, m, s, d = context.claim, rows, sparsity, context.num_columns()
    epsilon, delta = claim.float_epsilon, claim.float_delta
    entry_bound, corrupt = float(fraction(context.row_bound or "1")) / math.sqrt(d), claim.max_corrupt_clients
    published, real_epsilon, undefined = None, math.inf, ""
    try:
        published = published_sigma(epsilon, delta, claim.min_clients, m, s, d, entry_bound, corrupt)
        filled = np.full(m, claim.min_clients * s // m)
        real_epsilon = gaussian_epsilon(published_mu(published, filled, s, d, entry_bound, corrupt), delta)
    except ValueError as error:
        undefined = str(error)
    total = central_sigma(sensitivity(context), epsilon, delta)
    return Baselines(
        published=published,
        published_epsilon=real_epsilon if real_epsilon < math.inf else None,
        undefined=undefined,
        # Every row of the sketch holds n s/m clients, and a column has the norm sqrt(s).
        central=total * math.sqrt(s if context.noising_servers else m / claim.min_clients),
        local=local_sigma(sensitivity(context), epsilon, delta),
    )


def sensitivity(context: Context) -> float:
    """Return Delta, the distance of two neighbouring rows, in normalised units."""
    return float(fraction(context.row_bound or "1")) * (2 if context.claim.neighbours == "replace-one" else 1)


def mu_of(claim: Claim) -> float:
    """Return mu*, the Gaussian privacy parameter that a claim leaves to the noise."""
    return gaussian_mu(claim.float_epsilon, claim.noise_delta)


def best_rows(context: Context) -> float:
    """Return m*, where the predicted error of the sketch is smallest: n r^2 mu^2 / (Delta^2 d).

    Where each of N servers adds as much noise as is needed it is an N-th of that.
    """
    alone = context.expected_trace * (mu_of(context.claim) / sensitivity(context)) ** 2 / context.num_columns()
    return alone / max(context.noising_servers, 1)


def best_sketch_error(context: Context, sparsity: int = 1) -> float:
    """Return the predicted error at m* rows, with a trusted curator's noise, once or from every server."""
    rows, clients = best_rows(context), context.claim.min_clients
    servers = context.noising_servers
    drawn = sparsity if servers else rows / clients
    squared_sigma = (sensitivity(context) / mu_of(context.claim)) ** 2 * drawn
    variance = servers * squared_sigma / sparsity if servers else clients * squared_sigma / rows
    return sketch_error(clients, context.num_columns(), context.row_norm, rows, variance)
