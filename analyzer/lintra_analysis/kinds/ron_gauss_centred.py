"""`ron_gauss_centred`: the second of two rounds, products about the means that the first has released.

The first round is an ordinary `ron_gauss` task at the largest weight of the means, at which its products cost nothing.
Both promises follow from the total before any row exists, and add up to it.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np

from lintra_analysis.kinds.clip_count import clip_count_deviation
from lintra_analysis.kinds.context import CalibrationContext
from lintra_analysis.kinds.kind import Kind, no_warnings
from lintra_analysis.kinds.prediction import Expected, predict_moments
from lintra_analysis.kinds.projected_columns import frame_of, label_of, promise_of
from lintra_analysis.kinds.released_parts import Earlier, clipped_rows, number_of_rows
from lintra_analysis.kinds.ron_gauss import products_trace, released_deviations
from lintra_analysis.kinds.two_rounds import claim_with_mu, mu_of_rounds
from lintra_analysis.releases.centred_products import CentredProducts
from lintra_analysis.releases.joint_sums import ProjectedSums
from lintra_analysis.releases.release import Release
from lintra_analysis.synthetic.model import RELIABLE, GaussianModel, fit
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.documents import Real, fraction, real
from lintra_protocol.errors import InvalidAnalysisError, InvalidTaskError
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms.joint_rows import FEATURE_BITS
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.noise_law import MIN_SIGMA
from lintra_protocol.mechanisms.ron_gauss import RonGauss
from lintra_protocol.mechanisms.ron_gauss_centred import MAX_CENTRE, RonGaussCentred
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.task import Task

FIRST_KIND = "ron_gauss"

ROOM = 2.0
"""Squared bound of the second round over the rows' mean squared distance to their class's mean."""

_KEPT = ("dimension", "frame_seed", "frame_digest", "label", "levels", "covariance")

_OF_A_ROUND = ("epsilon", "epsilon_alone")

Centers = tuple[tuple[int, ...], ...]


def build(context: CalibrationContext[Any]) -> Measurement:
    """Return the second round that follows a first one.

    Its bound and centres are taken from the first's release. Where there is none yet, a plan takes the first round's
    bound, the largest that it can have, and centres in the middle. Raises InvalidTaskError if the first task is no
    `ron_gauss`, or noise drowned what the second needs of it.
    """
    first, total = context.first, context.claim
    if first is None or first.mechanism.kind != FIRST_KIND:
        kind = context.options.kind if first is None else first.mechanism.kind
        raise InvalidTaskError(f"the first of two rounds is a {FIRST_KIND} task, not {kind}")
    if total.model_copy(update={name: getattr(first.claim, name) for name in _OF_A_ROUND}) != first.claim:
        raise InvalidTaskError("the first round promised to other neighbours, cohorts or coalitions, or another delta")
    left = mu_of_rounds(total) ** 2 - first.mu**2
    left_alone = mu_of_rounds(total.alone) ** 2 - first.mu_alone**2
    if min(left, left_alone) <= 0:
        raise InvalidTaskError("the first round has used up the whole promise")
    if first.row_bound is not None and first.row_bound <= 0:
        raise InvalidTaskError(f"row_bound: must be positive, got {first.row_bound}")
    mechanism: RonGauss = first.mechanism
    if first.release is None:
        bound, centers = mechanism.row_bound, ((0,) * mechanism.num_coordinates,) * mechanism.num_classes
    else:
        bound, centers = _of_release(first.release)
    if first.row_bound is not None:
        bound = real(f"{float(first.row_bound):.6g}")
    plain = RonGaussCentred(
        row_bound=bound,
        fraction_bits=0,
        sigma=MIN_SIGMA,
        after=first.task_id,
        centers=centers,
        **{name: getattr(mechanism, name) for name in _KEPT},
    )
    return context.measurement(plain, claim_with_mu(total, sqrt(left), sqrt(left_alone)))


def _of_release(release: Release) -> tuple[Real, Centers]:
    """Return the bound and the centres of a second round from what the first has released."""
    try:
        sums, second = release.need("joint_sums"), release.centred
    except InvalidAnalysisError as error:
        raise InvalidTaskError(error.detail) from None
    if second is not None:
        raise InvalidTaskError("the first round is not a released ron_gauss task; release it first")
    model = fit(sums)
    return real(f"{centred_bound(sums, model):.6g}"), _centers(sums, model)


def centred_bound(release: ProjectedSums, model: GaussianModel) -> float:
    """Return tau of the second round: tau^2 is `ROOM` times the mean squared distance that the first released.

    Two deviations of that number's noise are added. A numeric label of 1 is half of tau, so tau^2 is what the features
    need over 1 - `ROOM` y^2 / 4, y^2 the label's variance. Never more than the bound of the first round.
    """
    covariance, noise, n = model.covariance, release.noise, release.num_clients
    dimension = release.dimension
    of_means = float(np.square(release.noise.sum) * 4 * np.square(model.means).sum()) / n**2
    deviation = sqrt(dimension * noise.diagonal**2 / n**2 + of_means)
    needed = ROOM * (max(float(np.trace(covariance[:dimension, :dimension])), 0.0) + 2 * deviation)
    if release.label_features:
        variance = min(max(float(covariance[-1, -1]) / release.label_scale**2, 0.0), 1.0)
        needed /= 1 - ROOM * variance / 4
    return min(sqrt(needed), release.radius)


def _centers(release: ProjectedSums, model: GaussianModel) -> Centers:
    """Return the means in steps of 2^-15, a numeric label's as a part of its range."""
    means = model.means.copy()
    if release.label_features:
        means[:, -1] /= release.label_scale
        if abs(means[0, -1]) > 1:
            raise InvalidTaskError("noise moved the label's mean beyond its bounds; more clients are needed")
    elif (release.counts < RELIABLE * release.noise.count).any():
        raise InvalidTaskError(
            "a class of the first round cannot be told from noise, and has no mean to take products about; leave "
            "that level out, or merge it with another"
        )
    steps = np.rint(means * 2**FEATURE_BITS)
    if np.abs(steps).max() > MAX_CENTRE:
        raise InvalidTaskError("a mean of the first round is drowned by its noise; more clients are needed")
    return tuple(tuple(int(entry) for entry in row) for row in steps)


def predict(context: CalibrationContext[Any], mechanism: RonGaussCentred) -> Expected:
    """Predict counts, means and histograms of the first round, and products of the second."""
    clients, size = context.claim.min_clients, mechanism.num_coordinates
    layout = context.measured(mechanism).layout
    own, product = (layout.product_deviations("products", draws)[0] for draws in (1, clients))
    deviations = {} if context.first is None else released_deviations(context.first.mechanism, clients, context.setting)
    deviations |= {"product": product, "square": sqrt(2) * product}
    deviations |= clip_count_deviation(context.measured(mechanism), clients)
    error = mechanism.num_blocks * product**2 * size * (size + 1)
    trace = None if context.first is None else products_trace(context, context.first.mechanism)
    return Expected(own, deviations, predict_moments(context, error, trace=trace, columns=size))


def centred_products(
    mechanism: RonGaussCentred,
    columns: Sequence[Column],
    total: IntArray,
    num_rows: int,
    promise: PrivacyStatement,
    num_draws: int | None = None,
) -> CentredProducts:
    """Return a noisy sum of a second round's reports in the units of mapped rows.

    `mechanism` says whose vector was added up; `columns` are those of the task, the label among them. `total` is the
    noisy sum, shape `(1, w)`, in ring units; `num_rows` is n, how many rows were added. `num_draws` says how often one
    client's noise is in the sum; n if not given.
    """
    layout = mechanism.layout(len(columns), Setting())
    products = mechanism.unpack(mechanism.decode(layout, total))
    no_cells = (0,) * len(columns)
    units = np.full(mechanism.num_coordinates, 2.0**-mechanism.fraction_bits)
    if mechanism.has_numeric_label:
        units[-1] = 1 / mechanism.label_bound
    return CentredProducts(
        names=tuple(column.name for number, column in enumerate(columns) if number != mechanism.label),
        label=label_of(mechanism, columns, no_cells),
        frame=frame_of(mechanism),
        centers=mechanism.steps_of_centers() * units,
        products=products if mechanism.covariance == "per_class" else products[0],
        product_sd=layout.product_deviations("products", num_draws or num_rows)[0],
        num_clients=num_rows,
        radius=float(fraction(mechanism.row_bound)),
        first_task=mechanism.after,
        promise=promise,
        grid=float(units.max()),
    )


def read(task: Task, mechanism: RonGaussCentred, sketch: IntArray, row_counts: IntArray, earlier: Earlier) -> Release:
    """Return products about class means from a sketch of shape `(1, w)`, beside the first round's release if given."""
    num_reports = int(row_counts.sum())
    num_rows = number_of_rows(task, sketch, row_counts)
    promise = promise_of(task.privacy(num_reports), mechanism.kind, num_rows)
    second = centred_products(mechanism, task.columns, sketch, num_rows, promise, num_reports)
    second = replace(second, clipped=clipped_rows(task, sketch, row_counts, shrunk_only=False))
    first = earlier(mechanism.after)
    return Release(joint_sums=None if first is None else first.need("joint_sums"), centred=second)


KIND = Kind(RonGaussCentred, None, build, predict, read, no_warnings, follows=FIRST_KIND)
