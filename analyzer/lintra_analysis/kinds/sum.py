"""Asking for `sum`."""

from typing import ClassVar, Literal

from lintra_analysis.kinds.clip_count import with_clip_count
from lintra_analysis.kinds.kind import Asking, Circumstances, Count, MechanismSpecification
from lintra_protocol.mechanisms.sum import Sum
from lintra_protocol.privacy.statement import Claim


class SumSpecification(MechanismSpecification):
    """The sum of the rows.

    With `count` noisy, which is usual where a column may be missing, rows in which a number is missing are left out.
    """

    kind: Literal["sum"]
    count: Count | None = None
    takes_missing: ClassVar[bool] = True
    takes_contributors: ClassVar[bool] = True
    takes_proofs: ClassVar[bool] = True
    takes_server_noise: ClassVar[bool] = True

    def wanted(self, circumstances: Circumstances) -> tuple[Claim, Sum]:
        """Return the sum with the row bound that was given."""
        count, claim = {"count": circumstances.count(self.count)}, circumstances.claim
        plain = Sum.model_validate(circumstances.uncalibrated(self.kind) | count)
        mechanism = with_clip_count(plain, claim.neighbours, circumstances.clip_weight(self.clip_count_weight))
        return claim, circumstances.calibrated(mechanism, claim)


ASKING = Asking(Sum, SumSpecification)
