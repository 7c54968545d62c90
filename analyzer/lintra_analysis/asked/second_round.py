"""The second task of two rounds of `ron_gauss`, made from the first and its release."""

from fractions import Fraction

from pydantic import BaseModel, ConfigDict

from lintra_analysis.asked.asking import Number
from lintra_analysis.asked.ron_gauss_centred import require_together, second_round
from lintra_analysis.asked.specification import Specification
from lintra_analysis.asked.task import SALT_BYTES, claim_of
from lintra_analysis.planning.clip_count import with_clip_count
from lintra_analysis.releases.joint_sums import ProjectedSums
from lintra_analysis.releases.release import Release
from lintra_analysis.synthetic.model import fit
from lintra_protocol.canonical import base64url
from lintra_protocol.documents import fraction
from lintra_protocol.errors import InvalidAnalysisError, InvalidTaskError
from lintra_protocol.randomness import RandomBytes
from lintra_protocol.task import Task


class SecondRound(BaseModel):
    """What an analyst may say about a second round: the norm that rows about their class's centre are clipped to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    row_bound: Number | None = None

    @property
    def bound(self) -> Fraction | None:
        """Return the bound exactly."""
        return None if self.row_bound is None else fraction(self.row_bound)


def first_of_two(release: Release | None) -> ProjectedSums:
    """Return the joint sums of the first of two rounds.

    Raises:
        InvalidTaskError: there is no such release, or it is another mechanism's or that of a second round.
    """
    problem = InvalidTaskError("the first round is not a released ron_gauss task; release it first")
    if release is None:
        raise problem
    try:
        first, second = release.rounds()
    except InvalidAnalysisError:
        raise problem from None
    if second is not None:
        raise problem
    return first


def build_second_task(
    specification: Specification,
    first: Task,
    release: ProjectedSums,
    now: int,
    random_bytes: RandomBytes,
    row_bound: Fraction | None = None,
) -> Task:
    """Make the second of two rounds out of the first and its release; columns, servers and keys stay the same.

    Args:
        specification: what `build_task` made the first of.
        first: its task.
        release: of that task.
        now: seconds since the epoch.
        random_bytes: for the salt.
        row_bound: norm that rows about their class's centre are clipped to; without it the release gives it.

    Raises:
        InvalidTaskError: one round was asked for, or the first does not give what the second needs.
    """
    if specification.mechanism.num_rounds != 2:
        raise InvalidTaskError("this task was asked for in one round; ask for ron_gauss with 2 rounds")
    total, precision = claim_of(specification), first.time_precision
    claim, mechanism = second_round(total, first, release, fit(release), row_bound)
    mechanism = with_clip_count(mechanism, claim.neighbours, specification.mechanism.clip_count_weight)
    task = first.model_copy(
        update={
            "salt": base64url(random_bytes(SALT_BYTES)),
            "mechanism": mechanism.calibrated(claim, first.num_columns, first.max_clients),
            "claim": claim,
            "not_before": now // precision,
            "not_after": -(-(now + specification.duration_seconds) // precision),
        }
    )
    task.check()
    require_together(total, first, task)
    return task
