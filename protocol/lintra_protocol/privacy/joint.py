"""Exact sensitivity of counts, means, second moment and histograms that are released together.

One integer vector per row holds them all. Bounding its parts one by one would over-count: the largest changes of the
parts do not happen together. The theorems are stated and proved in docs/proofs/joint.md#joint.
"""

from dataclasses import dataclass
from fractions import Fraction

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
