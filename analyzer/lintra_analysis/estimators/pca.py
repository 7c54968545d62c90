"""Principal components about the means, or about the public centers where a release holds no means.

Columns enter in normalised units, that is divided by their public scales. All errors are first-order perturbations of
the eigenvectors of one matrix; the explained shares gain most from a release with a tight trace.
"""

import functools
import math
from collections.abc import Sequence

import numpy as np

from lintra_analysis.estimators.centred import About, Centred, centred
from lintra_analysis.estimators.estimates import (
    Interval,
    Of,
    check_confidence,
    check_of,
    diagonal_sd,
    quantile,
)
from lintra_analysis.estimators.notes import HEAVY_TAILS
from lintra_analysis.estimators.pca_estimate import PcaEstimate
from lintra_analysis.estimators.quantities import Quantity, error_of, with_count
from lintra_analysis.estimators.spectral import Spectrum, floor_eigenvalues, noise_norm_quantile
from lintra_analysis.releases.columns import scales
from lintra_analysis.releases.gram_error import HasSecondMoment
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

NORMAL_NOTE = (
    "the sampling part of the errors takes the rows to be normal, since a second moment holds no fourth moments"
    f"{HEAVY_TAILS}"
)
MEANS_NOTE = "about the means, which the release's constant column holds"
CENTERS_NOTE = "about the public centers, not about the means"
COHORT_NOTE = "errors and intervals are for the cohort's own clipped rows; the sampling of clients would come on top"
WEYL_NOTE = "the simultaneous intervals of the cohort's variances hold all at once, by Weyl's inequality"
NEARLY_GAUSSIAN = ", as far as the noise is close to Gaussian noise of its variances"
DEFAULT_COMPONENTS = 20
# First-order formulas are used while the expected squared sine to the true subspace is below this; at 0.1 the
# simulated coverage of the intervals still holds, beyond it the directions mix and the formulas fail.
RESOLVED_LEAKAGE = 0.1


def pca(
    release: HasSecondMoment,
    components: int | None = None,
    columns: Sequence[str] | None = None,
    confidence: float = 0.95,
    *,
    about: About = "means",
    of: Of = "population",
    n_components: int | None = None,
) -> PcaEstimate:
    """Return the leading principal components.

    >>> from lintra_analysis import open_release, pca
    >>> pca(open_release("flights.npz"), components=2, columns=["hour", "delay"]).components.shape
    (2, 2)

    Args:
        release: a sketch or a second moment.
        components: k, between 1 and the number of columns that vary; by default all of them, but no more than 20.
        columns: those that take part; by default all that vary. A constant column serves as the intercept.
        confidence: of the intervals.
        about: the "means" where the release holds them, or the public "centers" in any case.
        of: whom the errors are about: the "population" or the "cohort".
        n_components: scikit-learn's name of `components`.

    Raises:
        InvalidAnalysisError: the release holds no second moments, or an argument does not fit it.
    """
    check_confidence(confidence)
    check_of(of)
    if n_components is not None and components is not None:
        raise InvalidAnalysisError("components and n_components are the same; name one of them")
    components = n_components if components is None else components
    moments = centred(release, columns, about)
    size = len(moments.columns)
    rank = min(size, DEFAULT_COMPONENTS) if components is None else components
    if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or not 1 <= rank <= size:
        raise InvalidAnalysisError(f"components must be a whole number from 1 to the {size} columns, got {rank!r}")
    return _report(_Directions(moments, confidence, of), int(rank))


class _Directions:
    """The spectrum of centred moments, and the errors of what is read off it."""

    def __init__(self, moments: Centred, confidence: float, of: Of) -> None:
        self.moments = moments
        self.of: Of = of
        self.confidence = confidence
        self.spectrum = Spectrum.of(moments.gram)
        self.clipped = floor_eigenvalues(moments.gram.matrix, 0.0)
        size = len(moments.columns)
        self.total = float(np.trace(moments.gram.matrix))
        sigma = moments.gram.errors.spectral_sigma
        self.norm = None if sigma is None else noise_norm_quantile(size, sigma, confidence)
        self.lost = self.total <= 2 * moments.gram.errors.functional_sd(np.eye(size))

    def resolved(self, i: int) -> bool:
        """Return whether component i is told apart from every other, to first order."""
        return self._spread[i][0]

    def eigenvalue(self, i: int) -> float:
        """Return the i-th eigenvalue less what noise adds to it, to second order, if it is resolved."""
        return self._spread[i][1]

    @functools.cached_property
    def _spread(self) -> list[tuple[bool, float]]:
        """Whether each component is resolved, and its eigenvalue."""
        return [self._against_others(i, float(value)) for i, value in enumerate(self.spectrum.values)]

    def _against_others(self, i: int, value: float) -> tuple[bool, float]:
        gaps = np.delete(value - self.spectrum.values, i)
        variance = np.delete(self.spectrum.entry_variance[i], i)
        apart = gaps != 0
        if (variance[~apart] > 0).any():
            return False, value
        gaps, variance = gaps[apart], variance[apart]
        resolved = float((variance / gaps**2).sum()) <= RESOLVED_LEAKAGE
        return resolved, value - float((variance / gaps).sum()) if resolved else value

    def variance(self, i: int) -> Quantity:
        """Return the variance along component i."""
        scale = 1 / self.moments.divisor
        value = self.eigenvalue(i) * scale
        if not self.resolved(i):
            return Quantity(max(value, 0.0))
        vector = self.spectrum.vectors[:, i]
        error = error_of(self.moments, np.outer(vector, vector), self.clipped, self.of, scale)
        error = with_count(error, value, self.moments.gram)
        return Quantity.normal(value, error, self.confidence, 0.0, math.inf)

    def share(self, start: int, stop: int) -> Quantity:
        """Return the share of the components from `start` to before `stop`."""
        values = [self.eigenvalue(i) for i in range(start, stop)]
        resolved = self.resolved(start)
        if start == 0:
            resolved = self.spectrum.leakage(stop) <= RESOLVED_LEAKAGE
            values = [float(self.spectrum.values[:stop].sum()) - (self.spectrum.upward_bias(stop) if resolved else 0.0)]
        share = sum(values) / self.total
        if not resolved:
            bounds = self.share_by_norm(stop) if start == 0 and self.of == "cohort" else None
            return Quantity(min(max(share, 0.0), 1.0), interval=bounds)
        leading = self.spectrum.vectors[:, start:stop]
        weights = leading @ leading.T - share * np.eye(leading.shape[0])
        error = error_of(self.moments, weights, self.clipped, self.of, 1 / self.total)
        return Quantity.normal(share, error, self.confidence, 0.0, 1.0)

    def norm_notes(self) -> tuple[str, ...]:
        """Return what the simultaneous intervals rest on, if there are any."""
        if self.norm is None:
            return ()
        return (WEYL_NOTE,) if self.moments.gram.errors.gaussian else (WEYL_NOTE + NEARLY_GAUSSIAN,)

    def by_norm(self, i: int) -> Interval | None:
        """Return an interval of the cohort's variance along component i that holds together with all others.

        No eigenvalue is further off than the norm of the noise (Weyl 1912).
        """
        if self.norm is None:
            return None
        value, scale = float(self.spectrum.values[i]), 1 / self.moments.divisor
        return max(value - self.norm, 0.0) * scale, max(value + self.norm, 0.0) * scale

    def share_by_norm(self, rank: int) -> Interval | None:
        """Return an interval of the cohort's share of the first components, for which they need not be told apart.

        The k largest eigenvalues move by at most k times the norm of the noise together. Half of the error probability
        goes to the trace.
        """
        sigma = self.moments.gram.errors.spectral_sigma
        if sigma is None:
            return None
        half, size = (1 + self.confidence) / 2, self.spectrum.values.size
        reach = rank * noise_norm_quantile(size, sigma, half)
        trace_reach = quantile(half) * self.moments.gram.errors.functional_sd(np.eye(size))
        top = float(self.spectrum.values[:rank].sum())
        low = (top - reach) / (self.total + trace_reach)
        high = (top + reach) / (self.total - trace_reach) if self.total > trace_reach else 1.0
        return min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)

    def component_error(self, i: int) -> FloatArray:
        """Return the standard errors of the entries of component i, all causes together, shape `(d,)`."""
        vector, values = self.spectrum.vectors[:, i], self.spectrum.values
        if not self.resolved(i):
            return np.full(vector.size, np.nan)
        gaps = values[i] - values
        weights = np.divide(1.0, gaps, out=np.zeros_like(gaps), where=gaps != 0)
        reach = (self.spectrum.vectors * weights) @ self.spectrum.vectors.T
        covariance = self.moments.gram.errors.product_covariance(vector)
        if self.of == "population" and not self.moments.gram.errors.measured:
            image = self.clipped @ vector
            spread = float(vector @ image) * self.clipped + np.outer(image, image)
            covariance = covariance + spread / self.moments.gram.num_rows
        return diagonal_sd(reach @ covariance @ reach)


def _report(found: _Directions, rank: int) -> PcaEstimate:
    """Put the leading components together."""
    moments, spectrum = found.moments, found.spectrum
    variances = tuple(found.variance(i) for i in range(rank))
    shares = None if found.lost else tuple(found.share(i, i + 1) for i in range(rank))
    cumulative = None if found.lost else tuple(found.share(0, i + 1) for i in range(rank))
    bounds = [found.by_norm(i) for i in range(rank)]
    leakage = min(spectrum.leakage(rank), float(min(rank, spectrum.values.size - rank)))
    return PcaEstimate(
        columns=tuple(column.name for column in moments.columns),
        num_clients=moments.gram.num_clients,
        of=found.of,
        confidence=float(found.confidence),
        components=spectrum.vectors[:, :rank].T,
        component_errors=np.array([found.component_error(i) for i in range(rank)]),
        mean=moments.means_in_units,
        scale=scales(moments.columns),
        about_means=moments.about_means,
        explained_variance=variances,
        simultaneous=None if None in bounds else tuple(one for one in bounds if one is not None),
        noise_norm=found.norm,
        resolved=leakage <= RESOLVED_LEAKAGE,
        explained_variance_ratio=shares,
        cumulative_ratio=cumulative,
        subspace_error=leakage,
        notes=(*notes_of(moments.about_means, found.of), *found.norm_notes(), *moments.gram.row_notes),
        warnings=_warnings(found, rank),
        scaled_columns=moments.columns,
    )


def notes_of(about_means: bool, of: Of) -> tuple[str, ...]:
    """Return what second moments are about, and what the sampling part of their errors assumes."""
    about = MEANS_NOTE if about_means else CENTERS_NOTE
    return (about, NORMAL_NOTE) if of == "population" else (about, COHORT_NOTE)


def _warnings(found: _Directions, rank: int) -> tuple[str, ...]:
    """Return what the analyst must know, in plain words."""
    warnings = []
    if blurred := [str(i + 1) for i in range(rank) if not found.resolved(i)]:
        warnings.append(
            f"noise does not tell components {', '.join(blurred)} apart from others, so they have no errors; "
            "the simultaneous intervals bound the cohort's variances all the same"
        )
    if not found.spectrum.leakage(rank) <= RESOLVED_LEAKAGE:
        warnings.append(
            f"the {rank} components together are not told apart from the rest; another number of components may stand "
            "at a clearer gap"
        )
    if negative := int((found.spectrum.values[:rank] < 0).sum()):
        warnings.append(f"{negative} of the {rank} variances are negative, which is noise; reported as 0")
    if found.lost:
        warnings.append("no shares: the total variance cannot be told from noise")
    return tuple(warnings)
