"""Judges the correlation of each pair of columns from released numbers and the law of their noise.

The noise N of a covariance is symmetric and isotropic, so that <N, A> has variance 2 s^2 |A|_F^2 for symmetric A, s
the deviation of an entry off the diagonal; a correlation is such a product to first order.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lintra_analysis.releases.clipped import MANY
from lintra_analysis.releases.features import ColumnArray, starts_of
from lintra_analysis.synthetic.model import GaussianModel
from lintra_analysis.synthetic.sampling import drawn_columns
from lintra_protocol.crypto.ring import FloatArray, IntArray

SIGN_REACH = 1.959963984540054
"""A correlation within so many deviations of its noise may have either sign: at 0 it is named open in 95 %."""

MOST_PAIRS = 1000
"""So many pairs, the worst, stand in a report; the rest is counted."""

DRAWN_ROWS = 4_000
"""So many rows are drawn to see what becomes of a correlation: by chance it is off by .016."""

GOOD, ROUGH = 0.1, 0.3
"""Errors up to these are called good and rough; what is beyond is called weak, and beyond 1 mostly noise."""


@dataclass(frozen=True)
class PairReport:
    """Two columns and their correlation, the strongest of their coordinates if one is a category of several levels."""

    first: str
    second: str  #: another
    correlation: float  #: as released, before it is shrunk; it may lie beyond 1
    noise_error: float  #: its deviation by noise, to first order
    #: root mean square of what the frame loses, averaged over frames; 0 if nothing is projected
    projection_error: float
    #: how far the rows' own correlation lies from the released one: columns that are not Gaussian, a repaired
    #: covariance, pair tables
    bend: float
    #: what the rows' correlation is within, in 95 % of releases: the bend, and 1.96 deviations of the rest
    error: float
    sign_open: bool  #: whether the noise alone could have given the correlation its sign
    verdict: str


def word(error: float) -> str:
    """Return what a relative error, or that of a correlation, is called."""
    if error <= GOOD:
        return "good"
    return "rough" if error <= ROUGH else "weak: mostly noise" if error > 1 else "weak"


@dataclass(frozen=True)
class PairTables:
    """All pairs of columns, of which the worst are told one by one."""

    worst: tuple[PairReport, ...]  #: the largest expected error first, at most `MOST_PAIRS`
    count: int  #: how many pairs there are
    open_signs: int  #: in how many of them the sign is open


def judge_pairs(model: GaussianModel, drawn: Mapping[str, ColumnArray] | None = None) -> PairTables:
    """Judge all pairs of columns, a numeric label among them.

    What the model makes of a correlation is seen in rows that are drawn from it. Rows of different classes are taken
    together, as in a table of synthetic rows. The classes' counts and means are taken as they are; of a covariance the
    noise counts that `repair` was given, means included. `model` is made by `fit`. `drawn` holds rows of it by name,
    columns of shape `(n,)`, if there are some; fewer than `DRAWN_ROWS` are not used.
    """
    names, owners, axes = _axes(model)
    if len(names) < 2:
        return PairTables((), 0, 0)
    values, noise = _correlations(model, axes)
    lost = _lost(model, values)
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    clear = _blocks(np.abs(values) - SIGN_REACH * np.hypot(noise, lost), starts, np.maximum)
    high, low = _blocks(values, starts, np.maximum), _blocks(values, starts, np.minimum)
    strongest, deviations = np.where(high >= -low, high, low), _blocks(noise, starts, np.maximum)
    first, second = np.triu_indices(len(names), 1)
    bends = _blocks(np.abs(_rows_correlations(model, drawn) - np.clip(values, -1, 1)), starts, np.maximum)
    opened = clear[first, second] <= 0
    errors = (bends + SIGN_REACH * np.hypot(deviations, lost))[first, second]
    # Of rows that many clips changed the release tells the correlation, not of the rows that people have.
    clipped = model.release.clipped
    shrunk = clipped is not None and clipped.upper_share > MANY
    found = []
    for pair in np.argsort(-errors, kind="stable")[:MOST_PAIRS].tolist():
        one, two, error, is_open = int(first[pair]), int(second[pair]), float(errors[pair]), bool(opened[pair])
        called = "rough: of rows that clipping changed" if shrunk and error <= ROUGH else word(error)
        said = f"correlation {called}" + ("; its sign is open" if is_open else "")
        correlation, deviation, bend = (float(part[one, two]) for part in (strongest, deviations, bends))
        found.append(PairReport(names[one], names[two], correlation, deviation, lost, bend, error, is_open, said))
    return PairTables(tuple(found), len(errors), int(opened.sum()))


def _rows_correlations(model: GaussianModel, drawn: Mapping[str, ColumnArray] | None) -> FloatArray:
    """Return the correlations of rows drawn from the model, in the coordinates of a mapped row, `(M, M)`."""
    columns = drawn
    if columns is None or len(next(iter(columns.values()))) < DRAWN_ROWS:
        columns = drawn_columns(model, DRAWN_ROWS, bytes(32), "columns")
    mapped = np.hstack([feature.mapped(columns[feature.name]) for feature in model.release.histogram_features])
    centred = mapped - mapped.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=0)
    unit = np.divide(centred, lengths, out=np.zeros_like(centred), where=lengths > 0)
    correlations: FloatArray = unit.T @ unit
    return correlations


def _blocks(matrix: FloatArray, starts: IntArray, over: np.ufunc) -> FloatArray:
    """Return one number for each pair of columns from those of their coordinates."""
    found: FloatArray = over.reduceat(over.reduceat(matrix, starts, axis=0), starts, axis=1)
    return found


def _axes(model: GaussianModel) -> tuple[list[str], IntArray, FloatArray]:
    """Return the columns, which column each coordinate is of, and each coordinate's direction among the P, `(M, P)`."""
    release = model.release
    names = [feature.name for feature in release.features]
    starts = starts_of(release.features)
    widths = np.diff(starts)
    owners = np.repeat(np.arange(len(names)), widths)
    axes = np.zeros((release.num_coordinates, release.size))
    axes[:, : release.dimension] = np.eye(release.num_coordinates) if release.frame is None else release.frame
    if release.label_features:
        names.append(release.label_features[0].name)
        owners = np.append(owners, len(names) - 1)
        axes = np.vstack([axes, np.eye(release.size)[-1]])
    return names, owners, axes


def _correlations(model: GaussianModel, axes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return correlations of the coordinates as released, and their deviations by noise; both `(M, M)`."""
    release, size = model.release, model.release.size
    weights = np.ones(1) if len(model.repairs) == 1 else model.weights
    raw = sum(weight * repaired.raw for weight, repaired in zip(weights, model.repairs, strict=True))
    entry = sum(weight**2 * repaired.noise for weight, repaired in zip(weights, model.repairs, strict=True))
    variance = float(entry) / (size * (size + 1))
    centred = model.means - model.weights @ model.means
    between = np.einsum("k,ki,kj->ij", model.weights, centred, centred)
    repaired_total = np.asarray(model.covariance + between)
    lengths = np.einsum("ij,ij->i", axes, axes)
    scale = np.einsum("ij,jk,ik->i", axes, repaired_total, axes)
    if release.frame is not None:
        level = float(np.trace(model.covariance[: release.dimension, : release.dimension])) / release.dimension
        outside = 1 - lengths
        outside[release.num_coordinates :] = 0
        scale = scale + level * np.maximum(outside, 0)
    roots = np.sqrt(np.maximum(scale, 2.0**-60))
    values = (axes @ (np.asarray(raw) + between) @ axes.T) / np.outer(roots, roots)
    # A = (u v^T + v u^T) / 2 - r (u u^T + v v^T) / 2 with u, v scaled axes; its squared norm from inner products.
    inner = (axes @ axes.T) / np.outer(roots, roots)
    own, r = np.diag(inner), np.clip(values, -1, 1)
    products = np.outer(own, own)
    squared = (
        (products + inner**2) / 2
        - r * inner * (own[:, np.newaxis] + own)
        + r**2 / 4 * (own[:, np.newaxis] ** 2 + own**2 + 2 * inner**2)
    )
    return values, np.sqrt(np.maximum(2 * variance * squared, 0.0))


def _lost(model: GaussianModel, values: FloatArray) -> float:
    """Return the root mean square of the correlation that a frame loses in a pair, averaged over frames and pairs.

    A uniform frame keeps about (p/m)^2 of the squared deviations from equal variances.
    """
    release = model.release
    if release.frame is None or release.dimension == release.num_coordinates:
        return 0.0
    m, kept = release.num_coordinates, release.dimension / release.num_coordinates
    inside = values[:m, :m] - np.diag(np.diag(values)[:m])
    return float(min(1.0, np.sqrt((1 / kept**2 - 1) * np.square(inside).sum() / max(1, m * (m - 1)))))
