"""The exact privacy profile of two Gaussian laws, with a certified interval, by one tilted trapezoid sum.

delta(epsilon) = (1 / 2 pi i) int exp(-s epsilon) M(s) / (s (s + 1)) ds over a vertical line right of 0. By Poisson's
formula the sum with step h is the sum over all j of delta(epsilon + 2 pi j / h) exp(2 pi j c / h): it errs upwards
only, by a bounded amount. |M| falls along the line, so the rest beyond the last term is bounded too; and nothing
cancels, so a delta of 1e-100 keeps its digits (docs/explanation/ndis.md#evaluator).
"""

import math
from dataclasses import dataclass

import numpy as np

from lintra_curator.ndis.bounds import renyi_bound, renyi_exponents
from lintra_curator.ndis.certified_value import CertifiedValue
from lintra_curator.ndis.gaussian_pair import ULP, ComplexArray, GaussianPair
from lintra_curator.ndis.one_dimension import delta_one_dimension
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.bisection import log_excess, narrow, retreat

RTOL = 1e-9
MAX_TERMS = 1 << 19
"""Terms after which the sum stops; the interval stays valid and becomes wide (two or three coordinates only)."""

_LARGEST_EPSILON = 600.0
_LARGEST_GAUSSIAN_EPSILON = 1e5
_FIRST_BLOCK = 256
_BLOCK_NUMBERS = 1 << 16
_TILTS = np.concatenate([np.geomspace(1e-3, 0.999, 24), np.geomspace(1.01, 1e4, 24)])


def delta(pair: GaussianPair, epsilon: float, rtol: float = RTOL) -> CertifiedValue:
    """Return the supremum over events S of P(X in S) - e^epsilon P(Y in S), with its certified interval.

    Args:
        pair: X against Y; the other direction is `pair.reverse()`.
        epsilon: any real number.
        rtol: relative error aimed at; the interval says what was reached.

    Raises:
        ValueError: if `epsilon` is not a number or `rtol` is not between 1e-14 and 0.1.
    """
    if math.isnan(epsilon):
        raise ValueError("epsilon must be a number, got nan")
    if not 1e-14 <= rtol <= 0.1:
        raise ValueError(f"rtol must lie between 1e-14 and 0.1, got {rtol}")
    epsilon = float(epsilon)
    if pair.disjoint or epsilon == -math.inf:
        return CertifiedValue(1.0, 1.0, 1.0)
    if epsilon < 0:
        return _mirrored(epsilon, delta(pair.reverse(), -epsilon, rtol))
    if epsilon == math.inf:
        return CertifiedValue(0.0, 0.0, 0.0)
    used = (pair.mult > 0) & ((pair.eta != 0) | (pair.tsq > 0))
    pair = GaussianPair(pair.eta[used], pair.mult[used], pair.tsq[used])
    if edge := _beyond_the_largest_loss(pair, epsilon):
        return edge
    if pair.eta.any() and not (len(pair.eta) == 1 and pair.mult[0] == 1):
        with np.errstate(all="ignore"):
            return _trapezoid(pair, epsilon, rtol) or _bound_only(pair, epsilon)
    if epsilon > (_LARGEST_EPSILON if pair.eta.any() else _LARGEST_GAUSSIAN_EPSILON):
        return _bound_only(pair, epsilon)
    return delta_one_dimension(epsilon, float(pair.eta.sum()), float(pair.tsq.sum()))


def epsilon(pair: GaussianPair, target: float, rtol: float = RTOL) -> CertifiedValue:
    """Return the smallest epsilon >= 0 with delta(epsilon) <= target, with its certified interval.

    At `hi` the certified delta is at most the target; below `lo` it is certainly above it. Infinite for disjoint laws.

    Args:
        pair: X against Y.
        target: delta, strictly between 0 and 1.
        rtol: relative error of the profile.

    Raises:
        ValueError: if `target` is outside (0, 1).
    """
    if not 0 < target < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {target}")
    if pair.disjoint:
        return CertifiedValue(math.inf, math.inf, math.inf)

    def excess(at: float) -> float:
        return log_excess(delta(pair, at, rtol).value, target)

    start = delta(pair, 0.0, rtol)
    if start.hi <= target:
        return CertifiedValue(0.0, 0.0, 0.0)
    high = 1.0
    while delta(pair, high, rtol).value > target:
        high *= 2
    if high == math.inf:
        # No finite epsilon could be certified; that one exists is not excluded.
        return CertifiedValue(math.inf, 0.0, math.inf)
    middle = narrow(high, 0.0, excess, width=1e-13 * high)[0] if start.value > target else 0.0
    step = max(middle, 1e-3) * 1e-11
    upper = retreat(middle + step, step, lambda at: delta(pair, at, rtol).hi <= target)
    lower = retreat(middle - step, -step, lambda at: at <= 0 or delta(pair, at, rtol).lo > target)
    return CertifiedValue(middle, max(lower, 0.0), upper)


def _mirrored(epsilon: float, other: CertifiedValue) -> CertifiedValue:
    """Return delta at a negative epsilon from the reverse pair's at its absolute value."""
    base, weight = -math.expm1(epsilon), math.exp(epsilon)
    value, low, high = (base + weight * number for number in (other.value, other.lo, other.hi))
    return CertifiedValue(min(value, 1.0), min(low * (1 - 4 * ULP), value, 1.0), min(1.0, high * (1 + 4 * ULP)))


def _beyond_the_largest_loss(pair: GaussianPair, epsilon: float) -> CertifiedValue | None:
    """Return delta at or beyond the largest loss, up to rounding, and None below it."""
    largest = pair.max_loss
    if math.isinf(largest):
        return None
    below = pair.eta < 0
    terms = float((pair.lam[below] ** 2 * pair.tsq[below] / (-2 * pair.eta[below])).sum())
    slack = 16 * ULP * (terms + pair.offset_scale + epsilon)
    if epsilon >= largest + slack or not len(pair.eta):
        return CertifiedValue(0.0, 0.0, 0.0)
    # No outcome has a loss above the largest one, so delta is at most 1 - exp(epsilon - largest).
    return CertifiedValue(0.0, 0.0, min(1.0, 2 * slack)) if epsilon >= largest - slack else None


def _bound_only(pair: GaussianPair, epsilon: float) -> CertifiedValue:
    """Return what is left when the sum cannot be formed: the Chernoff bound, or 1."""
    bound = renyi_bound(pair, epsilon)
    return CertifiedValue(bound, 0.0, bound)


@dataclass(frozen=True)
class _Saddle:
    """Where the line crosses the real axis."""

    tilt: float  #: c, the minimum of ln F on the strip
    log_height: float  #: ln F(c)
    curvature: float  #: (ln F)''(c)

    @property
    def log_size(self) -> float:
        """The saddle-point size of ln delta."""
        return self.log_height - 0.5 * math.log(2 * math.pi * self.curvature)


def _trapezoid(pair: GaussianPair, epsilon: float, rtol: float) -> CertifiedValue | None:
    """Return the certified sum, or None if it cannot be formed."""
    saddle = _saddle(pair, epsilon)
    if saddle is None:
        return None
    step = _step(pair, epsilon, rtol, saddle)
    total = _sum(pair, epsilon, rtol, saddle, step)
    log_scale = saddle.log_height + math.log(step / (2 * math.pi))
    if not all(map(math.isfinite, (total.value, total.rest, total.rounding, log_scale))) or log_scale > 700:
        return None
    scale = math.exp(log_scale)
    # The step was halved until the alias is small; here it enters the interval.
    alias = math.exp(min(_log_alias(pair, epsilon, saddle.tilt, step), 700.0))
    value, rest, rounding = scale * total.value, scale * total.rest, scale * total.rounding
    if not value > 0:
        return None
    # Below the smallest normal double relative errors mean nothing.
    high = (value + rest + rounding) * (1 + 1e-12) + 1e-305
    low = max(0.0, (value - rest - alias - rounding) * (1 - 1e-12))
    value, high = min(value, 1.0), min(high, 1.0)
    return CertifiedValue(value, min(low, value), max(value, high))


def _saddle(pair: GaussianPair, epsilon: float) -> _Saddle | None:
    """Minimise ln F on the strip by its derivative, which increases from minus infinity."""

    def slope(s: float) -> float:
        return _derivatives(pair, epsilon, s)[0]

    low = high = min(1.0, pair.strip / 2)
    for _ in range(1100):
        if slope(low) < 0:
            break
        low /= 2
    for _ in range(1100):
        if slope(high) > 0:
            break
        high = (high + pair.strip) / 2 if pair.strip < math.inf else high * 2
        if high in (pair.strip, math.inf):
            return None
    try:
        tilt = math.exp(narrow(math.log(low), math.log(high), lambda log: slope(math.exp(log)), width=1e-6)[0])
    except ValueError:
        return None
    curvature = _derivatives(pair, epsilon, tilt)[1]
    height = float(pair.log_mgf_with_size(np.array([tilt + 0j]))[0].real[0])
    height += -tilt * epsilon - math.log(tilt) - math.log1p(tilt)
    return _Saddle(tilt, height, curvature) if math.isfinite(height) and 0 < curvature < math.inf else None


def _derivatives(pair: GaussianPair, epsilon: float, s: float) -> tuple[float, float]:
    """Return the first and second derivative of ln F at a real s."""
    rest = 1 - s * pair.eta
    ratio = pair.eta / rest
    weight = pair.lam**2 * pair.tsq / rest
    first = -epsilon - pair.offset + 0.5 * float(pair.mult @ ratio)
    first += float((weight * (s + 0.5 * s * s * ratio)).sum()) - 1 / s - 1 / (1 + s)
    second = 0.5 * float(pair.mult @ ratio**2) + float((weight * (1 + s * ratio) ** 2).sum())
    # Not a power: that of a tiny number raises instead of giving infinity.
    return first, second + 1 / s / s + 1 / (1 + s) / (1 + s)


def _step(pair: GaussianPair, epsilon: float, rtol: float, saddle: _Saddle) -> float:
    """Return the step at which the alias is at most twice the error aimed at."""
    aim = math.log(rtol) + min(saddle.log_size, 0.0)
    step = 2 * math.pi * saddle.tilt / (1 - aim)
    for _ in range(60):
        if _log_alias(pair, epsilon, saddle.tilt, step) <= aim + math.log(2):
            break
        step *= 0.7
    return step


def _log_alias(pair: GaussianPair, epsilon: float, tilt: float, step: float) -> float:
    """Return an upper bound of the logarithm of the alias.

    Terms j < 0 are at most exp(2 pi j c / h) since delta <= 1; terms j > 0 by the Chernoff bound at any c' > c.
    """
    other = tilt + (pair.strip - tilt) * _TILTS[_TILTS < 1] if pair.strip < math.inf else tilt * (1 + _TILTS)
    other = other[other > tilt]
    x = 2 * math.pi * (other - tilt) / step
    right = renyi_exponents(pair, epsilon, other) - x - np.log(-np.expm1(-x))
    y = 2 * math.pi * tilt / step
    left = -y - math.log(-math.expm1(-y))
    return float(np.logaddexp(left, float(np.min(right))))


@dataclass(frozen=True)
class _Total:
    """The sum in units of h / (2 pi) F(c), what was left off, and the rounding error."""

    value: float
    rest: float
    rounding: float


def _sum(pair: GaussianPair, epsilon: float, rtol: float, saddle: _Saddle, step: float) -> _Total:
    """Add terms until the rest is below the error aimed at, or too many were added."""
    value, rounding = 1.0, 0.0
    aim = math.log(rtol) + saddle.log_size
    log_scale = saddle.log_height + math.log(step / (2 * math.pi))
    start, block = 1, _FIRST_BLOCK
    largest = max(_FIRST_BLOCK, _BLOCK_NUMBERS // len(pair.eta))
    while True:
        s = np.full(block, saddle.tilt, np.complex128)
        s.imag = step * np.arange(start, start + block)
        exponents, size = _log_terms(pair, epsilon, s)
        terms = np.exp(exponents - saddle.log_height)
        value += 2 * float(terms.real.sum())
        rounding += 2 * float((np.abs(terms) * (8 + size)).sum())
        start += block
        log_rest = _log_rest(pair, epsilon, saddle.tilt, step, start - 0.5)
        if log_rest <= aim or start >= MAX_TERMS or not math.isfinite(value):
            break
        block = min(2 * block, largest)
    rounding += (8 + abs(saddle.log_height) + abs(log_scale)) * max(value, 1.0)
    return _Total(value, math.exp(min(log_rest - log_scale, 700.0)), 4 * ULP * rounding)


def _log_rest(pair: GaussianPair, epsilon: float, tilt: float, step: float, number: float) -> float:
    """Return a bound of the logarithm of the terms beyond a number that ends in one half."""
    height = step * number
    # |M| falls along the line, so its value here bounds all that follow; 1 / |s|^2 sums to at most 1 / T.
    end = _log_terms(pair, epsilon, np.array([tilt + 1j * height]), kernel=False)[0].real[0]
    plain = float(end) - math.log(math.pi * height)
    turned = _log_turned_rest(pair, epsilon, tilt, step, height)
    return min(plain, turned)


def _log_turned_rest(pair: GaussianPair, epsilon: float, tilt: float, step: float, height: float) -> float:
    """Return the same from the oscillation of the terms, which M alone forgets.

    F is exp(-s theta) G(s), where |G| is at most a constant at all s with imaginary part T. The terms beyond are
    residues of F(s) / (exp(2 pi (s - c) / h) - 1), so their sum is an integral along two horizontal rays from c + i T,
    to the right and to the left, on which exp(-s theta) or the kernel decays (docs/explanation/ndis.md#evaluator).
    """
    if (pair.tsq[pair.eta == 0] > 0).any():
        return math.inf
    turning = pair.eta != 0
    eta, mult = pair.eta[turning], pair.mult[turning]
    shifts = 0.5 * (pair.lam[turning] ** 2 * pair.tsq[turning])
    theta = epsilon + pair.offset + float((shifts / eta).sum())
    slower, faster = abs(theta), 2 * math.pi / step - abs(theta)
    if not (slower > 0 and faster > 0):
        return math.inf
    weights, reach = shifts / eta**2, np.abs(eta) * height
    bound = -tilt * theta - 0.5 * float(mult @ np.log(reach)) - float((weights * (1 - 1 / reach)).sum())
    return bound - 2 * math.log(height) + math.log((1 / slower + 1 / faster) / math.pi)


def _log_terms(
    pair: GaussianPair, epsilon: float, s: ComplexArray, *, kernel: bool = True
) -> tuple[ComplexArray, FloatArray]:
    """Return ln F(s), or without its kernel 1 / (s (s + 1)), and the size of its terms for the rounding error."""
    transform, size = pair.log_mgf_with_size(s)
    exponents = transform - s * epsilon
    if kernel:
        logs = np.log(s), np.log1p(s)
        exponents, size = exponents - logs[0] - logs[1], size + np.abs(logs[0]) + np.abs(logs[1])
    return exponents, size + np.abs(s) * epsilon
