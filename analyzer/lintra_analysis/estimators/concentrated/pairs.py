"""Intervals of correlations: which sums of squares and products with that correlation does the noise allow?

A pair of columns has the sums m = (M_ii, M_ij, M_jj). A correlation rho is accepted where some (a, rho sqrt(a b), b)
with a, b >= 0 lies within the quantile of chi-square with one degree of freedom of m, in the metric of the noise. No
variance has to stand out of the noise for that: all of [-1, 1] is an answer.
"""

from dataclasses import dataclass

import numpy as np

from lintra_protocol.crypto.ring import FloatArray

_EVERYWHERE = 17
_NEARBY = 13
_REACH = 6.0
_ZOOMS = 3
_ZOOMED = 9
_HALVINGS = 24
_TRIED = 21
_AT_ONCE = 2000


@dataclass(frozen=True, eq=False)
class PairIntervals:
    """Sums of k pairs of columns with the noise in them.

    Attributes:
        sums: shape `(k, 3)`: squares of the first, products, squares of the second.
        precision: the inverses of their covariances, shape `(k, 3, 3)`.
        angles: where to look for the best ratio of a and b, ascending, shape `(k, t)`.
    """

    sums: FloatArray
    precision: FloatArray
    angles: FloatArray

    @classmethod
    def of(cls, sums: FloatArray, covariance: FloatArray) -> "PairIntervals":
        """Prepare the search; covariances have shape `(k, 3, 3)` and an inverse."""
        squares = np.maximum(sums[:, [0, 2]], 0)
        middle = np.arctan2(np.sqrt(squares[:, 1]), np.sqrt(squares[:, 0]))
        deviations = np.sqrt(covariance[:, [0, 2], [0, 2]])
        width = np.sum(deviations / np.maximum(squares, deviations), axis=1) / 2
        nearby = middle[:, np.newaxis] + width[:, np.newaxis] * np.linspace(-_REACH, _REACH, _NEARBY)
        everywhere = np.tile(np.linspace(0, np.pi / 2, _EVERYWHERE), (len(sums), 1))
        angles = np.sort(np.clip(np.hstack([nearby, everywhere]), 0, np.pi / 2), axis=1)
        return cls(sums, np.asarray(np.linalg.inv(covariance), np.float64), angles)

    def distances(self, correlations: FloatArray) -> FloatArray:
        """Return the smallest squared distance for one correlation of each pair, shape `(k,)`."""
        angles, every = self.angles, np.arange(len(self.sums))
        found = np.full(len(self.sums), np.inf)
        for _ in range(_ZOOMS + 1):
            values = self._along(correlations, angles)
            best = values.argmin(axis=1)
            found = np.minimum(found, values[every, best])
            last = angles.shape[1] - 1
            low, high = angles[every, np.maximum(best - 1, 0)], angles[every, np.minimum(best + 1, last)]
            angles = low[:, np.newaxis] + (high - low)[:, np.newaxis] * np.linspace(0, 1, _ZOOMED)
        return found

    def _along(self, correlations: FloatArray, angles: FloatArray) -> FloatArray:
        """Return the distance at every angle, at the best length of (a, b) that is not negative; shape `(k, t)`."""
        cosine, sine = np.cos(angles), np.sin(angles)
        first, mixed, second = cosine**2, correlations[:, np.newaxis] * cosine * sine, sine**2
        weight = self.precision[:, :, :, np.newaxis]
        turned = (self.precision @ self.sums[:, :, np.newaxis])[:, :, 0]
        own = np.sum(turned * self.sums, axis=1)
        along = first * turned[:, :1] + mixed * turned[:, 1:2] + second * turned[:, 2:]
        length = first * (weight[:, 0, 0] * first + 2 * (weight[:, 0, 1] * mixed + weight[:, 0, 2] * second))
        length += mixed * (weight[:, 1, 1] * mixed + 2 * weight[:, 1, 2] * second) + weight[:, 2, 2] * second**2
        left: FloatArray = own[:, np.newaxis] - np.maximum(along, 0) ** 2 / length
        return np.maximum(left, 0)

    def point(self) -> FloatArray:
        """Return M_ij / sqrt(M_ii M_jj) inside [-1, 1], or 0 where a sum of squares is not positive; shape `(k,)`."""
        product = self.sums[:, 0] * self.sums[:, 2]
        usable = (self.sums[:, 0] > 0) & (self.sums[:, 2] > 0)
        ratio = np.divide(self.sums[:, 1], np.sqrt(np.maximum(product, 0)), out=np.zeros(len(product)), where=usable)
        return np.clip(ratio, -1, 1)

    def parts(self) -> list["PairIntervals"]:
        """Return the pairs in pieces that fit the processor's cache."""
        return [
            PairIntervals(self.sums[part], self.precision[part], self.angles[part])
            for first in range(0, len(self.sums), _AT_ONCE)
            for part in [slice(first, first + _AT_ONCE)]
        ]

    def intervals(self, limit: float) -> FloatArray:
        """Return the accepted correlations, shape `(k, 2)`; [-1, 1] where the sums fit no correlation at all.

        `limit` is the quantile of chi-square.
        """
        start, value = self._inside(limit)
        found = np.empty((len(self.sums), 2))
        for side, bound in enumerate((-1.0, 1.0)):
            inner, outer = start.copy(), np.full(start.size, bound)
            open_ = self.distances(outer) > limit
            for _ in range(_HALVINGS):
                middle = (inner + outer) / 2
                accepted = self.distances(middle) <= limit
                inner = np.where(accepted, middle, inner)
                outer = np.where(accepted, outer, middle)
                if (np.abs(outer - inner) < 1e-3 * (1e-9 + np.abs(outer - start)))[open_].all():
                    break
            found[:, side] = np.where(open_, outer, bound)
        found[value > limit] = (-1.0, 1.0)
        return found

    def _inside(self, limit: float) -> tuple[FloatArray, FloatArray]:
        """Return a correlation of each pair that is accepted, if any, and its distance."""
        start = self.point()
        value = self.distances(start)
        if (value > limit).any():
            for tried in np.linspace(-1, 1, _TRIED):
                other = self.distances(np.full(start.size, tried))
                better = (value > limit) & (other < value)
                start, value = np.where(better, tried, start), np.where(better, other, value)
        return start, value
