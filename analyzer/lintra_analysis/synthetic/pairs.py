"""How far the relation of each pair of columns can be believed: from released numbers and the law of their noise.

The noise N of a covariance is symmetric and isotropic, so that <N, A> has variance 2 s^2 |A|_F^2 for symmetric A, s
the deviation of an entry off the diagonal; a correlation is such a product to first order.
"""

from dataclasses import dataclass

import numpy as np

from lintra_analysis.releases.features import starts_of
from lintra_analysis.synthetic.model import GaussianModel
from lintra_protocol.ring import FloatArray

SIGN_REACH = 1.959963984540054
"""A correlation within so many deviations of its noise may have either sign: at 0 it is named open in 95 %."""

MOST_PAIRS = 1000
"""So many pairs, the worst, stand in a report; the rest is counted."""

GOOD, ROUGH = 0.1, 0.3
"""Errors up to these are called good and rough; what is beyond is called weak, and beyond 1 mostly noise."""


@dataclass(frozen=True)
class PairReport:
    """Two columns and their correlation, the strongest of their coordinates if one is a category of several levels.

    Attributes:
        first: a column.
        second: another.
        correlation: as released, before it is shrunk; it may lie beyond 1.
        noise_error: its deviation by noise, to first order.
        projection_error: root mean square of what the frame loses, averaged over frames; 0 if nothing is projected.
        error: both together.
        sign_open: whether the noise alone could have given the correlation its sign.
        verdict: in words.
    """

    first: str
    second: str
    correlation: float
    noise_error: float
    projection_error: float
    error: float
    sign_open: bool
    verdict: str


def word(error: float) -> str:
    """Return what a relative error, or that of a correlation, is called."""
    if error <= GOOD:
        return "good"
    return "rough" if error <= ROUGH else "weak: mostly noise" if error > 1 else "weak"


def pair_reports(model: GaussianModel) -> tuple[PairReport, ...]:
    """Return all pairs of columns, a numeric label among them, the largest expected error first.

    Rows of different classes are taken together, as in a table of synthetic rows. The classes' counts and means are
    taken as they are; of a covariance the noise counts that `repair` was given, means included.
    """
    names, owners, axes = _axes(model)
    if len(names) < 2:
        return ()
    values, noise = _correlations(model, axes)
    lost = _lost(model, values)
    total = np.hypot(noise, lost)
    found = []
    starts = np.concatenate([np.flatnonzero(np.diff(owners, prepend=-1)), [len(owners)]])
    for one in range(len(names)):
        for two in range(one + 1, len(names)):
            block = np.s_[starts[one] : starts[one + 1], starts[two] : starts[two + 1]]
            value, own, error = (matrix[block].ravel() for matrix in (values, noise, total))
            worst, strongest = int(np.argmax(error)), int(np.argmax(np.abs(value)))
            opened = bool(np.all(np.abs(value) <= SIGN_REACH * error))
            said = f"correlation {word(float(error[worst]))}" + ("; its sign is open" if opened else "")
            correlation, deviation = float(value[strongest]), float(own[worst])
            pair = (names[one], names[two], correlation, deviation, lost, float(error[worst]), opened, said)
            found.append(PairReport(*pair))
    return tuple(sorted(found, key=lambda pair: -pair.error))


def _axes(model: GaussianModel) -> tuple[list[str], np.ndarray, FloatArray]:
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
