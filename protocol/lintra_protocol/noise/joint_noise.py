"""How a client's noise is dealt to counts, sums, products and histograms, and what the sum of it promises.

One number sets all of it, the deviation of a product of two different coordinates. The proportions are chosen so that
the class counts cost nothing: with them, replacing a row by one of another class is exactly as bad as replacing it by
the worst one of its own (docs/proofs/joint.md#joint).
"""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from lintra_protocol.privacy.statement import Neighbours


@dataclass(frozen=True)
class JointVariances:
    """Total noise variances of what is released together, in squared integer units."""

    counts: Fraction  #: of a class count; not looked at where there is one class
    sums: Fraction  #: of a coordinate of a class sum
    products: Fraction  #: of a product of a coordinate with itself; that of two different ones has at least half of it
    histograms: Fraction  #: of a histogram cell; not looked at where there is no histogram
    tables: Fraction = Fraction(0)  #: of a cell of a pair table; not looked at where there is none


def joint_squared_mu(
    variances: JointVariances,
    *,
    squared_bound: int,
    indicator: int,
    num_classes: int,
    num_histograms: int,
    neighbours: Neighbours,
    num_tables: int = 0,
) -> Fraction:
    """Return the exact square of the Gaussian privacy parameter mu of the joint release (Theorem J3).

    A row is a class k, a vector v with |v|^2 <= q and one cell of each histogram and of each pair table. It adds
    `indicator` to the count of class k, v to its sum, v v^T (the upper triangle) to the products, and `indicator` to
    its cells. Exact where v has at least two coordinates, an upper bound where it has one.

    Args:
        variances: of independent Gaussian noise.
        squared_bound: q, in squared integer units.
        indicator: U.
        num_classes: K; with one class nothing is counted.
        num_histograms: H.
        neighbours: whether a row is replaced by any other or becomes the null vector.
        num_tables: pairs of columns that are counted together.

    Raises:
        ValueError: a variance that matters, or another number, is out of range.
    """
    if min(squared_bound, indicator, num_classes) < 1 or min(num_histograms, num_tables) < 0:
        raise ValueError("bound, indicator and classes are positive, the numbers of histograms and tables not negative")
    ratio = squared_bound / _positive(variances.sums)
    quartic = squared_bound**2 / _positive(variances.products)
    counts = indicator**2 / _positive(variances.counts) if num_classes > 1 else Fraction(0)
    cells = num_histograms * indicator**2 / _positive(variances.histograms) if num_histograms else Fraction(0)
    cells += num_tables * indicator**2 / _positive(variances.tables) if num_tables else Fraction(0)
    if neighbours == "zero-out":
        return counts + ratio + quartic + cells
    # Within a class the two vectors have cosine t: 2b (1 - t) + 2g (1 - t^2) is largest at t = -b/(2g), or at -1.
    inner = 2 * quartic + 2 * ratio + ratio**2 / (2 * quartic) if ratio <= 2 * quartic else 4 * ratio
    across = 2 * counts + 2 * ratio + 2 * quartic
    return max(inner, across if num_classes > 1 else inner) + 2 * cells


def _positive(variance: Fraction) -> Fraction:
    if not variance > 0:
        raise ValueError(f"a variance must be positive, got {variance}")
    return Fraction(variance)


@dataclass(frozen=True)
class Deviations:
    """Deviations of one client's noise in ring units, by what a word is; squares are products v_i v_i."""

    counts: int
    sums: int
    squares: int
    products: int
    histograms: int
    tables: int


@dataclass(frozen=True)
class JointNoise:
    """What the noise and its promise depend on, in integer units."""

    squared_length: int  #: q, the largest squared norm of a row's coordinates
    indicator: int  #: U, what a row adds to its class count and to its cells
    num_coordinates: int  #: p, a numeric label counted as one
    num_classes: int  #: K
    num_histograms: int  #: H
    squared_weight: Fraction  #: r^2, between 0 and 2: larger means less noise on sums and counts, more on products
    num_tables: int = 0  #: pairs of columns whose cells are counted together
    #: of all pair tables together, where that of all histograms together is 1
    squared_table_weight: Fraction = Fraction(1)
    #: by which a count's variance is divided; 1 is free, more makes other noise grow
    squared_count_weight: Fraction = Fraction(1)

    def deviations(self, sigma: int) -> Deviations:
        """Return the smallest integers whose squares are at least the planned variances.

        With v the square of `sigma`, the deviation of a product of two different coordinates: 2v for squares,
        2v / (q r^2) for sums, 8v U^2 / (q^2 r^4) over the squared count weight for counts, 2v U^2 H / q^2 for
        histogram cells, and 2v U^2 P / q^2 over the squared table weight for cells of P pair tables.
        """
        planned = self._planned(Fraction(sigma**2))
        return Deviations(
            counts=_ceil_root(planned.counts),
            sums=_ceil_root(planned.sums),
            squares=_ceil_root(planned.products),
            products=sigma,
            histograms=_ceil_root(planned.histograms),
            tables=_ceil_root(planned.tables),
        )

    def _planned(self, variance: Fraction) -> JointVariances:
        """Return the variances that go with that of a product of two different coordinates."""
        ratio = 2 * variance / self.squared_length
        cell = ratio * self.indicator**2 / self.squared_length
        return JointVariances(
            counts=4 * cell / self.squared_weight**2 / self.squared_count_weight,
            sums=ratio / self.squared_weight,
            products=2 * variance,
            histograms=cell * max(1, self.num_histograms),
            tables=cell * max(1, self.num_tables) / self.squared_table_weight,
        )

    def squared_row_distance(self, neighbours: Neighbours) -> Fraction:
        """Return the largest squared distance of two rows in multiples of the planned deviations over `sigma`.

        That is mu^2 for a product's variance of 1, all variances planned and none rounded up to a square.
        """
        return self._squared_mu(self._planned(Fraction(1)), neighbours)

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
        if self.num_tables:
            found.append(own.tables)
        return found

    def squared_mu(self, sigma: int, neighbours: Neighbours, honest: int | Fraction, given_up: Fraction) -> Fraction:
        """Return mu^2 of the sum exactly (Theorem J3, docs/proofs/joint.md#joint).

        `sigma` is that of a product of two different coordinates. `neighbours` says whether a row is replaced by any
        other or becomes the null vector. `honest` is draws of noise that count, a floor as a part of one.
        `given_up` is what the lattice takes of the total variance of every word (Theorem D1).
        """
        own = self.deviations(sigma)
        counts, sums, products, histograms, tables = (
            honest * deviation**2 - given_up
            for deviation in (own.counts, own.sums, own.products, own.histograms, own.tables)
        )
        return self._squared_mu(JointVariances(counts, sums, 2 * products, histograms, tables), neighbours)

    def _squared_mu(self, variances: JointVariances, neighbours: Neighbours) -> Fraction:
        return joint_squared_mu(
            variances,
            squared_bound=self.squared_length,
            indicator=self.indicator,
            num_classes=self.num_classes,
            num_histograms=self.num_histograms,
            neighbours=neighbours,
            num_tables=self.num_tables,
        )


def _ceil_root(value: Fraction) -> int:
    """Return the smallest integer whose square is at least a positive value."""
    return isqrt(-(-value.numerator // value.denominator) - 1) + 1
