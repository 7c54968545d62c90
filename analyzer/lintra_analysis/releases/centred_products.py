"""The second of two rounds: noisy products about the class means that a first release gave, and the model of both.

About their means rows are short, so that products need less noise; counts, means and histograms are the first's.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from lintra_analysis.releases.columns import Column
from lintra_analysis.releases.features import ClassLabel, Label, NumericLabel
from lintra_analysis.releases.joint_sums import ProjectedSums, Promise
from lintra_analysis.synthetic.model import GaussianModel, fit
from lintra_analysis.synthetic.repair import repair
from lintra_protocol.canonical import base64url, domain_hash
from lintra_protocol.errors import InvalidAnalysisError, InvalidReleaseError
from lintra_protocol.privacy.discrete import discrete_epsilon
from lintra_protocol.privacy.statement import MAX_SLACK
from lintra_protocol.ring import FloatArray

CENTER_STEP = 2.0**-14
"""Centres may differ so much from the first release's means, and by a step of the grid: both are roundings."""


@dataclass(frozen=True, eq=False, repr=False)
class CentredProducts:
    """The noisy sum of u u^T, u a projected row less the centre of its class.

    Attributes:
        names: of the columns, the label's not among them.
        label: as in the first release; `scale` of a numeric one is this round's own.
        frame: as in the first release.
        centers: shape `(K, P)`, what was subtracted from mapped rows; from a numeric label as a part of its range.
        products: shape `(P, P)`, or `(K, P, P)`.
        product_sd: deviation of the noise off the diagonal; on it sqrt(2) times that.
        num_clients: n.
        radius: the norm that no centred row exceeds.
        first_task: identifier of the first round's task.
        promise: of this round alone.
        grid: the step that centres were rounded to.
    """

    names: tuple[str, ...]
    label: Label | None
    frame: FloatArray | None
    centers: FloatArray
    products: FloatArray
    product_sd: float
    num_clients: int
    radius: float
    first_task: str
    promise: Promise
    grid: float = 0.0

    def __post_init__(self) -> None:
        classes = len(self.label.levels) if isinstance(self.label, ClassLabel) else 1
        size = self.centers.shape[-1]
        if self.centers.shape != (classes, size) or self.products.shape not in ((size, size), (classes, size, size)):
            raise InvalidReleaseError(
                f"products of shape {self.products.shape} do not fit {self.centers.shape} centres"
            )
        if not (np.isfinite(self.centers).all() and np.isfinite(self.products).all()):
            raise InvalidReleaseError("a release holds finite numbers only")
        if self.num_clients < 1 or not 0 <= self.product_sd < math.inf:
            raise InvalidReleaseError("a release has at least 1 client and a finite noise")

    def __repr__(self) -> str:
        return f"CentredProducts(classes={len(self.centers)}, num_clients={self.num_clients})"

    @property
    def columns(self) -> tuple[Column, ...]:
        """Refuse, as `second_moment`."""
        self.second_moment()

    def restrict(self, names: Sequence[str]) -> NoReturn:
        """Refuse, as `second_moment`."""
        self.second_moment()

    def second_moment(self) -> NoReturn:
        """Refuse: products about class means are no second moments about one point.

        Raises:
            InvalidAnalysisError: always.
        """
        raise InvalidAnalysisError(
            "the second of two rounds holds products about class means and nothing else; "
            "fit_two_rounds makes a model of it and the first release"
        )

    def table(self) -> tuple[list[str], FloatArray]:
        """Return a name for every released number, and the numbers, shape `(w,)`."""
        blocks = self.products.reshape(-1, *self.products.shape[-2:])
        first, second = np.triu_indices(self.products.shape[-1])
        names = [
            f"product[{k}] h{i + 1}*h{j + 1}" for k in range(len(blocks)) for i, j in zip(first, second, strict=True)
        ]
        return names, blocks[:, first, second].ravel()


def fit_two_rounds(first: ProjectedSums, second: CentredProducts) -> GaussianModel:
    """Fit the model to two releases about the same people: means from the first, covariances from the second.

    A centre is off by the noise of the first release, whose mean square is taken off the diagonal. The promise adds up:
    mu^2 is the sum of both. The warnings say that the bootstrap does not know of two rounds.

    Raises:
        InvalidAnalysisError: the releases do not belong together.
    """
    model = fit(first)
    _require_pair(first, second, model)
    size = first.size
    scale = np.ones(size)
    if isinstance(first.label, NumericLabel) and isinstance(second.label, NumericLabel):
        scale[-1] = first.label.scale / second.label.scale
    # The second round may have had other people missing than the first.
    ratio = first.num_clients / second.num_clients
    products = second.products * np.outer(scale, scale) * ratio
    own = products.ndim == 3
    spread = first.noise.sum**2 / model.counts**2
    offsets = _offsets(first, second, model)
    repairs = []
    for number in range(len(model.counts) if own else 1):
        block, count = (products[number], model.counts[number]) if own else (products, float(first.num_clients))
        shares = np.eye(len(model.counts))[number] if own else model.counts / first.num_clients
        off = float(shares @ spread) * np.eye(size) + np.einsum("k,ki,kj->ij", shares, offsets, offsets)
        # Entry (i, j) has deviation product_sd s_i s_j, on the diagonal sqrt(2) times that.
        weights = np.outer(scale, scale) ** 2
        noise = (ratio * second.product_sd) ** 2 * float(weights.sum() + np.trace(weights))
        noise = noise / float(count) ** 2 + size * (size + 1) * float(shares**2 @ spread**2)
        repairs.append(repair(block / float(count) - off, noise))
    kept = [warning for warning in model.warnings if not warning.startswith("covariance")]
    digest = base64url(domain_hash("two rounds", first.digest.encode(), np.ascontiguousarray(products).tobytes()))
    return replace(
        model,
        release=replace(first, promise=_together(first.promise, second.promise)),
        repairs=tuple(repairs),
        warnings=(*kept, "two rounds: the bootstrap and the predicted errors of entries are the first round's"),
        second_digest=digest,
    )


def _together(first: Promise, second: Promise) -> Promise:
    if first.mu is None or second.mu is None:
        raise InvalidAnalysisError("two rounds add up where both are Gaussian")
    mu, delta = math.hypot(first.mu, second.mu) * (1 + 1e-15), max(first.delta, second.delta)
    spent = f"mu {first.mu:.6g} and {second.mu:.6g}"
    return Promise(
        epsilon=discrete_epsilon(mu, delta, 2 * MAX_SLACK),
        delta=delta,
        neighbours=first.neighbours,
        mechanism=f"{first.mechanism}, then {second.mechanism}",
        note=f"two rounds about the same people, {spent}; first: {first.note}; second: {second.note}",
        mu=mu,
    )


def _offsets(first: ProjectedSums, second: CentredProducts, model: GaussianModel) -> FloatArray:
    """Return the first release's means less the centres, shape `(K, P)`, in the first's units."""
    centers = second.centers.copy()
    if isinstance(first.label, NumericLabel):
        centers[:, -1] *= first.label.scale
    if model.means.shape != centers.shape:
        raise InvalidAnalysisError(f"centres of shape {centers.shape} do not fit means of {model.means.shape}")
    offsets: FloatArray = model.means - centers
    return offsets


def _meaning(label: Label | None) -> tuple[object, ...]:
    """Return what a label is in either round; scale and cells are each round's own."""
    if isinstance(label, NumericLabel):
        return label.name, label.feature.kind, label.feature.lower, label.feature.upper
    return () if label is None else (label.name, *label.levels)


def _require_pair(first: ProjectedSums, second: CentredProducts, model: GaussianModel) -> None:
    """Refuse two releases that are not two rounds."""
    names = tuple(feature.name for feature in first.features)
    labels = [_meaning(label) for label in (first.label, second.label)]
    same_frame = (first.frame is None) == (second.frame is None)
    if first.frame is not None and second.frame is not None:
        same_frame = np.array_equal(first.frame, second.frame)
    if names != second.names or labels[0] != labels[1] or not same_frame:
        raise InvalidAnalysisError("the two releases have not the same columns, label and frame")
    if first.promise.neighbours != second.promise.neighbours:
        raise InvalidAnalysisError("the two releases promise to different neighbours")
    if np.abs(_offsets(first, second, model)).max() > CENTER_STEP + second.grid:
        raise InvalidAnalysisError("the second release was not taken about the means of the first")
