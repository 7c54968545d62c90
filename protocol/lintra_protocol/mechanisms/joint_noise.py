"""How a client's noise is dealt to counts, sums, products and histograms, and what the sum of it promises.

One number sets all of it, the deviation of a product of two different coordinates. The proportions are chosen so that
the class counts cost nothing: with them, replacing a row by one of another class is exactly as bad as replacing it by
the worst one of its own (docs/privacy.md#joint).
"""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from lintra_protocol.privacy.joint import JointVariances, joint_squared_mu
from lintra_protocol.privacy.statement import Neighbours


@dataclass(frozen=True)
class Deviations:
    """Deviations of one client's noise in ring units, by what a word is; squares are products v_i v_i."""

    counts: int
    sums: int
    squares: int
    products: int
    histograms: int


@dataclass(frozen=True)
class JointNoise:
    """What the noise and its promise depend on, in integer units.

    Attributes:
        squared_length: q, the largest squared norm of a row's coordinates.
        indicator: U, what a row adds to its class count and to its cells.
        num_coordinates: p, a numeric label counted as one.
        num_classes: K.
        num_histograms: H.
        squared_weight: r^2, between 0 and 2: larger means less noise on sums and counts, more on products.
    """

    squared_length: int
    indicator: int
    num_coordinates: int
    num_classes: int
    num_histograms: int
    squared_weight: Fraction

    def deviations(self, sigma: int) -> Deviations:
        """Return the smallest integers whose squares are at least the planned variances.

        With v the square of `sigma`, the deviation of a product of two different coordinates: 2v for squares,
        2v / (q r^2) for sums, 8v U^2 / (q^2 r^4) for counts and 2v U^2 H / q^2 for histogram cells.
        """
        ratio = Fraction(2 * sigma**2, self.squared_length)
        cell = ratio * self.indicator**2 / self.squared_length
        return Deviations(
            counts=_ceil_root(4 * cell / self.squared_weight**2),
            sums=_ceil_root(ratio / self.squared_weight),
            squares=_ceil_root(Fraction(2 * sigma**2)),
            products=sigma,
            histograms=_ceil_root(cell * max(1, self.num_histograms)),
        )

    def squared_row_distance(self, neighbours: Neighbours) -> Fraction:
        """Return the largest squared distance of two rows in multiples of the planned deviations over `sigma`.

        That is mu^2 for a product's variance of 1, all variances planned and none rounded up to a square.
        """
        ratio = Fraction(2, self.squared_length)
        cell = ratio * self.indicator**2 / self.squared_length
        counts, cells = 4 * cell / self.squared_weight**2, cell * max(1, self.num_histograms)
        planned = JointVariances(counts, ratio / self.squared_weight, Fraction(2), cells)
        return self._squared_mu(planned, neighbours)

    def present(self, sigma: int) -> list[int]:
        """Return the deviations of the words that there are: none of counts with one class, for instance."""
        own = self.deviations(sigma)
        found = [own.sums, own.squares]
        if self.num_coordinates > 1:
            found.append(own.products)
        if self.num_classes > 1:
            found.append(own.counts)
        if self.num_histograms:
            found.append(own.histograms)
        return found

    def squared_mu(self, sigma: int, neighbours: Neighbours, honest: int, given_up: Fraction) -> Fraction:
        """Return mu^2 of the sum exactly (Theorem J3, docs/privacy.md#joint).

        Args:
            sigma: of a product of two different coordinates.
            neighbours: whether a row is replaced by any other or becomes the null vector.
            honest: clients whose noise is counted, at least 1.
            given_up: what the lattice takes of the total variance of every word (Theorem D1).
        """
        own = self.deviations(sigma)
        counts, sums, products, histograms = (
            honest * deviation**2 - given_up for deviation in (own.counts, own.sums, own.products, own.histograms)
        )
        return self._squared_mu(JointVariances(counts, sums, 2 * products, histograms), neighbours)

    def _squared_mu(self, variances: JointVariances, neighbours: Neighbours) -> Fraction:
        return joint_squared_mu(
            variances,
            squared_bound=self.squared_length,
            indicator=self.indicator,
            num_classes=self.num_classes,
            num_histograms=self.num_histograms,
            neighbours=neighbours,
        )


def _ceil_root(value: Fraction) -> int:
    """Return the smallest integer whose square is at least a positive value."""
    return isqrt(-(-value.numerator // value.denominator) - 1) + 1
