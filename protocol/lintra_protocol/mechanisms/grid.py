"""The grid of a mechanism: how many fraction bits calibration tries, and in which order.

Rounding to nearest takes the finest grid that fits the ring. Dithering takes the coarsest that is fine enough for
everything that is estimated (docs/proofs/sketch.md#grid): what it adds is noise, and none of it is a bias.
"""

from collections.abc import Iterator
from fractions import Fraction
from math import sqrt

from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.clipping import MAX_SQUARED_BOUND
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.statement import Claim

MOST_BITS = 40
"""Most fraction bits of a grid."""

FINE_SIGMA = 1000
"""The least deviation of noise on a grid for dithering: that it is a whole number costs at most a thousandth of it."""


def grids(mechanism: Mechanism, num_columns: int, setting: Setting, claim: Claim, max_clients: int) -> Iterator[int]:
    """Yield the fraction bits that fit a mechanism, in the order in which calibration tries them."""
    finest = min(max(mechanism.start_bits - _exponent(fraction(mechanism.row_bound)), 0), MOST_BITS)
    order, least = range(finest, -1, -1), 1
    if mechanism.rounding == "dithered":
        order, least = range(MOST_BITS + 1), least_squared_steps(mechanism, num_columns, setting, claim, max_clients)
    for fraction_bits in order:
        candidate = mechanism.model_copy(update={"fraction_bits": fraction_bits})
        bounds = candidate.squared_bound, candidate.person_bound(setting)
        if bounds[1] < least or not all(0 < bound <= MAX_SQUARED_BOUND for bound in bounds):
            continue
        try:
            candidate.check_grid(num_columns, setting)
        except InvalidTaskError:
            continue
        yield fraction_bits


def no_grid(
    mechanism: Mechanism, num_columns: int, setting: Setting, claim: Claim, max_clients: int, refusal: str
) -> InvalidTaskError:
    """Return in words that no grid fits; `refusal` is why the first of them did not, "" if none was tried."""
    steps, why = "", f" ({refusal})" * bool(refusal)
    if mechanism.rounding == "dithered":
        least = sqrt(least_squared_steps(mechanism, num_columns, setting, claim, max_clients))
        steps = f", which takes {least:.3g} steps or more in it to dither,"
    return InvalidTaskError(
        f"no fixed-point grid of 0 to 40 bits fits row_bound {mechanism.row_bound}{steps} at epsilon {claim.epsilon} "
        f"with at least {claim.min_clients} and at most {max_clients} clients; other column scales may help, or a "
        f"larger minimum{why}"
    )


def least_squared_steps(
    mechanism: Mechanism, num_columns: int, setting: Setting, claim: Claim, max_clients: int
) -> int:
    """Return the least squared norm bound, in integer steps, of a grid on which rows may be dithered.

    With R that bound of a person's rows, e the numbers in them, q those in one row and n the most rows: R >= 40,000 e,
    so that the margin of dithering costs 1 % of noise; 12.5 n mu^2, so that dithering adds 1 % to a deviation; 3.54 n
    mu and 100 q sqrt(n), so that a square's bias, n / 4 steps^2, is a twentieth of the noise's deviation, and of the
    sampling error.
    """
    entries, rows = mechanism.dithered_entries(num_columns), max_clients * setting.rows_per_report
    mu = gaussian_mu(claim.float_epsilon, claim.noise_delta)
    least = max(12.5 * rows * mu**2, 3.54 * rows * mu, 100 * entries * sqrt(rows))
    return max(40_000 * entries * setting.rows_per_person, int(least) + 1)


def _exponent(value: Fraction) -> int:
    """Return the largest k with 2^k at most a positive value."""
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1
