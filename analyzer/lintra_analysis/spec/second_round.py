"""Builds the second task of two rounds from the first one and its release."""

from fractions import Fraction

from pydantic import BaseModel, ConfigDict

from lintra_analysis.kinds.context import CalibrationContext, FirstRound
from lintra_analysis.kinds.kind import kind_that_follows
from lintra_analysis.kinds.options import Number
from lintra_analysis.kinds.two_rounds import require_together
from lintra_analysis.releases.release import Release
from lintra_analysis.spec.build_task import SALT_BYTES, claim_of
from lintra_analysis.spec.specification import Specification
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.privacy.shares_seen import claim_for_noise
from lintra_protocol.task import Task


class SecondRound(BaseModel):
    """What an analyst may say about a second round: the norm that rows about their class's centre are clipped to.

    After a range finder it is the norm that rows along its directions, with their targets, are clipped to.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    row_bound: Number | None = None

    @property
    def bound(self) -> Fraction | None:
        """Return the bound exactly."""
        return None if self.row_bound is None else fraction(self.row_bound)


def build_second_task(
    specification: Specification,
    first: Task,
    release: Release | None,
    now: int,
    random_bytes: RandomBytes,
    row_bound: Fraction | None = None,
) -> Task:
    """Make the second of two rounds out of the first and its release; columns, servers and keys stay the same.

    `specification` is what `build_task` made the first of. `release` is that of that task; None if it is not released.
    `row_bound` is the norm that rows about their class's centre, or along directions, are clipped to; without it the
    first round gives it. Raises InvalidTaskError if one round was asked for, or the first does not give what the second
    needs.
    """
    following = kind_that_follows(first.mechanism.kind)
    if following is None:
        raise InvalidTaskError(
            f"a {first.mechanism.kind} has no second round; ron_gauss, range_finder and newton_step have one"
        )
    if specification.mechanism.num_rounds != 2 and not following.chains:
        raise InvalidTaskError(f"this task was asked for in one round; ask for {first.mechanism.kind} with 2 rounds")
    if release is None:
        raise InvalidTaskError(f"the first round is not a released {first.mechanism.kind} task; release it first")
    total, precision = claim_of(specification), first.time_precision
    verified = first.verification == "norm"
    context = CalibrationContext(
        options=specification.mechanism,
        claim=claim_for_noise(total, clients_noise=first.noise != "servers") if verified else total,
        columns=first.columns,
        row_bound=None,
        max_clients=first.max_clients,
        random_bytes=random_bytes,
        num_servers=first.num_servers,
        noise=first.noise,
        contributors=first.contributors,
        first=FirstRound.of_task(first, release, row_bound),
    )
    second = following.build(context)
    task = first.model_copy(
        update={
            "salt": base64url(random_bytes(SALT_BYTES)),
            "mechanism": second.mechanism,
            "claim": first.claim if verified else second.claim,
            "not_before": now // precision,
            "not_after": -(-(now + specification.duration_seconds) // precision),
            "study": None if first.study is None else first.study.model_copy(update={"pilot": first.task_id}),
        }
    )
    task.check()
    if not following.chains:
        require_together(total, first, task)
    return task
