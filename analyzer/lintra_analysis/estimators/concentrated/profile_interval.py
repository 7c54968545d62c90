"""The ends of a confidence interval: walk out from the point, then close in on where the statistic is the quantile."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lintra_protocol.crypto.ring import FloatArray, IntArray

_GRID = 40
_FIRST = 1.0
_GROWTH = 1.25
_ATTEMPTS = 20
_CLOSE = 2e-3


class Profile(Protocol):
    """What k numbers are said to be, and the smallest Q that agrees with a number."""

    @property
    def point(self) -> FloatArray:
        """Return the direction where Q is 0 for each number, shape `(k, q)`."""
        ...

    def distances(self, index: IntArray, steps: FloatArray, near: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the smallest Q for the values `steps` standard errors off, shape `(B,)`, and where it is.

        `index` says which numbers, shape `(B,)`; `steps` has shape `(B,)`. `near` holds directions to start from beside
        the usual ones, shape `(B, q)`.
        """
        ...


def accepted(profile: Profile, count: int, limit: float) -> FloatArray:
    """Return how many standard errors the accepted values reach below and above each number, shape `(2, k)`.

    `profile` is that of k numbers; `count` is k. `limit` is what Q may be at most.

    Returns:
        Not negative; infinity where the walk, out to some 6,000 standard errors, found no end.
    """
    index = np.tile(np.arange(count), 2)
    sign = np.repeat([-1.0, 1.0], count)
    return _refine(profile, index, sign, _walk(profile, index, sign, limit), limit).reshape(2, count)


def _walk(profile: Profile, index: IntArray, sign: FloatArray, limit: float) -> "_Brackets":
    """Walk out from the point until Q exceeds the limit."""
    count = index.size
    found = _Brackets(
        inner=np.zeros(count),
        outer=np.full(count, np.inf),
        below=np.full(count, -np.sqrt(limit)),
        above=np.full(count, np.inf),
        near=np.tile(profile.point, (2, 1)),
    )
    walking, step = np.arange(count), _FIRST
    for _ in range(_GRID):
        value, theta = profile.distances(index[walking], sign[walking] * step, found.near[walking])
        walking = found.tried(walking, np.full(walking.size, step), np.sqrt(value) - np.sqrt(limit), theta)
        if not walking.size:
            break
        step *= _GROWTH
    return found


@dataclass(eq=False)
class _Brackets:
    """Between which steps Q reaches the limit; `below` and `above` are what its root lacks and exceeds there."""

    inner: FloatArray
    outer: FloatArray
    below: FloatArray
    above: FloatArray
    near: FloatArray

    def tried(self, index: IntArray, steps: FloatArray, excess: FloatArray, theta: FloatArray) -> IntArray:
        """Take in what was found at some steps; return those of the positions that lay inside."""
        outside = excess > 0
        far, kept = index[outside], index[~outside]
        self.outer[far], self.above[far] = steps[outside], excess[outside]
        self.inner[kept], self.below[kept], self.near[kept] = steps[~outside], excess[~outside], theta[~outside]
        return kept

    def middle(self, index: IntArray, halve: bool) -> FloatArray:
        """Return where to try next: where a straight line crosses, or half way."""
        share = 0.5 if halve else np.clip(self.below / (self.below - self.above), 0.02, 0.98)[index]
        return np.asarray(self.inner[index] + share * (self.outer[index] - self.inner[index]))


def _refine(profile: Profile, index: IntArray, sign: FloatArray, found: _Brackets, limit: float) -> FloatArray:
    """Return the steps at which the root of Q is within a small share of that of the limit; outside rather than in."""
    target = float(np.sqrt(limit))
    ends = found.outer.copy()
    left = np.flatnonzero(np.isfinite(found.outer))
    for attempt in range(_ATTEMPTS):
        if not left.size:
            break
        middle = found.middle(left, halve=attempt % 3 == 2)
        value, theta = profile.distances(index[left], sign[left] * middle, found.near[left])
        excess = np.sqrt(value) - target
        found.tried(left, middle, excess, theta)
        close = np.abs(excess) < _CLOSE * target
        ends[left] = np.where(close, middle, found.outer[left])
        left = left[~close]
    return ends
