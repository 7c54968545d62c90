"""Asking for `sum`."""

from typing import Literal

from lintra_analysis.asked.asking import Asking, Circumstances, MechanismSpecification
from lintra_protocol.mechanisms.sum import Sum
from lintra_protocol.privacy.statement import Claim


class SumSpecification(MechanismSpecification):
    """The sum of the rows."""

    kind: Literal["sum"]

    def wanted(self, circumstances: Circumstances) -> tuple[Claim, Sum]:
        """Return the sum with the row bound that was given."""
        mechanism, claim = Sum.model_validate(circumstances.uncalibrated(self.kind)), circumstances.claim
        return claim, circumstances.calibrated(mechanism, claim)


ASKING = Asking(Sum, SumSpecification)
