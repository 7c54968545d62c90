"""The least noise that keeps a claim: roots of the exact curves, always from the private side.

Every result is checked against its own curve after the root has been found; what cannot be checked counts as not
private. Results are cached by their arguments.
"""

import math
from collections.abc import Callable
from functools import lru_cache

from lintra_curator.claims.claim import CalibrationError
from lintra_curator.projection.random_projection import plan_projection
from lintra_curator.second_moment.adaptive import LOOK_SHARE, gaussian_then_projection
from lintra_curator.second_moment.curves import LARGEST_EPSILON, wishart_delta
from lintra_protocol.encoding.documents import real
from lintra_protocol.privacy.bisection import NoBoundaryError, furthest, log_excess, retreat
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.statement import Claim

_TOLERANCE = 1e-12
_WIDTH = 1e-13
_MIN_FREEDOM = 2 + 2.0**-10
_MAX_FREEDOM = 1e6
_CACHE = 256


def gaussian_sigma(claim: Claim) -> float:
    """Return sigma / B^2 of weighted symmetric noise: 1 / mu for "replace-one", 1 / (sqrt(2) mu) for "zero-out"."""
    mu = gaussian_mu(claim.float_epsilon, claim.float_delta)
    return (1 if claim.neighbours == "replace-one" else math.sqrt(0.5)) / mu * (1 + _TOLERANCE)


@lru_cache(_CACHE)
def projection_weight(claim: Claim, rows: int) -> float:
    """Return the largest q = B^2 / w2 at which a projection to `rows` rows keeps the claim; see `plan_projection`."""
    _require_rows(rows)
    # Beyond it the curve is taken at the largest epsilon, which asks for more noise.
    within = claim.model_copy(update={"epsilon": real(min(claim.float_epsilon, LARGEST_EPSILON))})
    leverage = plan_projection(within, rows, row_bound=1.0).leverage
    # A shade less, so that going back from the weight to the leverage does not round beyond it.
    return leverage / (1 - leverage) * (1 - _WIDTH)


@lru_cache(_CACHE)
def adaptive_weight(claim: Claim, rows: int, look_mu: float) -> float:
    """Return the largest q at which a look of `look_mu` and then a projection together keep the claim.

    A tenth of delta is kept for a look that overstates the smallest eigenvalue. Raises CalibrationError if the look
    alone spends the claim, `rows` is not between 1 and 1e6, or no weight was found.
    """
    _require_rows(rows)
    delta = claim.float_delta * (1 - LOOK_SHARE)
    spent = gaussian_mu(claim.float_epsilon, delta)
    if not 0 < look_mu < spent:
        raise CalibrationError(f"the look's mu must lie between 0 and {spent:.6g}, which spends all, got {look_mu}")
    start = math.sqrt((spent**2 - look_mu**2) / rows)
    return _largest(start, delta, lambda q: gaussian_then_projection(claim.float_epsilon, look_mu, q, rows))


@lru_cache(_CACHE)
def wishart_freedom(claim: Claim, scale: float) -> float:
    """Return the smallest real m = k - d + 1 at which Wishart noise of scale c B^2 keeps the claim."""
    weight = _weight_of(scale)
    if _wishart(claim, _MIN_FREEDOM, weight, thorough=True) <= claim.float_delta:
        return _MIN_FREEDOM
    start = max((weight / gaussian_mu(claim.float_epsilon, claim.float_delta)) ** 2, 3.0)
    # In 1 / (m - 2) the curve grows, and small numbers are private.
    found = _largest(
        1 / start,
        claim.float_delta,
        lambda inverse: _wishart(claim, 2 + 1 / inverse, weight, thorough=False),
        lambda inverse: _wishart(claim, 2 + 1 / inverse, weight, thorough=True),
    )
    return 2 + 1 / found


def wishart_degrees(claim: Claim, num_columns: int, scale: float) -> int:
    """Return the smallest whole k at which Wishart noise W_d(c B^2 I, k) keeps the claim."""
    return math.ceil(wishart_freedom(claim, scale) + num_columns - 1)


@lru_cache(_CACHE)
def wishart_scale(claim: Claim, freedom: float) -> float:
    """Return the smallest c at which Wishart noise of m = k - d + 1 = `freedom` degrees keeps the claim.

    Raises CalibrationError if `freedom` is not above 2, or no scale was found.
    """
    if not 2 < freedom <= _MAX_FREEDOM:
        raise CalibrationError(f"k - d + 1 must lie above 2 and up to {_MAX_FREEDOM:g}, got {freedom}")
    start = gaussian_mu(claim.float_epsilon, claim.float_delta) * math.sqrt(freedom)
    weight = _largest(
        start,
        claim.float_delta,
        lambda s: _wishart(claim, freedom, s, thorough=False),
        lambda s: _wishart(claim, freedom, s, thorough=True),
    )
    return 1 / weight


def _wishart(claim: Claim, freedom: float, weight: float, thorough: bool) -> float:
    if freedom > _MAX_FREEDOM:
        raise CalibrationError(f"{claim} needs more than {_MAX_FREEDOM:g} degrees of freedom; choose a smaller scale")
    return wishart_delta(claim.float_epsilon, freedom, weight, claim.neighbours, thorough)


def _largest(
    start: float, delta: float, curve: Callable[[float], float], judge: Callable[[float], float] | None = None
) -> float:
    """Return the largest x, to a relative 1e-12, at which an increasing `curve` does not exceed `delta`.

    `judge` is a slower curve that the result must pass, too; `curve` by default.
    """
    try:
        found = furthest(start, lambda x: log_excess(curve(x), delta), width=_WIDTH)
    except NoBoundaryError as error:
        raise CalibrationError(f"no noise level was found for delta {delta} around {start}") from error
    if judge is None:
        return found
    return retreat(found, -_TOLERANCE * found, lambda x: x > 0 and curve(x) <= delta and judge(x) <= delta)


def _weight_of(scale: float) -> float:
    if not 0 < scale < math.inf:
        raise ValueError(f"a scale must be positive and finite, got {scale}")
    return 1 / scale


def _require_rows(rows: int) -> None:
    if not 1 <= rows <= _MAX_FREEDOM:
        raise CalibrationError(f"a projection is calibrated from 1 to {_MAX_FREEDOM:.0f} rows, got {rows}")
