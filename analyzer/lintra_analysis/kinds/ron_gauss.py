"""`ron_gauss`: class counts, means, products and histograms of projected rows, in one round or as the first of two."""

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from lintra_analysis.kinds.clip_count import clip_count_deviation
from lintra_analysis.kinds.context import CalibrationContext
from lintra_analysis.kinds.joint_question import JointQuestion, plan_ron_gauss, useful_dimension, usual_radius
from lintra_analysis.kinds.kind import Kind
from lintra_analysis.kinds.options import MechanismSpecification, Number
from lintra_analysis.kinds.prediction import Expected, predict_moments
from lintra_analysis.kinds.projected_columns import features_of, frame_of, label_of, promise_of
from lintra_analysis.kinds.released_parts import Earlier, clipped_rows, number_of_rows
from lintra_analysis.kinds.two_rounds import MEANS_ONLY, first_round
from lintra_analysis.releases.joint_sums import NoiseDeviations, PairTable, ProjectedSums
from lintra_analysis.releases.release import Release
from lintra_analysis.releases.row_norms import NormLaw
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.documents import Real, fraction, real
from lintra_protocol.fields.schema import Column, Name
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.ron_gauss import RonGauss
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.statement import Claim, PrivacyStatement
from lintra_protocol.task import Task

FRAME_SEED_BYTES = 32


class RonGaussSpecification(MechanismSpecification):
    """Class counts, means, products and histograms of projected rows, for synthetic rows.

    `label` names a column: a category gives classes, a number one more coordinate. Without `dimension` it follows from
    the claim (docs/reference/mechanisms/ron_gauss.md#dimension). `bins` cells for each real column; 0 for no
    histograms. `mean_weight` is r of that page. Of 2 `rounds` this makes the first, and the whole promise is shared by
    both; then r is as large as it may be. Here `row_bound` is the norm of mapped rows beyond which they may be shrunk;
    without it it follows from the encoding, so that few rows that are uniform between their bounds are.
    `pairs`, `edges` and `cells` are for what a covariance cannot say (docs/reference/mechanisms/ron_gauss.md#pairs).
    """

    kind: Literal["ron_gauss"]
    takes_missing: ClassVar[bool] = True
    takes_contributors: ClassVar[bool] = True
    takes_floor: ClassVar[bool] = True
    takes_norm: ClassVar[bool] = False
    label: Name | None = None
    dimension: int | None = Field(default=None, ge=1, le=2**15, strict=True)
    bins: int = Field(default=16, ge=0, le=1024, strict=True)
    covariance: Literal["pooled", "per_class"] = "pooled"
    mean_weight: Number | None = None
    pairs: list[tuple[Name, Name]] | Literal["rule"] = Field(
        default=[], description='pairs of columns that are counted together, or "rule" for those that a rule chooses'
    )
    pair_weight: Number | None = Field(default=None, description="1 if not given: as much as all histograms together")
    count_weight: Number | None = Field(default=None, description="1 if not given, which is free; for rare classes")
    edges: dict[Name, list[Number]] = Field(
        default={}, description="by column, where the cells of its histogram begin, the first left out"
    )
    cells: dict[Name, Literal["log"]] = Field(
        default={}, description='"log" for a column whose numbers crowd at the lower bound, as counts do'
    )
    rounds: Literal[1, 2] = 1

    @property
    def num_rounds(self) -> int:
        """Return 1 or 2."""
        return self.rounds

    def question(self, row_bound: Real | None) -> JointQuestion:
        """Return what is asked for, with the norm of mapped rows beyond which they may be clipped."""
        return JointQuestion(
            radius=None if row_bound is None else fraction(row_bound),
            **self.model_dump(exclude={"kind", "clip_count_weight", "rounding", "rounds"}),
        )

    def defaults(self, claim: Claim, columns: Sequence[Column], row_bound: Real | None) -> dict[str, object]:
        """Return dimension and cells, and the radius before rows are projected, which follows from the encoding."""
        question = self.question(row_bound)
        planned = plan_ron_gauss(claim, tuple(columns), question, bytes(FRAME_SEED_BYTES), make_frame=False)
        radius = real(f"{usual_radius(columns, question):.6g}") if row_bound is None else row_bound
        return {"dimension": planned.dimension, "bins": self.bins, "row_bound": radius}


def build(context: CalibrationContext[RonGaussSpecification]) -> Measurement:
    """Return the only round, or the first of two with its part of the promise."""
    claim = context.claim
    mechanism = plan_ron_gauss(
        claim,
        tuple(context.columns),
        context.options.question(context.row_bound),
        context.random_bytes(FRAME_SEED_BYTES),
        make_frame=context.makes_frame,
        contributors=context.contributors,
    )
    if context.options.rounds == 2:
        claim, mechanism = first_round(claim, mechanism)
    return context.measurement(mechanism, claim)


def predict(context: CalibrationContext[RonGaussSpecification], mechanism: RonGauss) -> Expected:
    """Predict the deviations of what is released, and the error of the products."""
    size, step = mechanism.num_coordinates, 2.0**-mechanism.fraction_bits
    clients = context.claim.min_clients
    deviations = released_deviations(mechanism, clients, context.setting)
    deviations |= clip_count_deviation(context.measured(mechanism), clients)
    error = mechanism.num_blocks * (deviations["product"] ** 2 * size * (size - 1) + deviations["square"] ** 2 * size)
    moments = predict_moments(context, error, trace=products_trace(context, mechanism), columns=size)
    return Expected(mechanism.sigma * step**2, deviations, moments)


def released_deviations(mechanism: RonGauss, clients: int, setting: Setting) -> dict[str, float]:
    """Return the deviations of the noise in what so many clients release."""
    law = noise_law(mechanism, clients, setting)
    deviations = {"sum": law.sum, "product": law.product, "square": law.diagonal}
    return deviations | {
        name: value for name, value in (("count", law.count), ("cell", law.cell), ("pair", law.table)) if value
    }


def products_trace(context: CalibrationContext[RonGaussSpecification], mechanism: RonGauss) -> float:
    """Return the expected trace of the products: n times the mean squared norm of a mapped row where it is projected.

    A numeric label, in units of half the radius, adds a third of a quarter of its square.
    """
    features = [column for number, column in enumerate(context.columns) if number != mechanism.label]
    projected = float(NormLaw.of_columns(features).mean) * mechanism.dimension / mechanism.num_features
    step = 2.0**-mechanism.fraction_bits
    return context.claim.min_clients * (projected + (mechanism.label_bound * step) ** 2 / 3)


def projected_sums(
    mechanism: RonGauss,
    columns: Sequence[Column],
    total: IntArray,
    num_rows: int,
    noise: NoiseDeviations,
    promise: PrivacyStatement,
) -> ProjectedSums:
    """Return a noisy sum of reports in the units of mapped rows.

    `mechanism` says whose vector was added up; `columns` are those of the task, the label among them. `total` is the
    noisy sum, shape `(1, w)`, in ring units; `num_rows` is n, how many rows were added. `noise` holds deviations of the
    whole noise (see `noise_law`); `promise` is to the people behind the rows.
    """
    parts = mechanism.unpack(mechanism.decode(mechanism.layout(len(columns), Setting()), total))
    own = iter(parts.histograms)
    by_column = [next(own) if cells else np.empty(0) for cells in mechanism.bins]
    order = [number for number in range(len(columns)) if number != mechanism.label]
    if mechanism.has_numeric_label:
        order.append(mechanism.label)
    names = [column.name for column in columns]
    tables = tuple(
        PairTable(names[one], names[two], cells.reshape(mechanism.pair_bins[one], mechanism.pair_bins[two]))
        for (one, two), cells in zip(mechanism.pairs, parts.tables, strict=True)
    )
    return ProjectedSums(
        features=features_of(mechanism, columns, mechanism.bins, mechanism.edges),
        label=label_of(mechanism, columns, mechanism.bins, mechanism.edges),
        frame=frame_of(mechanism),
        counts=np.array([float(num_rows)]) if parts.counts is None else parts.counts,
        sums=parts.sums,
        products=parts.products if mechanism.covariance == "per_class" else parts.products[0],
        histograms=tuple(by_column[number] for number in order),
        num_clients=num_rows,
        radius=float(fraction(mechanism.row_bound)),
        noise=noise,
        promise=promise,
        tables=tables,
    )


def noise_law(mechanism: RonGauss, num_draws: int, setting: Setting) -> NoiseDeviations:
    """Return the deviations of `num_draws` times one client's noise, and of a floor, in the units of mapped rows."""
    layout = mechanism.layout(len(mechanism.levels), setting)
    product, square = layout.product_deviations("products", num_draws)

    def deviation(name: str) -> float:
        return float(layout.deviation(name, num_draws)) if name in layout else 0.0

    return NoiseDeviations(
        count=deviation("counts"),
        sum=deviation("sums"),
        product=product,
        diagonal=square,
        cell=deviation("histograms"),
        law="discrete Gaussian",
        table=deviation("tables"),
    )


def read(task: Task, mechanism: RonGauss, sketch: IntArray, row_counts: IntArray, earlier: Earlier) -> Release:
    """Return the joint sums that clients and curators alike release, from a sketch of shape `(1, w)`."""
    del earlier
    num_reports = int(row_counts.sum())
    num_rows = number_of_rows(task, sketch, row_counts)
    promise = promise_of(task.privacy(num_reports), mechanism.kind, num_rows)
    noise = noise_law(mechanism, num_reports, task.setting)
    sums = projected_sums(mechanism, task.columns, sketch, num_rows, noise, promise)
    return Release(joint_sums=replace(sums, clipped=clipped_rows(task, sketch, row_counts, shrunk_only=False)))


def _warnings(task: Task, mechanism: RonGauss) -> list[str]:
    found = _radius_warnings(task, mechanism)
    useful = useful_dimension(task.claim, mechanism.num_blocks, task.contributors)
    if mechanism.mean_weight != MEANS_ONLY and mechanism.dimension > useful:
        found.append(
            f"covariance uninformative: the noise at this epsilon drowns products of more than about {useful} numbers, "
            f"here are {mechanism.dimension}; ask for a smaller dimension or more clients"
        )
    return found


def _radius_warnings(task: Task, mechanism: RonGauss) -> list[str]:
    """Warn of a radius below the root mean square norm of a uniform row, as the encoding and the frame give it."""
    features = [column for number, column in enumerate(task.columns) if number != mechanism.label]
    law = NormLaw.of_columns(features)
    tau, kept = float(fraction(mechanism.row_bound)), mechanism.dimension / mechanism.num_features
    norm = sqrt(float(law.mean) * kept)
    if tau >= norm:
        return []
    every = f"; categories alone give every row {sqrt(law.certain * kept):.4g}" if law.certain else ""
    said = (
        f"radius {tau:.4g} below the encoding's norm: a row uniform between its bounds has {norm:.4g} where it is "
        f"clipped{every}. Expected: {law.clipped_share(tau, mechanism.dimension):.0%} of such rows are clipped, which "
        "bends correlations and may turn their signs; of the real rows the share is unknown. Leave row_bound out, or "
        f"ask for {sqrt(law.planned):.4g} before projection"
    )
    return [said]


KIND = Kind(RonGauss, RonGaussSpecification, build, predict, read, _warnings)
