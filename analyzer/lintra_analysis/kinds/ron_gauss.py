"""Asking for `ron_gauss`, in one round or in two."""

from collections.abc import Sequence
from math import sqrt
from typing import ClassVar, Literal

from pydantic import Field

from lintra_analysis.kinds.clip_count import with_clip_count
from lintra_analysis.kinds.kind import Asking, Circumstances, MechanismSpecification, Number
from lintra_analysis.kinds.planning.ron_gauss import JointQuestion, plan_ron_gauss, useful_dimension, usual_radius
from lintra_analysis.kinds.ron_gauss_centred import second_of_two
from lintra_analysis.kinds.two_rounds import MEANS_ONLY, first_round
from lintra_analysis.releases.row_norms import NormLaw
from lintra_protocol.encoding.documents import Real, fraction, real
from lintra_protocol.fields.schema import Column, Name
from lintra_protocol.mechanisms.ron_gauss import RonGauss
from lintra_protocol.privacy.statement import Claim
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

    def _question(self, row_bound: Real | None) -> JointQuestion:
        return JointQuestion(
            radius=None if row_bound is None else fraction(row_bound),
            **self.model_dump(exclude={"kind", "clip_count_weight", "rounds"}),
        )

    def chosen(self, claim: Claim, columns: Sequence[Column], row_bound: Real | None) -> dict[str, object]:
        """Return dimension and cells, and the radius before rows are projected, which follows from the encoding."""
        question = self._question(row_bound)
        planned = plan_ron_gauss(claim, tuple(columns), question, bytes(FRAME_SEED_BYTES), make_frame=False)
        radius = real(f"{usual_radius(columns, question):.6g}") if row_bound is None else row_bound
        return {"dimension": planned.dimension, "bins": self.bins, "row_bound": radius}

    def wanted(self, circumstances: Circumstances) -> tuple[Claim, RonGauss]:
        """Return the only round, or the first of two with its part of the promise."""
        claim, question = circumstances.claim, self._question(circumstances.row_bound)
        seed = circumstances.random_bytes(FRAME_SEED_BYTES)
        who = circumstances.contributors
        mechanism = plan_ron_gauss(claim, tuple(circumstances.columns), question, seed, contributors=who)
        if self.rounds == 2:
            claim, mechanism = first_round(claim, mechanism)
        mechanism = with_clip_count(mechanism, claim.neighbours, circumstances.clip_weight(self.clip_count_weight))
        return claim, circumstances.calibrated(mechanism, claim)


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


ASKING = Asking(RonGauss, RonGaussSpecification, _warnings, second=second_of_two)
