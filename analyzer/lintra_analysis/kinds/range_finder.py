"""`range_finder`: products of all columns with projected ones, for very many columns."""

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import ClassVar, Literal

from pydantic import Field

from lintra_analysis.kinds.clip_count import clip_count_deviation
from lintra_analysis.kinds.context import CalibrationContext
from lintra_analysis.kinds.kind import Kind, row_bound_warnings
from lintra_analysis.kinds.options import MechanismSpecification, Number, SpecPart
from lintra_analysis.kinds.plausibility import of_range
from lintra_analysis.kinds.prediction import Expected
from lintra_analysis.kinds.released_parts import Earlier, clipped_rows, number_of_rows, scaled_columns
from lintra_analysis.kinds.two_rounds import HALF, claim_of_part
from lintra_analysis.releases.column_sums import Totals
from lintra_analysis.releases.range_sums import RangeSums, TargetProducts
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.encoding.documents import Real, fraction, real
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import Column, Name, Schema
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.range_finder import MAX_BITS, MAX_TARGETS, RangeFinder, Target
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import Task

COLUMNS_OF_A_RANGE = 500
"""From here on a range finder is planned beside all products, whose reports take more than a megabyte."""

FEW_COLUMNS = 2500
USUAL_RANK, RANK_OF_MANY = 64, 32

USUAL_UNCLIPPED = 0.95
"""The part of all draws of W in which a row of full length has its projection left as it is."""

UNCLIPPED_FOR_INTERVALS = 0.999
"""The same where intervals are wanted of columns that are not centred: most rows then share one direction."""

OMEGA_SEED_BYTES = 32

_SIX_DIGITS_UP = Context(prec=6, rounding=ROUND_CEILING)


class TargetSpecification(SpecPart):
    """A column whose products with all others are released; more `bits` make them finer and all else coarser."""

    column: Name
    bits: int | None = Field(
        default=None,
        ge=0,
        le=8,
        strict=True,
        description="a target counts 2^bits times; if not given, as often as makes all else at most 6 % noisier",
    )


class RangeFinderSpecification(MechanismSpecification):
    """Second moments of very many columns, one side projected to `rank` numbers by public signs.

    Without `rank` it is 64 up to 2,500 columns and 32 above, at most half of them. `projected_bound` is where
    projections are clipped; it follows from the row bound, and is wider with `intervals`, which are wanted of
    variances of columns that are not centred. `targets` are columns that a ridge regression shall explain. A positive
    `intercept` releases sums of columns, `trace` the squared norm.
    """

    kind: Literal["range_finder"]
    takes_contributors: ClassVar[bool] = True
    takes_floor: ClassVar[bool] = True
    takes_proofs: ClassVar[bool] = True
    rank: int | None = Field(default=None, ge=1, le=256, strict=True)
    projected_bound: Number | None = None
    intervals: bool = Field(default=False, strict=True)
    intercept: Number = "0"
    targets: list[TargetSpecification] = Field(default=[], max_length=MAX_TARGETS)
    trace: bool = Field(default=False, strict=True)
    rounds: Literal[1, 2] = Field(
        default=1, description="2 for products along the directions that this task finds, by a task that follows it"
    )

    @property
    def num_rounds(self) -> int:
        """Return 1 or 2."""
        return self.rounds

    @property
    def first_share(self) -> Real | None:
        """Return the part of mu^2 that the first of two rounds has: half of it."""
        return HALF if self.rounds == 2 else None

    def defaults(self, claim: Claim, columns: Sequence[Column], row_bound: Real | None) -> dict[str, object]:
        """Return the rank, the bound of projections, an intercept, and the trace where it is free."""
        d = len(Schema(tuple(columns), indicators=True).encoded)
        rank = self.rank or usual_rank(d)
        if row_bound is None:
            return {"rank": rank}
        found: dict[str, object] = {"rank": rank, "projected_bound": self.bound_of_projections(row_bound, d)}
        found["intercept"] = proposed_intercept(row_bound)
        return found | ({"trace": True} if claim.neighbours == "replace-one" else {})

    def bound_of_projections(self, row_bound: Real, num_columns: int) -> Real:
        """Return where projections are clipped: as given, or so that few rows of full length are."""
        unclipped = UNCLIPPED_FOR_INTERVALS if self.intervals else USUAL_UNCLIPPED
        rank = self.rank or usual_rank(num_columns)
        return self.projected_bound or usual_projected_bound(row_bound, num_columns, rank, unclipped)


def build(context: CalibrationContext[RangeFinderSpecification]) -> Measurement:
    """Return the range finder with signs drawn anew; of two rounds with half of the promise."""
    options, given = context.options, context.uncalibrated("range_finder")
    encoded = Schema(tuple(context.columns), indicators=True).encoded
    fields = {
        "rank": options.rank or usual_rank(len(encoded)),
        "projected_bound": options.bound_of_projections(str(given["row_bound"]), len(encoded)),
        "omega_seed": base64url(context.random_bytes(OMEGA_SEED_BYTES)),
        "targets": tuple(_target(target, encoded) for target in options.targets),
        "intercept": _intercept(context),
        "trace": options.trace,
    }
    claim = claim_of_part(context.claim, 0.5) if options.rounds == 2 else context.claim
    plain = RangeFinder.model_validate(given | fields)
    bits = usual_bits(plain)
    targets = [
        target if given.bits is not None else target.model_copy(update={"bits": bits})
        for given, target in zip(options.targets, plain.targets, strict=True)
    ]
    return context.measurement(plain.model_copy(update={"targets": tuple(targets)}), claim)


def _intercept(context: CalibrationContext[RangeFinderSpecification]) -> Real:
    """Return the constant as given, or what is proposed where organisations count their rows with noise."""
    given, who, bound = context.options.intercept, context.contributors, context.row_bound
    if who is not None and who.count == "noisy" and fraction(given) == 0 and bound is not None:
        return proposed_intercept(bound)
    return given


def usual_rank(num_columns: int) -> int:
    """Return r where nobody asks for one: 64 up to 2,500 columns, 32 above, and at most half of them.

    More is never worse for what is found; it is a matter of bytes.
    """
    return max(1, min(USUAL_RANK if num_columns <= FEW_COLUMNS else RANK_OF_MANY, num_columns // 2))


def usual_projected_bound(row_bound: Real, num_columns: int, rank: int, unclipped: float = USUAL_UNCLIPPED) -> Real:
    """Return C so that a row of full length is left as it is with a chance of `unclipped` over W; in six digits.

    `row_bound` is B; `num_columns` is d. `rank` is r, at most d/2; `unclipped` is between 0 and 1.

    |W^T x|^2 / |x|^2 is d/r times a Beta(r/2, (d-r)/2) variable for a random frame (docs/proofs/joint.md#joint,
    Theorem J5), and close to it for signs.

    Raises InvalidTaskError if the rank is out of range.
    """
    from scipy.special import betaincinv

    if not 1 <= 2 * rank <= num_columns:
        raise InvalidTaskError(f"rank {rank} does not lie between 1 and half of {num_columns} columns")
    longest = float(betaincinv(rank / 2, (num_columns - rank) / 2, unclipped)) * num_columns / rank
    return real(f"{float(fraction(row_bound)) * math.sqrt(longest):.6g}")


def usual_bits(mechanism: RangeFinder) -> int:
    """Return g for all targets: the largest with which they are together at most an eighth of the projected row.

    With k targets, the largest of them M, that is k 4^g min(M, B)^2 at most r C^2 / (8 4^h): 6 % more noise.
    """
    widest = max((fraction(target.bound) for target in mechanism.targets), default=Fraction(0))
    longest = min(widest, fraction(mechanism.row_bound))
    room = mechanism.rank * fraction(mechanism.projected_bound) ** 2 / (8 * 4**mechanism.halvings)
    held = len(mechanism.targets) * longest**2
    return max((g for g in range(MAX_BITS + 1) if 0 < held * 4**g <= room), default=0)


def proposed_intercept(row_bound: Real) -> Real:
    """Return the constant that is proposed where means may not lie at the centres: a quarter of the norm bound.

    It makes all noise about 2 % larger; sums of columns then have four times the noise of a product over B.
    """
    return real(f"{float(fraction(row_bound)) / 4:.4g}")


def _target(given: TargetSpecification, columns: Sequence[Column]) -> Target:
    """Return a target with the number of its column and the largest value that its bounds allow, rounded up."""
    names = [column.name for column in columns]
    if given.column not in names:
        raise InvalidTaskError(
            f"mechanism.targets: there is no column {given.column!r}; a category is named by one of its levels, as in "
            "'sex[female]'"
        )
    number = names.index(given.column)
    column = columns[number]
    farthest = max(abs(fraction(end) - fraction(column.center)) for end in (column.lower, column.upper))
    widest = farthest / fraction(column.scale)
    bound = real(_SIX_DIGITS_UP.divide(Decimal(widest.numerator), Decimal(widest.denominator)))
    return Target(column=number, bound=bound, bits=given.bits or 0)


def predict(context: CalibrationContext[RangeFinderSpecification], mechanism: RangeFinder) -> Expected:
    """Predict the error of projected products, of sums and of products with targets.

    A direction with the eigenvalue lam of the sum of products is seen if lam is above s_E sqrt(d), s_E the deviation
    of a projected product; sin^2 of its angle is then about s_E^2 d / lam^2.
    """
    clients, layout = context.claim.min_clients, context.measured(mechanism).layout
    products = layout.deviation("products", clients)
    deviations = {"projected product": products[-1]}
    if mechanism.has_intercept:
        deviations["sum"] = products[0]
        deviations["mean"] = deviations["sum"] / clients
    if mechanism.targets:
        deviations["product with the target"] = products[int(mechanism.has_intercept)]
    if mechanism.trace:
        deviations["trace"] = layout.deviation("trace", clients)
    deviations = {name: float(value) for name, value in deviations.items()}
    return Expected(
        float(layout.own_deviation("products")[-1]),
        deviations | clip_count_deviation(context.measured(mechanism), clients),
    )


def read(task: Task, mechanism: RangeFinder, sketch: IntArray, row_counts: IntArray, earlier: Earlier) -> Release:
    """Return products of all columns with projected ones, from a sketch of shape `(1, w)`."""
    del earlier
    columns, num_reports = scaled_columns(task), int(row_counts.sum())
    num_rows = number_of_rows(task, sketch, row_counts)
    found = mechanism.unpack(task.measurement.decode(sketch))
    layout = task.measurement.layout
    deviations = layout.deviation("products", num_reports)[: mechanism.width]
    own = deviations[int(mechanism.has_intercept) :]
    row_bound, clipped = float(fraction(mechanism.row_bound)), clipped_rows(task, sketch, row_counts, shrunk_only=False)
    sums = None
    if found.sums is not None:
        sums = Totals(columns, found.sums, float(deviations[0]), num_rows, row_bound, clipped)
    step = 2.0**-mechanism.fraction_bits
    products = RangeSums(
        columns=columns,
        values=found.projected,
        projection=mechanism.signs(task.num_columns) / math.sqrt(mechanism.rank),
        noise_sd=float(deviations[-1]),
        num_clients=num_rows,
        row_bound=row_bound,
        projected_bound=float(fraction(mechanism.projected_bound)),
        sums=sums,
        targets=tuple(
            TargetProducts(target.column, (bound >> target.bits) * step, values, float(sd))
            for target, bound, values, sd in zip(
                mechanism.targets, mechanism.anchor_bounds, found.targets.T, own, strict=False
            )
        ),
        trace=found.trace,
        trace_sd=float(layout.deviation("trace", num_reports)) if mechanism.trace else 0.0,
        clipped=clipped,
    )
    return Release(range_sums=products, totals=sums)


def warnings(task: Task, mechanism: RangeFinder) -> list[str]:
    """Warn of a bound that no row can reach, and of a report that fills a server's disk."""
    found = row_bound_warnings(task, mechanism)
    held = 8 * task.num_words // (task.num_servers if task.share_form == "spread" else 1)
    waiting = held * task.max_clients
    if task.share_form == "uniform":
        found.append(
            f"a report has {task.num_words} words: with share_form 'spread' each server stores one in "
            f"{task.num_servers} of them"
        )
    if waiting > 10**9:
        found.append(
            f"servers keep reports until the release: {waiting / 10**9:.3g} GB at a server that stores words, if "
            f"{task.max_clients} clients report"
        )
    return found


KIND = Kind(RangeFinder, RangeFinderSpecification, build, predict, read, warnings, totals=of_range)
