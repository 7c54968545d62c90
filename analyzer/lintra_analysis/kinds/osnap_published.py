"""Asking for `osnap_published`."""

from typing import ClassVar, Literal

from pydantic import Field

from lintra_analysis.kinds.clip_count import calibrated_counting
from lintra_analysis.kinds.kind import Asking, Circumstances, MechanismSpecification, Number, no_warnings
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms.encoder import MIN_SIGMA
from lintra_protocol.mechanisms.osnap_published import OsnapPublished, row_bound_of
from lintra_protocol.privacy.statement import Claim


class OsnapPublishedSpecification(MechanismSpecification):
    """The sketch with the published noise, for comparison: s noisy copies, entries clipped to +-`entry_bound`.

    `published_epsilon` is what equation (4) is asked for: the claim's epsilon if not given. Where that gives less
    privacy than claimed, the task is refused. `row_bound` follows from `entry_bound` and is left out. A clip counter
    cannot raise the published noise: without a weight there is one where the claim is kept with it.
    """

    kind: Literal["osnap_published"]
    rows: int = Field(ge=2, le=2**20, strict=True)
    sparsity: int = Field(default=1, ge=1, le=64, strict=True)
    entry_bound: Number
    published_epsilon: Number | None = None
    is_sketch: ClassVar[bool] = True
    takes_norm: ClassVar[bool] = False

    def wanted(self, circumstances: Circumstances) -> tuple[Claim, OsnapPublished]:
        """Return the sketch as it was published.

        Raises:
            InvalidTaskError: a row bound was asked for, or a number is not positive.
        """
        if circumstances.row_bound is not None:
            raise InvalidTaskError("row_bound: it follows from entry_bound and the number of columns; leave it out")
        for name, value in (("entry_bound", self.entry_bound), ("published_epsilon", self.published_epsilon)):
            if value is not None and fraction(value) <= 0:
                raise InvalidTaskError(f"mechanism.{name}: must be positive, got {value}")
        mechanism = OsnapPublished(
            row_bound=row_bound_of(self.entry_bound, circumstances.num_columns()),
            fraction_bits=0,
            sigma=MIN_SIGMA,
            rows=self.rows,
            sparsity=self.sparsity,
            entry_bound=self.entry_bound,
            published_epsilon=self.published_epsilon or circumstances.claim.epsilon,
        )
        claim = circumstances.claim
        return claim, calibrated_counting(
            mechanism, claim, self.clip_count_weight, lambda one: circumstances.calibrated(one, claim)
        )


ASKING = Asking(OsnapPublished, OsnapPublishedSpecification, no_warnings)
