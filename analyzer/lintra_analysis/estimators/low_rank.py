"""Low-rank approximation and principal components about the public centers, from any second moments.

Clipping eigenvalues at zero or subtracting a multiple of the identity moves no eigenvector, so the components
are those of the released matrix; only eigenvalues and shares need the debiased one.
"""

from dataclasses import dataclass

import numpy as np

from lintra_analysis.estimators.estimates import Measured, check_confidence, quantile
from lintra_analysis.estimators.spectral import Spectrum, noise_norm_quantile
from lintra_analysis.estimators.tables import Tabular, closing, csv_text, facts, levels, number, table, title
from lintra_analysis.noise_laws.symmetric_noise import SymmetricNoise
from lintra_analysis.releases.gram import GramEstimate, HasSecondMoment
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.ring import FloatArray

# First-order formulas are used while the expected squared sine to the true subspace is below this; at 0.1 the
# simulated coverage of the intervals still holds, beyond it the directions mix and the formulas fail.
RESOLVED_LEAKAGE = 0.1
_SHOWN = 6


@dataclass(frozen=True, eq=False)
class LowRankEstimate(Tabular):
    """The directions in which the cohort's normalised rows vary most about the public centers.

    Attributes:
        components: shape `(d, k)`, orthonormal columns; in each the entry of largest magnitude is positive.
        eigenvalues: the k largest of Z^T Z, clipped at 0.
        eigenvalue_law: which argument the eigenvalues' intervals rest on.
        noise_norm: q with P(|noise|_2 <= q) = confidence; None for sketches.
        explained: the share of the cohort's total second moment along the components; None if the total is
            lost in
            noise.
        subspace_error: expected squared sine, summed over the k angles, between these components and the true
            ones.
        resolved: whether the gap after the k-th eigenvalue stands out of the noise.
        warnings: in plain words, what the analyst must know before using the numbers.
    """

    columns: tuple[str, ...]
    rank: int
    num_clients: int
    confidence: float
    components: FloatArray
    eigenvalues: tuple[Measured, ...]
    eigenvalue_law: str
    noise_norm: float | None
    explained: Measured | None
    subspace_error: float
    resolved: bool
    warnings: tuple[str, ...]

    def project(self, rows: FloatArray) -> FloatArray:
        """Return the best approximation of normalised rows, shape `(n, d)`, by the components."""
        return rows @ self.components @ self.components.T

    def to_csv(self) -> str:
        """Return one line for each component."""
        header = ["component", "eigenvalue", "standard_error", "lower", "upper", *self.columns]
        return csv_text(
            header,
            (
                [i + 1, one.value, one.standard_error, *(one.interval or (None, None)), *self.components[:, i].tolist()]
                for i, one in enumerate(self.eigenvalues)
            ),
        )

    def summary(self, privacy: str | None = None) -> str:
        """Return a text for people."""
        explained = "-"
        if self.explained is not None:
            low, high = self.explained.interval or (None, None)
            explained = f"{number(self.explained.value)} ({number(low)} to {number(high)})"
        lines = title("Directions of the second moment about the public centers")
        lines += facts(
            [
                ("Clients", str(self.num_clients)),
                ("Explained share", explained),
                ("Columns", str(len(self.columns))),
                ("Subspace error", number(self.subspace_error)),
            ]
        )
        rows = [
            [f"{i + 1}", *map(number, (one.value, one.standard_error, *(one.interval or (None, None))))]
            for i, one in enumerate(self.eigenvalues)
        ]
        lines += table(["", "eigenvalue", "std err", *levels(self.confidence)], rows)
        directions = [
            [name, *map(number, row)] for name, row in zip(self.columns, self.components[:, :_SHOWN], strict=True)
        ]
        lines += table(["", *(f"component {i + 1}" for i in range(min(self.rank, _SHOWN)))], directions)
        return "\n".join([*lines, *closing(privacy, self.warnings, [self.eigenvalue_law])]) + "\n"


def low_rank(release: HasSecondMoment, rank: int, confidence: float = 0.95) -> LowRankEstimate:
    """Return the `rank` leading eigenvectors of the cohort's second moment.

    Args:
        release: a sketch or a second moment; restrict it first to leave columns out. A constant column takes no part.
        rank: k, between 1 and the number of columns.
        confidence: of the intervals.

    Raises:
        InvalidAnalysisError: the release holds no second moments, or an argument does not fit it.
    """
    check_confidence(confidence)
    gram = release.second_moment()
    varying = [column.name for column in gram.columns if not column.constant]
    if varying and len(varying) < len(gram.columns):
        # An intercept is no direction of the data, and would be the first one.
        gram = gram.restrict(varying)
    size = len(gram.columns)
    if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or not 1 <= rank <= size:
        raise InvalidAnalysisError(f"rank must be a whole number from 1 to the {size} columns, got {rank!r}")
    spectrum = Spectrum.of(gram)
    leakage = min(spectrum.leakage(rank), float(min(rank, size - rank)))
    resolved = leakage <= RESOLVED_LEAKAGE
    norm = None
    if isinstance(gram.errors, SymmetricNoise):
        norm = noise_norm_quantile(size, gram.errors.sigma, confidence)
        eigenvalues = _weyl_intervals(spectrum, rank, norm)
        law = "Weyl's inequality: all intervals hold at once"
        if not gram.errors.gaussian:
            law += ", as far as the noise is close to Gaussian noise of its variances"
    else:
        eigenvalues = _delta_intervals(spectrum, rank, confidence)
        law = "delta method: each interval holds on its own"
    return LowRankEstimate(
        columns=tuple(column.name for column in gram.columns),
        rank=int(rank),
        num_clients=gram.num_clients,
        confidence=float(confidence),
        components=spectrum.vectors[:, :rank],
        eigenvalues=eigenvalues,
        eigenvalue_law=law,
        noise_norm=norm,
        explained=_explained(gram, spectrum, int(rank), confidence, resolved),
        subspace_error=leakage,
        resolved=resolved,
        warnings=_warnings(spectrum, eigenvalues, int(rank), leakage, resolved),
    )


def _weyl_intervals(spectrum: Spectrum, rank: int, norm: float) -> tuple[Measured, ...]:
    """Return eigenvalues that can be wrong by the norm of the noise at most (Weyl 1912)."""
    sd = np.sqrt(np.diagonal(spectrum.entry_variance)).tolist()
    return tuple(
        Measured(max(value, 0.0), sd[i], (max(value - norm, 0.0), max(value + norm, 0.0)))
        for i, value in enumerate(spectrum.values[:rank].tolist())
    )


def _delta_intervals(spectrum: Spectrum, rank: int, confidence: float) -> tuple[Measured, ...]:
    """Return eigenvalues with first-order errors, centred without their second-order bias.

    The i-th is inflated by the sum over j of Var(v_i^T M v_j) / (l_i - l_j). One that is not told apart from
    its neighbours has no interval.
    """
    found = []
    for i, value in enumerate(spectrum.values[:rank].tolist()):
        others = np.arange(spectrum.values.size) != i
        gaps = value - spectrum.values[others]
        variance = spectrum.entry_variance[i, others]
        sd = float(np.sqrt(spectrum.entry_variance[i, i]))
        if (gaps == 0).any() or (variance / gaps**2).sum() > RESOLVED_LEAKAGE:
            found.append(Measured(max(value, 0.0)))
            continue
        centre = value - float((variance / gaps).sum())
        reach = quantile(confidence) * sd
        found.append(Measured(max(value, 0.0), sd, (max(centre - reach, 0.0), max(centre + reach, 0.0))))
    return tuple(found)


def _explained(gram: GramEstimate, spectrum: Spectrum, rank: int, confidence: float, resolved: bool) -> Measured | None:
    """Return the explained share, with an interval if the subspace is resolved or Weyl gives one."""
    size = spectrum.values.size
    total, total_sd = float(np.trace(gram.matrix)), gram.errors.functional_sd(np.eye(size))
    if total <= 2 * total_sd:
        return None
    top = float(spectrum.values[:rank].sum())
    if resolved:
        share = (top - spectrum.upward_bias(rank)) / total
        leading = spectrum.vectors[:, :rank]
        sd = gram.errors.functional_sd((leading @ leading.T - share * np.eye(size)) / total)
        reach = quantile(confidence) * sd
        return Measured(_unit(share), sd, (_unit(share - reach), _unit(share + reach)))
    if not isinstance(gram.errors, SymmetricNoise):
        return Measured(_unit(top / total))
    # The k largest move by at most k |N|_2 together. Half of the error probability goes to the trace.
    half = (1 + confidence) / 2
    reach = rank * noise_norm_quantile(size, gram.errors.sigma, half)
    trace_reach = quantile(half) * total_sd
    low = _unit((top - reach) / (total + trace_reach))
    high = _unit((top + reach) / (total - trace_reach)) if total > trace_reach else 1.0
    return Measured(_unit(top / total), None, (low, high))


def _unit(share: float) -> float:
    """Clip a share to [0, 1]."""
    return min(max(share, 0.0), 1.0)


def _warnings(
    spectrum: Spectrum, eigenvalues: tuple[Measured, ...], rank: int, leakage: float, resolved: bool
) -> tuple[str, ...]:
    """Return what the analyst must know, in plain words."""
    found = []
    if not resolved:
        found.append(
            f"the {rank} components are not told apart from the rest: the expected squared sine to the true "
            f"ones is {leakage:.2f}, above {RESOLVED_LEAKAGE}; another rank may stand at a clearer gap"
        )
    if negative := int((spectrum.values[:rank] < 0).sum()):
        found.append(f"{negative} of the {rank} eigenvalues are negative, which is noise; reported as 0")
    if missing := sum(eigenvalue.interval is None for eigenvalue in eigenvalues):
        found.append(f"{missing} eigenvalues have no interval, because they lie too close to others")
    return tuple(found)
