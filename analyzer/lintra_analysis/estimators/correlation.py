"""The correlation matrix, about the means where a release holds them, with the error of every entry by cause."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lintra_analysis.estimators.centred import Centred, centred
from lintra_analysis.estimators.estimates import Interval, check_confidence, quantile, two_sided
from lintra_analysis.estimators.pca import CENTERS_NOTE, MEANS_NOTE, NORMAL_NOTE
from lintra_analysis.estimators.quantities import holds_sampling, standard_error
from lintra_analysis.estimators.spectral import floor_eigenvalues, smallest_eigenvalue
from lintra_analysis.estimators.tables import Cell, Tabular, closing, csv_text, facts, levels, number, table, title
from lintra_analysis.noise_laws.law import ErrorLaw
from lintra_analysis.releases.gram import HasSecondMoment
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.ring import FloatArray

_SMALLEST_EIGENVALUE = -1e-12


@dataclass(frozen=True)
class PairCorrelation:
    """The correlation of two columns.

    Attributes:
        value: the estimate, between -1 and 1; the matrix may hold another number if it had to be repaired.
        privacy: the part of the standard error that the privacy noise causes, and so on; parts add up in squares.
        interval: for the population.
        cohort_interval: for the cohort's own rows.
        p_value: of a correlation of 0 in the population, two-sided.
    """

    first: str
    second: str
    value: float
    standard_error: float
    privacy: float
    sketching: float
    sampling: float
    interval: Interval
    cohort_interval: Interval
    p_value: float | None


@dataclass(frozen=True, eq=False, repr=False)
class CorrelationEstimate(Tabular):
    """The correlations of d columns.

    >>> from lintra_analysis import correlation, open_release
    >>> estimate = correlation(open_release("flights.npz"))
    >>> estimate.columns
    ('hour', 'distance', 'delay')
    >>> print(estimate.to_csv())  # doctest: +ELLIPSIS, +NORMALIZE_WHITESPACE
    first,second,...

    Attributes:
        columns: those whose variance stands out of the noise; the matrix is about these.
        lost: those whose variance does not.
        matrix: shape `(d, d)`, positive semi-definite, with ones on the diagonal.
        repaired: whether noise had made it indefinite; then `matrix` differs from the pairs.
        pairs: every pair of columns, the first before the second.
        warnings: in plain words, what the analyst must know before using the numbers.
    """

    columns: tuple[str, ...]
    lost: tuple[str, ...]
    num_clients: int
    confidence: float
    about_means: bool
    matrix: FloatArray
    repaired: bool
    pairs: tuple[PairCorrelation, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        return f"CorrelationEstimate({len(self.columns)} columns, {self.num_clients} clients)"

    def pair(self, first: str, second: str) -> PairCorrelation:
        """Return the correlation of two columns, in either order.

        Raises:
            InvalidAnalysisError: one of them is not in the matrix, or both are the same.
        """
        for pair in self.pairs:
            if {pair.first, pair.second} == {first, second}:
                return pair
        raise InvalidAnalysisError(f"there is no pair {first!r}, {second!r}; columns are: {', '.join(self.columns)}")

    def to_csv(self) -> str:
        """Return one line for each pair."""
        header = ["first", "second", "correlation", "standard_error", "privacy", "sketching", "sampling"]
        header += ["lower", "upper", "cohort_lower", "cohort_upper", "p_value", "repaired_correlation"]
        return csv_text(header, map(self._csv_row, self.pairs))

    def _csv_row(self, pair: PairCorrelation) -> list[Cell]:
        i, j = self.columns.index(pair.first), self.columns.index(pair.second)
        row: list[Cell] = [pair.first, pair.second, pair.value, pair.standard_error]
        row += [pair.privacy, pair.sketching, pair.sampling, *pair.interval, *pair.cohort_interval, pair.p_value]
        return [*row, float(self.matrix[i, j])]

    def summary(self, privacy: str | None = None) -> str:
        """Return a text for people: the matrix, then every pair with its error."""
        about = "means" if self.about_means else "public centers"
        lines = title("Correlations from a private second moment")
        lines += facts([("Clients", str(self.num_clients)), ("About", about)])
        rows = [[name, *(f"{value:.3f}" for value in row)] for name, row in zip(self.columns, self.matrix, strict=True)]
        lines += table(["", *self.columns], rows)
        header = ["", "corr", "std err", "P", *levels(self.confidence), "privacy", "sketching", "sampling"]
        lines += table(header, map(_summary_row, self.pairs))
        return "\n".join([*lines, *closing(privacy, self.warnings, self.notes)]) + "\n"


def _summary_row(pair: PairCorrelation) -> list[str]:
    p_value = "-" if pair.p_value is None else f"{pair.p_value:.3f}"
    row = [f"{pair.first}, {pair.second}", f"{pair.value:.4f}", number(pair.standard_error), p_value]
    return [*row, *map(number, (*pair.interval, pair.privacy, pair.sketching, pair.sampling))]


def correlation(
    release: HasSecondMoment, columns: Sequence[str] | None = None, confidence: float = 0.95
) -> CorrelationEstimate:
    """Return the correlations of the columns.

    >>> from lintra_analysis import correlation, open_release
    >>> correlation(open_release("flights.npz"), ["hour", "delay"]).matrix.shape
    (2, 2)

    Intervals put sampling on Fisher's scale atanh(r), where its error is 1 / sqrt(n - 3) for normal rows, and privacy
    noise on that of r itself.

    Args:
        release: a sketch or a second moment.
        columns: at least two; by default all that vary.
        confidence: of the intervals, each on its own.

    Raises:
        InvalidAnalysisError: the release holds no second moments, or an argument does not fit it.
    """
    check_confidence(confidence)
    moments = centred(release, columns)
    gram = moments.gram
    if len(moments.columns) < 2 or gram.num_clients < 4:
        raise InvalidAnalysisError("correlations need at least 2 columns that vary, and 4 clients")
    diagonal = np.diagonal(gram.matrix)
    sd = np.sqrt(np.diagonal(gram.errors.entry_variance(np.eye(diagonal.size))))
    usable = np.flatnonzero(diagonal > 2 * sd)
    names = tuple(column.name for column in moments.columns)
    lost = tuple(name for i, name in enumerate(names) if i not in usable)
    if usable.size < 2:
        raise InvalidAnalysisError(f"noise has swallowed the variance of {', '.join(lost)}; no correlation is left")
    kept = tuple(names[i] for i in usable)
    root = np.sqrt(diagonal[usable])
    raw = gram.matrix[np.ix_(usable, usable)] / np.outer(root, root)
    repaired, matrix = _repaired(raw)
    law = gram.errors.restrict(usable)
    return CorrelationEstimate(
        columns=kept,
        lost=lost,
        num_clients=gram.num_clients,
        confidence=float(confidence),
        about_means=moments.about_means,
        matrix=matrix,
        repaired=repaired,
        pairs=tuple(_pairs(moments, law, usable_names=kept, raw=raw, root=root, confidence=confidence)),
        notes=(MEANS_NOTE if moments.about_means else CENTERS_NOTE, NORMAL_NOTE),
        warnings=_warnings(lost, repaired),
    )


def _repaired(raw: FloatArray) -> tuple[bool, FloatArray]:
    """Return whether a matrix was indefinite, and the matrix with clipped eigenvalues and ones on the diagonal."""
    indefinite = smallest_eigenvalue(raw) < _SMALLEST_EIGENVALUE
    repaired = floor_eigenvalues(raw, 0.0) if indefinite else raw
    root = np.sqrt(np.diagonal(repaired))
    matrix = repaired / np.outer(root, root)
    np.fill_diagonal(matrix, 1.0)
    return indefinite, matrix


def _pairs(
    moments: Centred,
    law: ErrorLaw,
    *,
    usable_names: tuple[str, ...],
    raw: FloatArray,
    root: FloatArray,
    confidence: float,
) -> list[PairCorrelation]:
    """Return every pair with its errors."""
    variance = law.correlation_variance(raw, root**2)
    mixed, count = holds_sampling(moments), moments.gram.num_clients
    block = raw * np.outer(root, root)
    found = []
    for i in range(root.size):
        for j in range(i + 1, root.size):
            r, measured = float(raw[i, j]), math.sqrt(max(float(variance[i, j]), 0.0))
            privacy = _privacy(law, block, i, j, r) if mixed else measured
            bounded = min(max(r, -1.0), 1.0)
            error = standard_error(measured, privacy, (1 - bounded**2) / math.sqrt(count - 3), mixed)
            around = math.hypot(error.sketching, error.sampling)
            found.append(
                PairCorrelation(
                    first=usable_names[i],
                    second=usable_names[j],
                    value=bounded,
                    standard_error=error.total,
                    privacy=error.privacy,
                    sketching=error.sketching,
                    sampling=error.sampling,
                    interval=_interval(r, around, error.privacy, confidence),
                    cohort_interval=_interval(r, error.sketching, error.privacy, confidence),
                    p_value=_p_value(bounded, math.hypot(error.privacy, error.sketching), count),
                )
            )
    return found


def _privacy(law: ErrorLaw, block: FloatArray, i: int, j: int, r: float) -> float:
    """Return the part of a correlation's standard error that the privacy noise of a sketch causes."""
    weights, root = np.zeros_like(block), np.sqrt(np.diagonal(block))
    weights[i, j] = weights[j, i] = 0.5 / (root[i] * root[j])
    weights[i, i], weights[j, j] = -r / (2 * root[i] ** 2), -r / (2 * root[j] ** 2)
    return law.privacy_functional_sd(weights, block)


def _interval(r: float, around: float, noise: float, confidence: float) -> Interval:
    """Return an interval whose parts add up in squares on either side (Zou 2007).

    Args:
        r: the estimate; noise may have left it beyond 1.
        around: sd of what varies as correlations of samples do, hence on Fisher's scale atanh(r).
        noise: sd of what noise adds to the products, which stays normal on the scale of r however near r is to 1.
        confidence: of the interval.
    """
    reach = quantile(confidence)
    low = high = reach * around
    if abs(r) < 1:
        centre, half = math.atanh(r), reach * around / (1 - r**2)
        low, high = r - math.tanh(centre - half), math.tanh(centre + half) - r
    lower, upper = r - math.hypot(low, reach * noise), r + math.hypot(high, reach * noise)
    return max(min(lower, 1.0), -1.0), min(max(upper, -1.0), 1.0)


def _p_value(r: float, noise: float, count: int) -> float:
    """Return p of a correlation of 0 in the population: without noise, that of the usual t test on n - 2 degrees.

    The sampling variance is (1 - r^2) / (n - 2), with what noise may have added to r^2 taken out of it.
    """
    sampling = (1 - max(r**2 - noise**2, 0.0)) / (count - 2)
    total = noise**2 + sampling
    if total == 0:
        return 0.0
    # Satterthwaite (1946): only the sampling part is estimated.
    freedom = (count - 2) * (total / sampling) ** 2 if sampling > 0 else math.inf
    return two_sided(r / math.sqrt(total), freedom)


def _warnings(lost: tuple[str, ...], repaired: bool) -> tuple[str, ...]:
    """Return what the analyst must know, in plain words."""
    warnings = []
    if lost:
        warnings.append(f"noise has swallowed the variance of {', '.join(lost)}, which are left out")
    if repaired:
        warnings.append("noise had made the matrix indefinite; the matrix is repaired, the pairs are not")
    return tuple(warnings)
