"""What an analyst asks for in a few lines, and the task that it becomes: calibrated, checked and bound by its hash."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema, model_validator

from lintra_analysis.asked.bounds import require_size
from lintra_analysis.planning.coalition import calibrated_sketch, most_rows, usual_claim
from lintra_analysis.planning.ron_gauss import JointQuestion, plan_ron_gauss, useful_dimension
from lintra_analysis.planning.two_rounds import MEANS_ONLY, first_round
from lintra_analysis.releases.columns import INTERCEPT
from lintra_protocol.canonical import base64url, canonical_json
from lintra_protocol.documents import Real, first_complaint, fraction, real, real_below
from lintra_protocol.errors import InvalidTaskError, RowUnderfilledError
from lintra_protocol.mechanisms import (
    AnyMechanism,
    Osnap,
    OsnapPublished,
    RonGauss,
    SecondMoment,
    Sum,
    WishartSecondMoment,
)
from lintra_protocol.mechanisms.base import MIN_SIGMA
from lintra_protocol.mechanisms.projected import ProjectedRows
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.statement import Claim, Neighbours, Threat
from lintra_protocol.randomness import RandomBytes
from lintra_protocol.schema import Column, Kind, Name, Schema
from lintra_protocol.sealing import HYBRID, SuiteName
from lintra_protocol.task import AnalyzerEntry, ServerEntry, Task, least_max_missing

SALT_BYTES = 32
FRAME_SEED_BYTES = 32


def _spelled(value: object) -> object:
    """Spell a JSON number as a decimal string; what is neither number nor text is left to be refused."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value
    try:
        return real(value)
    except (ValueError, ArithmeticError):
        raise ValueError("expected a number of at most 18 digits before and 40 after the point") from None


Number = Annotated[Real, BeforeValidator(_spelled), WithJsonSchema({"type": ["number", "string"]})]
"""A number, or a decimal string for those who want to choose its every digit."""


class _Asked(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ColumnSpecification(_Asked):
    """A column: its public bounds; by default its middle is the centre and half its width the scale.

    A category has `levels` instead, and a boolean needs neither.
    """

    name: Name
    lower: Number
    upper: Number
    center: Number | None = None
    scale: Number | None = None
    unit: str = ""
    kind: Kind = "real"
    levels: tuple[Name, ...] = Field(default=(), max_length=1024)

    @model_validator(mode="before")
    @classmethod
    def _bounds_of_its_kind(cls, value: object) -> object:
        """Fill in the only bounds that a boolean or a category can have; what is given is checked by `Column`."""
        if not isinstance(value, Mapping):
            return value
        if value.get("kind") == "boolean":
            return {"lower": 0, "upper": 1, **value}
        levels = value.get("levels")
        if value.get("kind") == "category" and isinstance(levels, Sequence):
            return {"lower": 0, "upper": len(levels) - 1, "center": 0, "scale": 1, **value}
        return value


class OsnapSpecification(_Asked):
    """A sketch of the rows; without `rows` their number follows from the claim (see `default_rows`).

    With `sparsity` above 1 a report enters as many rows. That tolerates larger coalitions, not more noise.
    """

    kind: Literal["osnap"]
    rows: int | None = Field(default=None, ge=2, le=2**20, strict=True)
    sparsity: int = Field(default=1, ge=1, le=64, strict=True)


class OsnapPublishedSpecification(_Asked):
    """The sketch with the published noise, for comparison: s noisy copies, entries clipped to +-`entry_bound`.

    `published_epsilon` is what equation (4) is asked for: the claim's epsilon if not given. Where that gives less
    privacy than claimed, the task is refused. `row_bound` follows from `entry_bound` and is left out.
    """

    kind: Literal["osnap_published"]
    rows: int = Field(ge=2, le=2**20, strict=True)
    sparsity: int = Field(default=1, ge=1, le=64, strict=True)
    entry_bound: Number
    published_epsilon: Number | None = None


class SumSpecification(_Asked):
    """The sum of the rows."""

    kind: Literal["sum"]


class SecondMomentSpecification(_Asked):
    """The sum of the rows' outer products.

    A positive `intercept` puts this constant, in normalised units, before every row: the release then holds means.
    `trace` makes the trace less noisy, at no cost; only where a row is replaced.
    """

    kind: Literal["second_moment"]
    intercept: Number = "0"
    trace: bool = Field(default=False, strict=True)


class WishartSecondMomentSpecification(_Asked):
    """The sum of the rows' outer products and of one random example of every client."""

    kind: Literal["second_moment_wishart"]


class RonGaussSpecification(_Asked):
    """Class counts, means, products and histograms of projected rows, for synthetic rows.

    `label` names a column: a category gives classes, a number one more coordinate. Without `dimension` it follows from
    the claim (docs/mechanisms/ron_gauss.md#dimension). `bins` cells for each real column; 0 for no histograms.
    `mean_weight` is r of that page. Of 2 `rounds` this makes the first, and the whole promise is shared by both; then
    r is as large as it may be. Here `row_bound` is the norm of mapped rows beyond which they may be shrunk; without it
    a row that is uniform between its bounds has it on average.
    """

    kind: Literal["ron_gauss"]
    label: Name | None = None
    dimension: int | None = Field(default=None, ge=1, le=2**15, strict=True)
    bins: int = Field(default=16, ge=0, le=1024, strict=True)
    covariance: Literal["pooled", "per_class"] = "pooled"
    mean_weight: Number | None = None
    rounds: Literal[1, 2] = 1


MechanismSpecification = Annotated[
    OsnapSpecification
    | OsnapPublishedSpecification
    | SumSpecification
    | SecondMomentSpecification
    | WishartSecondMomentSpecification
    | RonGaussSpecification,
    Field(discriminator="kind"),
]
Whole = Annotated[int, Field(strict=True)]


class Specification(_Asked):
    """A new task: what is collected, what is released, and what is promised."""

    purpose: str = Field(min_length=1, max_length=2000)
    columns: list[ColumnSpecification] = Field(min_length=1, max_length=2**20)
    mechanism: MechanismSpecification
    row_bound: Number | None = Field(
        default=None,
        description="L2 norm that rows are clipped to, in normalised units; not for osnap_published, optional "
        "for ron_gauss",
    )
    epsilon: Number
    delta: Number | None = Field(
        default=None, description="a millionth, or one over min_clients if that is less, if not given"
    )
    min_clients: Whole = Field(ge=2, le=2**32)
    max_clients: Whole | None = Field(default=None, description="10 times min_clients if not given")
    neighbours: Neighbours = "replace-one"
    max_corrupt_clients: Whole | None = Field(
        default=None, ge=0, description="5 % of min_clients, rounded down, if not given"
    )
    threat: Threat = "static"
    delta_coalition: Number | None = Field(
        default=None, description="half of delta for a sketch that tolerates a static coalition, else 0, if not given"
    )
    max_missing: Number | None = Field(
        default=None, description="0.25 with tokens, or twice the part of corrupt clients if that is more"
    )
    share_form: Literal["uniform", "seeded"] = "uniform"
    suite: SuiteName = HYBRID
    duration_seconds: Whole = Field(default=604_800, ge=1, le=31_536_000)
    time_precision: Whole = Field(default=3600, ge=1, le=31_536_000)
    retention: Whole = Field(default=0, ge=0, lt=2**31)

    @property
    def rounds(self) -> int:
        """Return how many tasks it takes: 1, or 2 for `ron_gauss` in two rounds."""
        return self.mechanism.rounds if isinstance(self.mechanism, RonGaussSpecification) else 1

    def canonical(self) -> bytes:
        """Return bytes that two equal specifications share."""
        return canonical_json(self.model_dump(mode="json"))


@dataclass(frozen=True)
class PublicKeys:
    """The public keys that a task names beside those of its servers, in base64url.

    Attributes:
        author: signs the task.
        identity: the analyzer's, signs its requests.
        sealing: by suite, what servers seal their sketch shares to.
    """

    author: str
    identity: str
    sealing: Mapping[SuiteName, str]


def build_task(
    specification: Specification, servers: Sequence[ServerEntry], keys: PublicKeys, now: int, random_bytes: RandomBytes
) -> Task:
    """Calibrate the mechanism, fill in keys and times, and check the result as every other party will.

    Args:
        specification: what the analyst asks for.
        servers: in the order that gives them their indices.
        keys: the analyzer's public keys.
        now: seconds since the epoch; the task begins at the start of this time unit.
        random_bytes: for the salt and, if rows are projected, the seed of their frame.

    Raises:
        InvalidTaskError: the parts do not fit together; the detail names the field.
        RowUnderfilledError: the minimum cohort leaves a row of the sketch without honest clients.
        FalseClaimError: the promise cannot be kept.
    """
    asked = specification
    try:
        claim = claim_of(asked)
        columns = tuple(_column(column) for column in asked.columns)
        max_clients = asked.max_clients or min(10 * asked.min_clients, 2**32)
        mechanism = _mechanism(asked, claim, columns, random_bytes)
        if isinstance(mechanism, RonGauss) and asked.rounds == 2:
            claim, mechanism = first_round(claim, mechanism)
        num_columns = len(Schema(columns, indicators=not mechanism.takes_levels).encoded)
        require_size(mechanism, num_columns)
        calibrated: AnyMechanism
        if isinstance(mechanism, Osnap):
            calibrated = calibrated_sketch(mechanism, claim, num_columns, max_clients)
        else:
            calibrated = mechanism.calibrated(claim, num_columns, max_clients)
        task = Task(
            salt=base64url(random_bytes(SALT_BYTES)),
            purpose=asked.purpose,
            author_key=keys.author,
            servers=tuple(servers),
            analyzer=AnalyzerEntry(identity_key=keys.identity, sealing_key=keys.sealing[asked.suite]),
            columns=columns,
            mechanism=calibrated,
            claim=claim,
            max_clients=max_clients,
            max_missing=real_below(least_max_missing(claim)) if asked.max_missing is None else asked.max_missing,
            time_precision=asked.time_precision,
            not_before=now // asked.time_precision,
            not_after=-(-(now + asked.duration_seconds) // asked.time_precision),
            share_form=asked.share_form,
            suite=asked.suite,
            retention=asked.retention,
        )
    except ValidationError as error:
        raise InvalidTaskError(first_complaint(error)) from None
    task.check()
    return task


def default_rows(claim: Claim, num_columns: int) -> int:
    """Return how many rows a sketch should have at the minimum cohort.

    m = n r^2 mu^2 / (Delta^2 d), where sketching error and noise balance (docs/analyzer.md), with r taken as the
    row bound, hence r / Delta = 1/2 where a row is replaced and 1 where it becomes the null row. Rows are then kept
    from 3 d up, and before that few enough that `CLIENTS_PER_ROW` honest clients stand behind each.
    """
    return max(2, min(max(round(balanced_rows(claim, num_columns)), 3 * num_columns), most_rows(claim)))


def balanced_rows(claim: Claim, num_columns: int) -> float:
    """Return m* of `default_rows`, before it is clamped; below 4 d a sketch says little."""
    mu = gaussian_mu(float(fraction(claim.epsilon)), claim.noise_delta)
    ratio = 4 if claim.neighbours == "replace-one" else 1
    return claim.min_clients * mu**2 / (ratio * num_columns)


def warnings_of(task: Task) -> list[str]:
    """Return what an analyst should know about a valid task before it starts, in plain words."""
    found = []
    mechanism, columns = task.mechanism, task.num_columns
    if remark := mechanism.remark(task.privacy(task.claim.min_clients)):
        found.append(remark)
    if isinstance(mechanism, Osnap):
        rows = balanced_rows(task.claim, columns)
        if rows < 4 * columns:
            found.append(
                f"sketch uninformative: {task.claim.min_clients} clients support {rows:.0f} rows at this epsilon, less "
                f"than 4 x {columns} columns; ask for second_moment instead"
            )
    farthest = task.schema_arrays.largest_norm()
    bound = float(fraction(mechanism.row_bound))
    if (
        isinstance(mechanism, RonGauss)
        and mechanism.mean_weight != MEANS_ONLY
        and mechanism.dimension > (useful := useful_dimension(task.claim, mechanism.num_blocks))
    ):
        found.append(
            f"covariance uninformative: the noise at this epsilon drowns products of more than about {useful} numbers, "
            f"here are {mechanism.dimension}; ask for a smaller dimension or more clients"
        )
    if bound > farthest * (1 + 1e-9) and not isinstance(mechanism, OsnapPublished | ProjectedRows):
        found.append(f"row_bound {bound:g} is larger than any row can be ({farthest:.6g}); it only costs noise")
    if task.suite != HYBRID:
        found.append("the classical suite does not protect against a later quantum computer")
    return found


def claim_of(asked: Specification) -> Claim:
    """Return the promise that was asked for, defaults filled in; of two rounds together, if there are two."""
    return usual_claim(
        epsilon=asked.epsilon,
        delta=asked.delta,
        neighbours=asked.neighbours,
        min_clients=asked.min_clients,
        max_corrupt_clients=asked.max_corrupt_clients,
        threat=asked.threat,
        delta_coalition=asked.delta_coalition,
        is_sketch=isinstance(asked.mechanism, OsnapSpecification | OsnapPublishedSpecification),
    )


def _column(asked: ColumnSpecification) -> Column:
    lower, upper = float(fraction(asked.lower)), float(fraction(asked.upper))
    center = asked.center if asked.center is not None else real((lower + upper) / 2)
    # Bounds in the wrong order are refused by `Column`, in its own words; here they only must not divide it.
    scale = asked.scale if asked.scale is not None else real(max((upper - lower) / 2, 0)) if upper > lower else "1"
    kept = asked.model_dump(include={"name", "lower", "upper", "unit", "kind", "levels"})
    return Column(**kept, center=center, scale=scale)


def _mechanism(
    asked: Specification, claim: Claim, columns: Sequence[Column], random_bytes: RandomBytes
) -> AnyMechanism:
    if INTERCEPT in [column.name for column in asked.columns]:
        raise InvalidTaskError(f"columns: the name {INTERCEPT!r} belongs to the intercept; choose another")
    if isinstance(asked.mechanism, OsnapPublishedSpecification):
        return _published(asked, asked.mechanism)
    if isinstance(asked.mechanism, RonGaussSpecification):
        question = JointQuestion(
            radius=None if asked.row_bound is None else fraction(asked.row_bound),
            **asked.mechanism.model_dump(exclude={"kind", "rounds"}),
        )
        return plan_ron_gauss(claim, columns, question, random_bytes(FRAME_SEED_BYTES))
    if asked.row_bound is None:
        raise InvalidTaskError(f"row_bound: needed for {asked.mechanism.kind}, the norm that rows are clipped to")
    if fraction(asked.row_bound) <= 0:
        raise InvalidTaskError(f"row_bound: must be positive, got {asked.row_bound}")
    # Calibration replaces grid and sigma; these are only the smallest valid ones.
    common = {"row_bound": asked.row_bound, "fraction_bits": 0, "sigma": MIN_SIGMA}
    if isinstance(asked.mechanism, SumSpecification):
        return Sum.model_validate(common)
    if isinstance(asked.mechanism, WishartSecondMomentSpecification):
        return WishartSecondMoment.model_validate(common)
    if isinstance(asked.mechanism, SecondMomentSpecification):
        options = {"intercept": asked.mechanism.intercept, "trace": asked.mechanism.trace}
        return SecondMoment.model_validate(common | options)
    rows = asked.mechanism.rows or default_rows(claim, len(Schema(columns, indicators=True).encoded))
    if asked.min_clients < rows:
        raise RowUnderfilledError(f"{rows} rows need at least as many clients, min_clients is {asked.min_clients}")
    return Osnap.model_validate({**common, "rows": rows, "sparsity": asked.mechanism.sparsity})


def _published(asked: Specification, wanted: OsnapPublishedSpecification) -> OsnapPublished:
    if asked.row_bound is not None:
        raise InvalidTaskError("row_bound: it follows from entry_bound and the number of columns; leave it out")
    for name, value in (("entry_bound", wanted.entry_bound), ("published_epsilon", wanted.published_epsilon)):
        if value is not None and fraction(value) <= 0:
            raise InvalidTaskError(f"mechanism.{name}: must be positive, got {value}")
    return OsnapPublished(
        fraction_bits=0,
        sigma=MIN_SIGMA,
        rows=wanted.rows,
        sparsity=wanted.sparsity,
        entry_bound=wanted.entry_bound,
        published_epsilon=wanted.published_epsilon or asked.epsilon,
    )
