"""Asking for `second_moment`."""

from typing import ClassVar, Literal

from pydantic import Field

from lintra_analysis.kinds.clip_count import with_clip_count
from lintra_analysis.kinds.kind import Asking, Circumstances, Count, MechanismSpecification, Number
from lintra_protocol.encoding.documents import fraction, real_below
from lintra_protocol.mechanisms.second_moment import SecondMoment
from lintra_protocol.privacy.statement import Claim


class SecondMomentSpecification(MechanismSpecification):
    """The sum of the rows' outer products.

    A positive `intercept` puts this constant, in normalised units, before every row: the release then holds means.
    `trace` makes the trace less noisy, at no cost; only where a row is replaced. With `count` noisy, which is usual
    where a column may be missing, rows in which a number is missing are left out; that takes an intercept, half of the
    row bound if none is given.
    """

    kind: Literal["second_moment"]
    intercept: Number = "0"
    trace: bool = Field(default=False, strict=True)
    count: Count | None = None
    takes_missing: ClassVar[bool] = True
    takes_contributors: ClassVar[bool] = True
    takes_proofs: ClassVar[bool] = True
    takes_server_noise: ClassVar[bool] = True

    def wanted(self, circumstances: Circumstances) -> tuple[Claim, SecondMoment]:
        """Return the sum of products with the row bound and the options that were given."""
        given, claim = circumstances.uncalibrated(self.kind), circumstances.claim
        count, intercept = circumstances.count(self.count), self.intercept
        who = circumstances.contributors
        counts = count == "noisy" or (who is not None and who.count == "noisy")
        if counts and fraction(intercept) == 0 and circumstances.row_bound is not None:
            intercept = real_below(fraction(circumstances.row_bound) / 2)
        plain = SecondMoment.model_validate(given | {"intercept": intercept, "trace": self.trace, "count": count})
        mechanism = with_clip_count(plain, claim.neighbours, circumstances.clip_weight(self.clip_count_weight))
        return claim, circumstances.calibrated(mechanism, claim)


ASKING = Asking(SecondMoment, SecondMomentSpecification)
