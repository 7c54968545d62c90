"""Asking for `range_finder`."""

from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from math import sqrt
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from lintra_analysis.kinds.clip_count import with_clip_count
from lintra_analysis.kinds.kind import (
    Asked,
    Asking,
    Circumstances,
    MechanismSpecification,
    Number,
    row_bound_warnings,
)
from lintra_analysis.kinds.planning.range_finder import (
    OMEGA_SEED_BYTES,
    UNCLIPPED_FOR_INTERVALS,
    USUAL_UNCLIPPED,
    usual_bits,
    usual_projected_bound,
    usual_rank,
)
from lintra_analysis.kinds.two_rounds import claim_with_mu, mu_of_rounds
from lintra_analysis.releases.range_sums import RangeSums
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.encoding.documents import Real, fraction, real
from lintra_protocol.errors import InvalidAnalysisError, InvalidTaskError
from lintra_protocol.fields.schema import Column, Name, Schema
from lintra_protocol.mechanisms.directions import BASIS_BITS, encode_basis
from lintra_protocol.mechanisms.encoder import MIN_SIGMA
from lintra_protocol.mechanisms.range_finder import MAX_TARGETS, RangeFinder, Target
from lintra_protocol.mechanisms.second_moment import SecondMoment
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import Task

_SIX_DIGITS_UP = Context(prec=6, rounding=ROUND_CEILING)


class TargetSpecification(Asked):
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

    def chosen(self, claim: Claim, columns: Sequence[Column], row_bound: Real | None) -> dict[str, object]:
        """Return the rank, the bound of projections, an intercept, and the trace where it is free."""
        d = len(Schema(tuple(columns), indicators=True).encoded)
        rank = self.rank or usual_rank(d)
        if row_bound is None:
            return {"rank": rank}
        found: dict[str, object] = {"rank": rank, "projected_bound": self._bound(row_bound, d)}
        found["intercept"] = proposed_intercept(row_bound)
        return found | ({"trace": True} if claim.neighbours == "replace-one" else {})

    def _bound(self, row_bound: Real, num_columns: int) -> Real:
        unclipped = UNCLIPPED_FOR_INTERVALS if self.intervals else USUAL_UNCLIPPED
        rank = self.rank or usual_rank(num_columns)
        return self.projected_bound or usual_projected_bound(row_bound, num_columns, rank, unclipped)

    def _intercept(self, circumstances: Circumstances) -> Real:
        """Return the constant as asked, or what is proposed where organisations count their rows with noise."""
        who, bound = circumstances.contributors, circumstances.row_bound
        if who is not None and who.count == "noisy" and fraction(self.intercept) == 0 and bound is not None:
            return proposed_intercept(bound)
        return self.intercept

    def wanted(self, circumstances: Circumstances) -> tuple[Claim, RangeFinder]:
        """Return the range finder with signs drawn anew."""
        given, claim = circumstances.uncalibrated(self.kind), circumstances.claim
        encoded = Schema(tuple(circumstances.columns), indicators=True).encoded
        fields = {
            "rank": self.rank or usual_rank(len(encoded)),
            "projected_bound": self._bound(str(given["row_bound"]), len(encoded)),
            "omega_seed": base64url(circumstances.random_bytes(OMEGA_SEED_BYTES)),
            "targets": tuple(_target(asked, encoded) for asked in self.targets),
            "intercept": self._intercept(circumstances),
            "trace": self.trace,
        }
        if self.rounds == 2:
            claim = claim_of_half(claim)
        plain = RangeFinder.model_validate(given | fields)
        bits = usual_bits(plain)
        targets = [
            target if asked.bits is not None else target.model_copy(update={"bits": bits})
            for asked, target in zip(self.targets, plain.targets, strict=True)
        ]
        plain = plain.model_copy(update={"targets": tuple(targets)})
        mechanism = with_clip_count(plain, claim.neighbours, circumstances.clip_weight(self.clip_count_weight))
        return claim, circumstances.calibrated(mechanism, claim)


HALF: Real = "0.5"


def claim_of_half(total: Claim) -> Claim:
    """Return what each of two rounds promises that keep a promise together: half of mu^2."""
    return claim_with_mu(total, mu_of_rounds(total) * sqrt(0.5))


def second_of_two(
    total: Claim, first: Task, mechanism: RangeFinder, release: Release, bound: Fraction | None
) -> tuple[Claim, SecondMoment]:
    """Return claim and mechanism of a second round: products along all directions of the first, and its targets.

    All r left singular vectors are taken and not only those above the noise: what the others hold is not noise alone
    (docs/reference/mechanisms/range_finder.md#second-round). The norm is that of the first round: no row is longer
    along orthonormal directions.

    Raises:
        InvalidTaskError: the release is not that of a range finder.
    """
    if bound is not None and bound <= 0:
        raise InvalidTaskError(f"row_bound: must be positive, got {bound}")
    try:
        held = release.need("range_sums")
    except InvalidAnalysisError as error:
        raise InvalidTaskError(error.detail) from None
    return claim_of_half(total), SecondMoment(
        row_bound=mechanism.row_bound if bound is None else real(f"{float(bound):.15g}"),
        fraction_bits=0,
        sigma=MIN_SIGMA,
        intercept=mechanism.intercept,
        trace=total.neighbours == "replace-one",
        basis=encode_basis(steps_along(held)),
        after=first.task_id,
        targets=tuple(target.column for target in mechanism.targets),
    )


def steps_along(release: RangeSums) -> IntArray:
    """Return orthonormal directions in steps of 2^-14, shape `(d, r)`, from the products about the means, if known.

    Targets have no part in them: a regression on directions would else explain a target by itself.
    """
    values = release.about_means()[0] if release.sums is not None else release.values
    vectors = np.linalg.svd(values, full_matrices=False)[0]
    vectors[[target.column for target in release.targets]] = 0.0
    steps: IntArray = np.rint(np.linalg.qr(vectors)[0] * 2**BASIS_BITS).astype(np.int64)
    return steps


def proposed_intercept(row_bound: Real) -> Real:
    """Return the constant that is proposed where means may not lie at the centres: a quarter of the norm bound.

    It makes all noise about 2 % larger; sums of columns then have four times the noise of a product over B.
    """
    return real(f"{float(fraction(row_bound)) / 4:.4g}")


def _target(asked: TargetSpecification, columns: Sequence[Column]) -> Target:
    """Return a target with the number of its column and the largest value that its bounds allow, rounded up."""
    names = [column.name for column in columns]
    if asked.column not in names:
        raise InvalidTaskError(
            f"mechanism.targets: there is no column {asked.column!r}; a category is named by one of its levels, as in "
            "'sex[female]'"
        )
    number = names.index(asked.column)
    column = columns[number]
    farthest = max(abs(fraction(end) - fraction(column.center)) for end in (column.lower, column.upper))
    widest = farthest / fraction(column.scale)
    bound = real(_SIX_DIGITS_UP.divide(Decimal(widest.numerator), Decimal(widest.denominator)))
    return Target(column=number, bound=bound, bits=asked.bits or 0)


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


ASKING = Asking(RangeFinder, RangeFinderSpecification, warnings, second=second_of_two)
