"""Predicts the quality of synthetic rows from the released numbers and the law of their noise, without any real row.

Every number has the deviation of its noise beside it, and every judgement is a sentence.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lintra_analysis.estimators.estimates import Interval, check_confidence, quantile
from lintra_analysis.estimators.figures import Figure, Mark, intervals
from lintra_analysis.estimators.notes import clients, listed
from lintra_analysis.estimators.table import Estimate, Table
from lintra_analysis.releases.features import ColumnArray
from lintra_analysis.releases.row_norms import NormLaw
from lintra_analysis.synthetic.model import GaussianModel, count_interval, mean_error
from lintra_analysis.synthetic.pairs import PairReport, judge_pairs, word
from lintra_analysis.synthetic.repair import rows_in_cells
from lintra_analysis.synthetic.rows import WARNING
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.privacy.statement import PrivacyStatement

OUTSIDE_NOTE = "outside the {p} projected of {m} coordinates the model knows nothing: all directions vary alike there"
CLIPPING_NOTE = (
    "rows longer than the radius {tau:.4g} were shrunk, and the model describes the shrunk rows; of rows uniform "
    "between their bounds {share:.1%} would be, of the real rows the share is unknown"
)
MONOTONE_NOTE = (
    "two columns are related through their covariance alone: what rises and falls again (month and temperature) is "
    "lost, without a sign of it here, unless they have a pair table"
)
_SHOWN_PAIRS = 10
GAUSSIAN_NOTE = "within a class the projected rows are taken to be Gaussian; nothing here tests that"


@dataclass(frozen=True)
class ClassReport:
    """One class: how many rows, and how far noise moved its mean."""

    level: str  #: its name; empty without classes
    count: float  #: released
    noise_sd: float
    interval: Interval
    share: float
    mean_error: float  #: the noise in one coordinate of the mean, over the root mean variance within the classes
    verdict: str


@dataclass(frozen=True)
class CovarianceReport:
    """One covariance, and what noise left of it."""

    level: str  #: the class whose it is; empty if it is pooled
    entry_sd: float  #: noise in an entry off the diagonal
    mean_variance: float  #: the mean eigenvalue
    relative_error: float  #: predicted Frobenius error over the norm, before repair
    kept: float  #: g, how much of its shape was kept; the rest was shrunk away
    floored_share: float  #: part of the eigenvalues that were raised to the floor
    verdict: str


@dataclass(frozen=True)
class HistogramReport:
    """One column's histogram."""

    column: str
    cells: int  #: how many
    noise_sd: float  #: of a cell's probability
    total_variation: float  #: expected distance to the histogram without noise, before negative cells are mended
    verdict: str


@dataclass(frozen=True, eq=False)
class FidelityReport(Estimate):
    """What to expect of synthetic rows."""

    promise: PrivacyStatement  #: to the people behind the release
    num_clients: int  #: how many they are
    coordinates: int  #: m of a mapped row
    dimension: int  #: p of a projected row
    confidence: float
    classes: tuple[ClassReport, ...]
    covariances: tuple[CovarianceReport, ...]  #: one, or one for each class
    #: of columns, the worst first, at most a thousand; "good" covariances have good pairs only
    pairs: tuple[PairReport, ...]
    num_pairs: int  #: how many there are
    open_signs: int  #: in how many of them noise alone could have given the correlation its sign
    histograms: tuple[HistogramReport, ...]  #: of the columns that have one
    unmodelled: tuple[str, ...]  #: columns without a histogram, which are Gaussian and moved inside their bounds
    eigenvalues: FloatArray  #: of the pooled covariance, descending
    warnings: tuple[str, ...]  #: read these first
    notes: tuple[str, ...]  #: what no number here says
    model_digest: str  #: hash of the release

    def lines(self) -> list[tuple[str, str, float, str]]:
        """Return part, name, relative error and verdict of everything that was judged."""
        found = [("class", one.level, one.mean_error, one.verdict) for one in self.classes]
        found += [("covariance", one.level, one.relative_error, one.verdict) for one in self.covariances]
        found += [("pair", f"{p.first}, {p.second}", p.error, p.verdict) for p in self.pairs[:_SHOWN_PAIRS]]
        return found + [("histogram", one.column, one.total_variation, one.verdict) for one in self.histograms]

    def table(self) -> Table:
        """Return one line for each judged part."""
        return Table(
            title="What to expect of synthetic rows",
            columns=("part", "name", "relative_error", "verdict"),
            rows=self.lines(),
            figures={"": self._figure},
        )

    def in_words(self) -> str:
        """Return what can be said of each part, the worst pairs of columns first."""
        said = [f"{part} {name}: {verdict}".replace("  ", " ") for part, name, _, verdict in self.lines()]
        pairs = f"{self.open_signs} of {self.num_pairs} correlations may have either sign." if self.num_pairs else ""
        return f"What to expect of synthetic rows, {clients(self.num_clients)}. {listed(said)}. {pairs}".rstrip()

    def _figure(self) -> Figure:
        """Return the worst pairs: each released correlation, and how far that of the rows may be from it."""
        marks = [
            Mark(
                f"{one.first}, {one.second}",
                one.correlation,
                (one.correlation - one.error, one.correlation + one.error),
            )
            for one in self.pairs[:_SHOWN_PAIRS]
        ]
        return intervals(marks, "Worst pairs of columns in synthetic rows", "correlation, and its reach in 95 %")

    def summary(self, privacy: str | None = None) -> str:
        """Return the verdicts as a text, with the promise of all rounds; `privacy`, of one release, is not said."""
        del privacy
        lines = [f"{part:<11}{name:<24}{error:>9.3g}  {verdict}" for part, name, error, verdict in self.lines()]
        if self.num_pairs:
            lines.append(f"Pairs: {self.num_pairs}, the worst first; the sign is open in {self.open_signs}.")
        lines.append(str(self.promise))
        lines += [f"Note: {note}." for note in self.notes]
        lines += [f"Warning: {warning}." for warning in self.warnings]
        return "\n".join(lines) + "\n"


def fidelity(
    model: GaussianModel, confidence: float = 0.95, *, drawn: Mapping[str, ColumnArray] | None = None
) -> FidelityReport:
    """Report on a model from public numbers alone.

    `model` is made by `fit`. `drawn` holds rows of the model by name, each column of shape `(n,)`, if there are some
    already (see `judge_pairs`).
    """
    check_confidence(confidence)
    release = model.release
    columns = zip(release.histogram_features, release.histograms, strict=True)
    histograms = tuple(_histogram(model, feature.name, cells) for feature, cells in columns if cells.size)
    pairs = judge_pairs(model, drawn)
    notes = [GAUSSIAN_NOTE, MONOTONE_NOTE, _clipping_note(model)]
    if release.dimension < release.num_coordinates:
        notes.append(OUTSIDE_NOTE.format(p=release.dimension, m=release.num_coordinates))
    return FidelityReport(
        promise=release.promise,
        num_clients=release.num_clients,
        coordinates=release.num_coordinates,
        dimension=release.dimension,
        confidence=float(confidence),
        classes=_classes(model, confidence),
        covariances=_covariances(model, pairs.worst[0].error if pairs.worst else 0.0),
        pairs=pairs.worst,
        num_pairs=pairs.count,
        open_signs=pairs.open_signs,
        histograms=histograms,
        unmodelled=tuple(f.name for f in release.histogram_features if not f.cells),
        eigenvalues=np.linalg.eigvalsh(model.covariance)[::-1].astype(np.float64),
        warnings=(WARNING, *model.warnings),
        notes=tuple(notes),
        model_digest=model.digest,
    )


def weaknesses(model: GaussianModel, drawn: Mapping[str, ColumnArray] | None = None) -> tuple[str, ...]:
    """Return what goes with every copy of the rows: the parts that noise has drowned, and signs that it leaves open.

    `drawn` has columns of shape `(n,)` (see `fidelity`).
    """
    report = fidelity(model, drawn=drawn)
    drowned = ("mostly noise", "not usable")
    said = [f"{part} {name}".strip() for part, name, _, verdict in report.lines() if any(w in verdict for w in drowned)]
    found = [f"weak: mostly noise ({', '.join(said)})"] if said else []
    opened = [f"{pair.first} and {pair.second}" for pair in report.pairs if pair.sign_open]
    if opened:
        named = "; ".join(opened[:_SHOWN_PAIRS]) + ("; .." if len(opened) > _SHOWN_PAIRS else "")
        found.append(f"the sign of {report.open_signs} of {report.num_pairs} correlations is open: {named}")
    return tuple(found)


def _clipping_note(model: GaussianModel) -> str:
    release = model.release
    shapes = [(len(f.levels), 0 if f.kind == "real" else round(f.upper - f.lower) + 1) for f in release.features]
    share = NormLaw.of_shapes(shapes).clipped_share(release.radius, release.dimension)
    return CLIPPING_NOTE.format(tau=release.radius, share=share)


def _classes(model: GaussianModel, confidence: float) -> tuple[ClassReport, ...]:
    release = model.release
    levels = release.levels or ("",)
    reach, found = quantile(confidence), []
    errors = mean_error(model).tolist()
    for number, level in enumerate(levels):
        count, sd = float(release.counts[number]), release.noise.count
        share = float(model.weights[number])
        verdict = "left out: its count cannot be told from noise" if share == 0 else f"mean {word(errors[number])}"
        interval = count_interval(count, sd, reach)
        found.append(ClassReport(level, count, sd, interval, share, errors[number], verdict))
    return tuple(found)


def _covariances(model: GaussianModel, worst: float) -> tuple[CovarianceReport, ...]:
    release = model.release
    levels = release.levels if len(model.repairs) > 1 else ("",)
    found = []
    for number, (level, repaired) in enumerate(zip(levels, model.repairs, strict=True)):
        count = release.num_clients if len(levels) == 1 else float(model.counts[number])
        size = release.size
        found.append(
            CovarianceReport(
                level=level,
                entry_sd=release.noise.product / count,
                mean_variance=float(np.trace(repaired.matrix)) / size,
                relative_error=repaired.relative_error,
                kept=repaired.kept,
                floored_share=repaired.floored / size,
                verdict=_covariance_words(repaired.kept, max(worst, repaired.relative_error), repaired.floored / size),
            )
        )
    return tuple(found)


def _histogram(model: GaussianModel, column: str, cells: FloatArray) -> HistogramReport:
    noise = model.release.noise.cell
    sd = noise / rows_in_cells(cells, model.release.num_clients, noise)
    # Half the sum of |noise| over all cells; for Laplace noise of the same deviation it is a little less.
    variation = cells.size * sd * math.sqrt(2 / math.pi) / 2
    return HistogramReport(column, cells.size, sd, min(1.0, variation), f"histogram {word(variation)}")


def _covariance_words(kept: float, error: float, floored: float) -> str:
    if kept == 0:
        return "covariance not usable: shrunk to equal variances"
    words = f"covariance {word(error)}"
    return words if floored < 0.5 else f"{words}; most directions lie below the noise"
