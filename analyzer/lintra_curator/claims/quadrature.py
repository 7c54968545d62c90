"""Expectations under chi-square and normal laws, as weighted sums that keep the tails' digits.

An integrand here is itself a chi-square tail, smooth in the cube root of its argument, which is nearly normal
(Wilson and Hilferty 1931): a few panels of Gauss-Legendre nodes in that root resolve it for any degrees of freedom.
"""

from functools import lru_cache

import numpy as np
from scipy import special

from lintra_protocol.crypto.ring import FloatArray

TAIL = 1e-22
_PANEL_NODES = 20
NORMAL_REACH = -float(special.ndtri(TAIL))
"""Where the normal law is cut."""

_LEGENDRE = np.polynomial.legendre.leggauss(_PANEL_NODES)


@lru_cache(maxsize=64)
def chi_square_rule(freedom: float, nodes: int = 320, breaks: tuple[float, ...] = ()) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights, both of shape `(k,)`, of the chi-square law between its 1e-22 tails.

    `freedom` is the degrees of freedom, above 0.5 (any real number). `nodes` are k without any break, a multiple of 20.
    `breaks` says where an integrand is not smooth; each adds 20 nodes.
    """
    shape = freedom / 2
    # Below 4 degrees of freedom the density has a singular derivative at 0, which a higher root removes.
    power = 3 if freedom >= 4 else 6
    low = float(2 * special.gammaincinv(shape, TAIL)) ** (1 / power)
    high = float(2 * special.gammainccinv(shape, TAIL)) ** (1 / power)
    roots = [root for root in (value ** (1 / power) for value in breaks) if low < root < high]
    edges = np.union1d(_even_edges(low, high, nodes), roots)
    root, step = panels(edges)
    log_weights = _log_density(root**power, freedom) + np.log(root ** (power - 1) * step)
    return _normalised(root**power, np.exp(log_weights - log_weights.max()))


@lru_cache(maxsize=8)
def normal_rule(nodes: int = 120) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights, both of shape `(nodes,)`, of the standard normal law between its 1e-22 tails."""
    values, step = panels(_even_edges(-NORMAL_REACH, NORMAL_REACH, nodes))
    return _normalised(values, np.exp(-(values**2) / 2) * step)


def _log_density(values: FloatArray, freedom: float) -> FloatArray:
    """Return the log of the chi-square density but for a constant, to rounding however many degrees there are."""
    half = freedom / 2 - 1
    if freedom < 4:
        return np.asarray(half * np.log(values) - values / 2)
    # About the mode, where the two large terms of the logarithm cancel.
    step = (values - 2 * half) / (2 * half)
    return np.asarray(half * (np.log1p(step) - step))


def panels(edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return Gauss-Legendre nodes and weights, shape `(20 k,)`, of increasing `edges`, shape `(k + 1,)`."""
    half = np.diff(edges) / 2
    points = (edges[:-1] + half)[:, np.newaxis] + half[:, np.newaxis] * _LEGENDRE[0]
    weights = half[:, np.newaxis] * _LEGENDRE[1]
    return points.ravel(), weights.ravel()


def _even_edges(low: float, high: float, nodes: int) -> FloatArray:
    """Return the edges of as many equal panels as have `nodes` nodes together."""
    if nodes % _PANEL_NODES:
        raise ValueError(f"nodes come in panels of {_PANEL_NODES}, got {nodes}")
    return np.linspace(low, high, nodes // _PANEL_NODES + 1)


def _normalised(nodes: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a rule whose weights sum to one, read-only since it is cached."""
    weights = weights / weights.sum()
    nodes.setflags(write=False)
    weights.setflags(write=False)
    return nodes, weights
