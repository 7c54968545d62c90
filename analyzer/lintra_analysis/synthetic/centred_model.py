"""The model of two rounds: means from the joint sums of the first, covariances from the second's centred products."""

import math
from dataclasses import replace

import numpy as np

from lintra_analysis.releases.centred_products import CentredProducts
from lintra_analysis.releases.joint_sums import ProjectedSums
from lintra_analysis.releases.release import Release
from lintra_analysis.synthetic.model import GaussianModel, fit
from lintra_analysis.synthetic.repair import repair
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.canonical import base64url, domain_hash
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.privacy.statement import PrivacyStatement

CENTER_STEP = 2.0**-14
"""Centres may differ so much from the first release's means, and by a step of the grid: both are roundings."""


def fit_two_rounds(first: ProjectedSums, second: CentredProducts) -> GaussianModel:
    """Fit the model to two releases about the same people: means from the first, covariances from the second.

    A centre is off by the noise of the first release, whose mean square is taken off the diagonal. The promise adds up:
    mu^2 is the sum of both. The warnings say that the bootstrap does not know of two rounds.
    """
    model = fit(first)
    _require_pair(first, second, model)
    size = first.size
    scale = np.ones(size)
    if first.label is not None and second.label is not None:
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
        release=replace(
            first,
            promise=_together(first.promise, second.promise),
            clipped=Release(joint_sums=first, centred=second).clipped,
        ),
        repairs=tuple(repairs),
        warnings=(*kept, "two rounds: the bootstrap and the predicted errors of entries are the first round's"),
        second_digest=digest,
    )


def _together(first: PrivacyStatement, second: PrivacyStatement) -> PrivacyStatement:
    if not (first.mu < math.inf and second.mu < math.inf):
        raise InvalidAnalysisError("two rounds add up where both are Gaussian")
    spent = f"mu {first.mu:.6g} and {second.mu:.6g}"
    both = replace(
        first,
        delta=max(first.delta, second.delta),
        mu=math.hypot(first.mu, second.mu) * (1 + 1e-15),
        slack=(first.slack + second.slack) * (1 + 1e-15),
        delta_coalition=min(1.0, (first.delta_coalition + second.delta_coalition) * (1 + 1e-15)),
        delta_shares=min(1.0, (first.delta_shares + second.delta_shares) * (1 + 1e-15)),
        num_clients=min(first.num_clients, second.num_clients),
        honest_clients=min(first.honest_clients, second.honest_clients),
        leverage=max(first.leverage, second.leverage),
        mechanism=f"{first.mechanism}, then {second.mechanism}",
        note=f"two rounds about the same people, {spent}; first: {first.note}; second: {second.note}",
    )
    return replace(both, epsilon=both.epsilon_at(both.delta))


def _offsets(first: ProjectedSums, second: CentredProducts, model: GaussianModel) -> FloatArray:
    """Return the first release's means less the centres, shape `(K, P)`, in the first's units."""
    centers = second.centers.copy()
    centers[:, -1] *= first.label_scale
    if model.means.shape != centers.shape:
        raise InvalidAnalysisError(f"centres of shape {centers.shape} do not fit means of {model.means.shape}")
    offsets: FloatArray = model.means - centers
    return offsets


def _require_pair(first: ProjectedSums, second: CentredProducts, model: GaussianModel) -> None:
    """Refuse two releases that are not two rounds."""
    names = tuple(feature.name for feature in first.features)
    labels = [None if label is None else label.meaning for label in (first.label, second.label)]
    same_frame = (first.frame is None) == (second.frame is None)
    if first.frame is not None and second.frame is not None:
        same_frame = np.array_equal(first.frame, second.frame)
    if names != second.names or labels[0] != labels[1] or not same_frame:
        raise InvalidAnalysisError("the two releases have not the same columns, label and frame")
    if first.promise.neighbours != second.promise.neighbours:
        raise InvalidAnalysisError("the two releases promise to different neighbours")
    if np.abs(_offsets(first, second, model)).max() > CENTER_STEP + second.grid:
        raise InvalidAnalysisError("the second release was not taken about the means of the first")
