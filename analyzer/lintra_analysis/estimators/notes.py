"""Notes beside an estimate, and its findings in a sentence or two for readers who cannot see the figure.

A number whose interval holds 0 is only named among those that are not told apart from 0.
"""

import math
from collections.abc import Sequence
from typing import Protocol

from lintra_analysis.estimators.estimates import Interval
from lintra_analysis.estimators.solve import Fit
from lintra_analysis.estimators.tabular import number
from lintra_analysis.releases.gram_error import GramEstimate

R2_NOTE = (
    "r2 is predicted from this release, not measured on rows: the share of the target's second moment about "
    "its public center, not about its mean, that the fit explains on the cohort's clipped rows"
)
R2_ABOUT_MEAN_NOTE = (
    "r2 is predicted from this release, not measured on rows: the share of the target's variance about its mean that "
    "the fit explains on the cohort's clipped rows"
)
SHRUNK_NOTE = "a penalty shrinks the coefficients; intervals and tests are about the shrunk ones"
CONCENTRATED_LAW = (
    "intervals and tests rest on the exact Gaussian law of the noise and hold however badly conditioned the features "
    "are"
)
LINEAR_LAW = (
    "intervals and tests rest on the noise's variances, linearised about the estimate: approximate, and too narrow "
    "where features are nearly dependent"
)
SKETCH_LAW = (
    "intervals and tests rest on the spread of the sketch's own rows, linearised about the estimate: approximate, and "
    "too narrow where features are nearly dependent"
)
ONE_VARIANCE = "; for the population one residual variance is assumed, which second moments cannot check"
ANY_VARIANCE = (
    "; for the population nothing is assumed of the residuals' variances: the sampling part of an error is the largest "
    "that rows of this norm can have, and intervals cover more than they say"
)
NOISELESS_LAW = "the release carries no noise, so intervals and tests are those of ordinary least squares"

HEAVY_TAILS = (
    "; with heavy tails intervals cover less than they say, those of correlations down to .41 of .95 on a table that "
    "was tried"
)

_NAMED = 5

MOST_NAMED = 6
"""So many things are named one by one; the others are counted."""

Found = tuple[str, float | None, Interval | None]
"""A name with its number and interval, each None where nothing can be told."""


class Raised(Protocol):
    """A solution for which eigenvalues below `floor` may have been raised, along the columns `blurred`."""

    @property
    def floor(self) -> float:
        """Return the eigenvalue that smaller ones were raised to."""
        ...

    @property
    def regularised(self) -> bool:
        """Return whether one was."""
        ...

    @property
    def blurred(self) -> tuple[str, ...]:
        """Return the columns that lie most in raised directions, most first."""
        ...


def one_variance(most: float | None) -> str:
    """Return what is assumed of residuals for the population, and by how much that may fall short.

    `most` says how many times the sampling part of an error may be what is stated, whatever the residuals' variances;
    None where that is not known.
    """
    if most is None:
        return ONE_VARIANCE
    return (
        f"{ONE_VARIANCE}: where it changes with the features intervals cover less (on tables that were tried down to "
        f".68 of .95), and the sampling part of an error is at most {most:.2g} times what is stated"
    )


def named(columns: tuple[str, ...]) -> str:
    """Return a few of the columns for a sentence."""
    return ", ".join(columns[:_NAMED]) + (" and others" if len(columns) > _NAMED else "")


def warnings_of(gram: GramEstimate, fit: Fit, *, known: bool, raised: Raised | None = None) -> tuple[str, ...]:
    """Return what follows from the repair of the matrix.

    `known` says whether the intervals do not rest on the repaired matrix. `raised` says which eigenvalues were raised
    for the coefficients; by default those of the fit.
    """
    repair = raised or fit
    found = []
    size = gram.matrix.shape[0]
    best_rows = gram.errors.informative_rows(gram.matrix)
    if best_rows is not None and best_rows < 4 * size:
        found.append(
            f"sketch uninformative: this data and noise support {best_rows:.0f} sketch rows, fewer than "
            f"4 x {size} columns; release second moments instead"
        )
    if repair.regularised:
        where = f", mostly along {named(repair.blurred)}" if repair.blurred else ""
        found.append(
            f"noise is large in some directions of the features{where}: eigenvalues below {repair.floor:.4g} were "
            "raised to it, which draws the coefficients towards 0 along them"
        )
    if fit.regularised and fit.parts is not None and not known:
        found.append("the intervals leave out the bias of that shrinkage; treat them as approximate")
    if fit.parts is None and not known:
        found.append(
            "no standard errors: the sandwich formula for sketches holds only if no eigenvalue was raised "
            "and there are more sketch rows than features"
        )
    if fit.r2 is None and not known:
        found.append(f"no r2: the second moment of {gram.columns[-1].name!r} cannot be told from noise")
    return tuple(found)


def matrix_warnings(lost: tuple[str, ...], repaired: bool) -> tuple[str, ...]:
    """Return what the analyst must know of a matrix of correlations: columns lost in noise, and a repair."""
    warnings = []
    if lost:
        warnings.append(f"noise has swallowed the variance of {', '.join(lost)}, which the matrix leaves out")
    if repaired:
        warnings.append("noise had made the matrix indefinite; the matrix is repaired, the pairs are not")
    return tuple(warnings)


def listed(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """Return names with commas and an `and`, the first `most` of them, and how many others there are.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], most=1)
    ('a, b and c', 'a and 2 more')
    """
    if not names:
        return "nothing"
    shown = list(names[:most])
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def r2_ends(interval: Interval) -> str:
    """Return between which shares r2 lies; where noise could have hidden all residuals, only what it is at least.

    >>> r2_ends((0.5, 0.6)), r2_ends((0.98456, 1.0))
    ('0.5 to 0.6', 'at least 0.9845')
    """
    low, high = interval
    return (
        f"at least {number(math.floor(low * 1e4) / 1e4)}" if high >= 1 > low > 0 else f"{number(low)} to {number(high)}"
    )


def with_interval(value: float | None, interval: Interval | None) -> str:
    """Return a number with its interval in words.

    >>> with_interval(0.5, (0.4, 0.6)), with_interval(0.5, None)
    ('0.5 (between 0.4 and 0.6)', '0.5 (no interval)')
    """
    if value is None:
        return "not told"
    ends = "no interval" if interval is None else f"between {number(interval[0])} and {number(interval[1])}"
    return f"{number(value)} ({ends})"


def apart_from_zero(found: Sequence[Found]) -> str:
    """Return which numbers are told apart from 0, the surest first, which are not, and which cannot be told."""
    told = [one for one in found if one[2] is not None and not one[2][0] <= 0 <= one[2][1]]
    open_ones = [name for name, _, interval in found if interval is not None and interval[0] <= 0 <= interval[1]]
    untold = [name for name, _, interval in found if interval is None]
    sentences = []
    if told:
        told.sort(key=_sureness, reverse=True)
        said = [f"{name}: {with_interval(value, interval)}" for name, value, interval in told]
        sentences.append(f"Told apart from 0: {listed(said)}.")
    if open_ones:
        sentences.append(f"Not told apart from 0: {listed(open_ones)}.")
    if untold:
        sentences.append(f"Without an interval: {listed(untold)}.")
    return " ".join(sentences)


def _sureness(one: Found) -> float:
    """Return the distance of an interval's middle from 0 in half-widths."""
    low, high = one[2] or (0.0, 0.0)
    return abs(low + high) / ((high - low) or 1e-300)


def clients(count: int, of: str | None = None, confidence: float | None = None) -> str:
    """Return from how many rows a finding is, and whom its intervals are about."""
    rows = f"from {count:,} rows"
    return rows if of is None or confidence is None else f"{rows}, {100 * confidence:g} % intervals for the {of}"
