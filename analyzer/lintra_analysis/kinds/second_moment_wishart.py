"""Asking for `second_moment_wishart`."""

from typing import Literal

from lintra_analysis.kinds.clip_count import with_clip_count
from lintra_analysis.kinds.kind import Asking, Circumstances, MechanismSpecification
from lintra_protocol.mechanisms.second_moment_wishart import WishartSecondMoment
from lintra_protocol.privacy.statement import Claim


class WishartSecondMomentSpecification(MechanismSpecification):
    """The sum of the rows' outer products and of one random example of every client."""

    kind: Literal["second_moment_wishart"]

    def wanted(self, circumstances: Circumstances) -> tuple[Claim, WishartSecondMoment]:
        """Return the sum of products with the row bound that was given."""
        claim, plain = circumstances.claim, WishartSecondMoment.model_validate(circumstances.uncalibrated(self.kind))
        mechanism = with_clip_count(plain, claim.neighbours, self.clip_count_weight)
        return claim, circumstances.calibrated(mechanism, claim)


ASKING = Asking(WishartSecondMoment, WishartSecondMomentSpecification)
