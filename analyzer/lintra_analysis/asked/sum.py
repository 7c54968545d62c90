"""Asking for `sum`."""

from typing import Literal

from lintra_analysis.asked.asking import Asking, Circumstances, MechanismSpecification
from lintra_analysis.planning.clip_count import with_clip_count
from lintra_protocol.mechanisms.sum import Sum
from lintra_protocol.privacy.statement import Claim


class SumSpecification(MechanismSpecification):
    """The sum of the rows."""

    kind: Literal["sum"]

    def wanted(self, circumstances: Circumstances) -> tuple[Claim, Sum]:
        """Return the sum with the row bound that was given."""
        plain, claim = Sum.model_validate(circumstances.uncalibrated(self.kind)), circumstances.claim
        mechanism = with_clip_count(plain, claim.neighbours, self.clip_count_weight)
        return claim, circumstances.calibrated(mechanism, claim)


ASKING = Asking(Sum, SumSpecification)
