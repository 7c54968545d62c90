"""Asking for `second_moment`."""

from typing import Literal

from pydantic import Field

from lintra_analysis.asked.asking import Asking, Circumstances, MechanismSpecification, Number
from lintra_analysis.planning.clip_count import with_clip_count
from lintra_protocol.mechanisms.second_moment import SecondMoment
from lintra_protocol.privacy.statement import Claim


class SecondMomentSpecification(MechanismSpecification):
    """The sum of the rows' outer products.

    A positive `intercept` puts this constant, in normalised units, before every row: the release then holds means.
    `trace` makes the trace less noisy, at no cost; only where a row is replaced.
    """

    kind: Literal["second_moment"]
    intercept: Number = "0"
    trace: bool = Field(default=False, strict=True)

    def wanted(self, circumstances: Circumstances) -> tuple[Claim, SecondMoment]:
        """Return the sum of products with the row bound and the options that were given."""
        options = {"intercept": self.intercept, "trace": self.trace}
        plain, claim = SecondMoment.model_validate(circumstances.uncalibrated(self.kind) | options), circumstances.claim
        mechanism = with_clip_count(plain, claim.neighbours, self.clip_count_weight)
        return claim, circumstances.calibrated(mechanism, claim)


ASKING = Asking(SecondMoment, SecondMomentSpecification)
