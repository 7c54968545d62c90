"""From the integers that a `ron_gauss` mechanism added up to `ProjectedSums`, for clients and curators alike."""

import math
from collections.abc import Sequence

import numpy as np

from lintra_analysis.releases.centred_products import CentredProducts
from lintra_analysis.releases.features import ClassLabel, Feature, Label, NumericLabel
from lintra_analysis.releases.joint_sums import NoiseLaw, ProjectedSums, Promise
from lintra_protocol.documents import fraction
from lintra_protocol.frame import FRAME_BITS
from lintra_protocol.mechanisms.ron_gauss import RonGauss
from lintra_protocol.mechanisms.ron_gauss_centred import RonGaussCentred
from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.ring import IntArray
from lintra_protocol.schema import Column


def projected_sums(
    mechanism: RonGauss, columns: Sequence[Column], total: IntArray, num_rows: int, noise: NoiseLaw, promise: Promise
) -> ProjectedSums:
    """Return a noisy sum of reports in the units of mapped rows.

    Args:
        mechanism: whose vector was added up.
        columns: of the task, the label among them.
        total: the noisy sum, shape `(1, w)`, in ring units.
        num_rows: n, how many rows were added.
        noise: deviations of the whole noise (see `noise_law`).
        promise: to the people behind the rows.
    """
    parts = mechanism.unpack(mechanism.decode(total, len(columns)))
    features, label = _columns_of(mechanism, columns)
    own = iter(parts.histograms)
    by_column = [next(own) if cells else np.empty(0) for cells in mechanism.bins]
    order = [number for number in range(len(columns)) if number != mechanism.label]
    if mechanism.has_numeric_label:
        order.append(mechanism.label)
    frame = mechanism.public_frame()
    return ProjectedSums(
        features=features,
        label=label,
        frame=None if frame is None else frame.astype(np.float64) * 2.0**-FRAME_BITS,
        counts=np.array([float(num_rows)]) if parts.counts is None else parts.counts,
        sums=parts.sums,
        products=parts.products if mechanism.covariance == "per_class" else parts.products[0],
        histograms=tuple(by_column[number] for number in order),
        num_clients=num_rows,
        radius=float(fraction(mechanism.row_bound)),
        noise=noise,
        promise=promise,
    )


def centred_products(
    mechanism: RonGaussCentred, columns: Sequence[Column], total: IntArray, num_rows: int, promise: Promise
) -> CentredProducts:
    """Return a noisy sum of a second round's reports in the units of mapped rows.

    Args:
        mechanism: whose vector was added up.
        columns: of the task, the label among them.
        total: the noisy sum, shape `(1, w)`, in ring units.
        num_rows: n, how many rows were added.
        promise: of this round.
    """
    products = mechanism.unpack(mechanism.decode(total, len(columns)))
    frame, label = mechanism.public_frame(), None if mechanism.label < 0 else columns[mechanism.label]
    units = np.full(mechanism.num_coordinates, 2.0**-mechanism.fraction_bits)
    if mechanism.has_numeric_label:
        units[-1] = 1 / mechanism.label_bound
    return CentredProducts(
        names=tuple(column.name for number, column in enumerate(columns) if number != mechanism.label),
        label=None if label is None else _label(label, 0, mechanism.label_bound * 2.0**-mechanism.fraction_bits),
        frame=None if frame is None else frame.astype(np.float64) * 2.0**-FRAME_BITS,
        centers=mechanism.steps_of_centers() * units,
        products=products if mechanism.covariance == "per_class" else products[0],
        product_sd=math.sqrt(num_rows) * mechanism.sigma * 4.0**-mechanism.fraction_bits,
        num_clients=num_rows,
        radius=float(fraction(mechanism.row_bound)),
        first_task=mechanism.after,
        promise=promise,
        grid=float(units.max()),
    )


def noise_law(mechanism: RonGauss, num_draws: int) -> NoiseLaw:
    """Return the deviations of `num_draws` times one client's discrete Gaussian noise, in the units of mapped rows."""
    own, root = mechanism.deviations, math.sqrt(num_draws)
    step = 2.0**-mechanism.fraction_bits
    return NoiseLaw(
        count=root * own.counts / mechanism.indicator if mechanism.num_classes > 1 else 0.0,
        sum=root * own.sums * step,
        product=root * own.products * step**2,
        diagonal=root * own.squares * step**2,
        cell=root * own.histograms / mechanism.indicator if any(mechanism.bins) else 0.0,
        law="discrete Gaussian",
    )


def promise_of(statement: PrivacyStatement, mechanism: str) -> Promise:
    """Return the promise of a privacy statement."""
    corrupt = statement.max_corrupt_clients
    return Promise(
        epsilon=statement.epsilon,
        delta=statement.delta,
        neighbours=statement.neighbours,
        mechanism=mechanism,
        note=(
            f"exact Gaussian differential privacy of {statement.num_clients} rows, "
            f"{statement.honest_clients} honest clients' noise counted, {corrupt} corrupt ones tolerated"
        ),
        mu=statement.mu,
    )


def _columns_of(mechanism: RonGauss, columns: Sequence[Column]) -> tuple[tuple[Feature, ...], Label | None]:
    every = [_feature(column, cells) for column, cells in zip(columns, mechanism.bins, strict=True)]
    features = tuple(feature for number, feature in enumerate(every) if number != mechanism.label)
    if mechanism.label < 0:
        return features, None
    scale = mechanism.label_bound * 2.0**-mechanism.fraction_bits
    return features, _label(columns[mechanism.label], mechanism.bins[mechanism.label], scale)


def _label(column: Column, cells: int, scale: float) -> Label:
    if column.kind == "category":
        return ClassLabel(column.name, column.levels)
    return NumericLabel(_feature(column, cells), scale)


def _feature(column: Column, cells: int) -> Feature:
    if column.kind == "category":
        return Feature(column.name, "category", levels=column.levels, cells=cells, unit=column.unit)
    return Feature(
        column.name, column.kind, float(fraction(column.lower)), float(fraction(column.upper)), (), cells, column.unit
    )
