"""Releases of projected rows made by hand: exact sums of given rows, and noise of stated deviations."""

from collections.abc import Sequence

import numpy as np

from lintra_analysis.releases.features import ClassLabel, Feature, Label, NumericLabel
from lintra_analysis.releases.joint_sums import NoiseDeviations, ProjectedSums
from lintra_protocol.privacy.statement import PrivacyStatement

PROMISE = PrivacyStatement("replace-one", 1.0, 1e-6, 0.2367, mechanism="ron_gauss", note="a test")
EXACT = NoiseDeviations(0.0, 0.0, 0.0, 0.0, 0.0, "discrete Gaussian")


def reals(count: int, cells: int = 0) -> tuple[Feature, ...]:
    return tuple(Feature(f"x{number}", "real", -1, 1, cells=cells) for number in range(count))


def numeric(name: str, lower: float, upper: float, scale: float, cells: int = 0) -> NumericLabel:
    return NumericLabel(Feature(name, "real", lower, upper, cells=cells), scale)


def isotropic(count: float, total: float, product: float, cell: float = 0.0) -> NoiseDeviations:
    return NoiseDeviations(count, total, product, 2**0.5 * product, cell, "discrete Gaussian")


def released(
    vectors: np.ndarray,
    classes: np.ndarray | None = None,
    *,
    features: Sequence[Feature] | None = None,
    label: Label | None = None,
    frame: np.ndarray | None = None,
    noise: NoiseDeviations = EXACT,
    histograms: Sequence[np.ndarray] | None = None,
    seed: int = 0,
    num_clients: int | None = None,
) -> ProjectedSums:
    """Return the noisy sums of projected rows of shape `(n, P)`, already in the units of the release."""
    rng = np.random.default_rng(seed)
    features = tuple(features or reals(vectors.shape[1] - isinstance(label, NumericLabel)))
    columns = (*features, label.feature) if isinstance(label, NumericLabel) else features
    number = len(label.levels) if isinstance(label, ClassLabel) else 1
    classes = np.zeros(len(vectors), int) if classes is None else classes
    size = vectors.shape[1]
    exact = histograms or [np.zeros(feature.cells) for feature in columns]
    member = np.eye(number)[classes]
    gauss = np.triu(rng.normal(0, 1, (size, size)))
    products = np.triu(gauss, 1) * noise.product + np.diag(np.diag(gauss)) * noise.diagonal
    products = products + np.triu(products, 1).T
    counts = member.sum(axis=0) + rng.normal(0, 1, number) * noise.count
    return ProjectedSums(
        features=features,
        label=label,
        frame=frame,
        counts=counts,
        sums=member.T @ vectors + rng.normal(0, 1, (number, size)) * noise.sum,
        products=vectors.T @ vectors + products,
        histograms=tuple(cells + rng.normal(0, 1, cells.size) * noise.cell for cells in exact),
        num_clients=num_clients or len(vectors),
        radius=float(np.linalg.norm(vectors, axis=1).max()),
        noise=noise,
        promise=PROMISE,
    )
