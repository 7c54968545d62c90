"""From what all servers froze to what was accepted of it: whoever holds their check shares finds it again.

The analyzer does so before it asks for verdicts, a third party long after the release.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lintra_protocol.canonical import base64url, parse_base64url
from lintra_protocol.check_messages import CheckShare, Verdict
from lintra_protocol.errors import CohortConflictError
from lintra_protocol.messages import Cohort, Inventory, Signed
from lintra_protocol.report_ids import ReportIds
from lintra_protocol.rules import check_seed, verify_cohorts
from lintra_protocol.task import Task
from lintra_protocol.verdicts import (
    Read,
    check_accepted,
    judge,
    parameters_of,
    verdict_of,
    verify_check_shares,
    verify_verdicts,
)
from lintra_protocol.verification.points import check_points


@dataclass(frozen=True)
class FrozenBatch:
    """What was frozen, as the check shares name it.

    Attributes:
        cohort: what all servers froze; the servers' own differ in server and nonce only.
        seed: the check seed.
        report_ids: of the cohort.
    """

    task: Task
    batch: int
    inventories: Sequence[Signed[Inventory]]
    cohort: Cohort
    seed: bytes
    report_ids: ReportIds = field(repr=False)

    @classmethod
    def of(
        cls,
        task: Task,
        batch: int,
        inventories: Sequence[Signed[Inventory]],
        cohorts: Sequence[Signed[Cohort]],
        report_ids: ReportIds,
    ) -> "FrozenBatch":
        """Check what the servers froze (see `verify_cohorts` for errors)."""
        cohort = verify_cohorts(task, batch, cohorts, inventories)
        nonces = [parse_base64url(signed.message.nonce) for signed in cohorts]
        seed = check_seed(task, batch, parse_base64url(cohort.root), nonces, inventories[0].message.first)
        return cls(task, batch, inventories, cohort, seed, report_ids)

    @property
    def body_bytes(self) -> int:
        """Return the length of the body of a check share."""
        return self.cohort.count * parameters_of(self.task).check_bytes


@dataclass(frozen=True)
class Judgement:
    """Which reports of a cohort were accepted, computed here from all check shares.

    Attributes:
        accepted: their identifiers.
        rejected: how many were not.
        check_shares: of all servers.
    """

    frozen: FrozenBatch
    accepted: ReportIds = field(repr=False)
    rejected: int
    check_shares: Sequence[CheckShare] = field(repr=False)

    def verified(self, verdicts: Sequence[Signed[Verdict]]) -> list[bytes]:
        """Check that all servers came to this verdict; return the nonces of the matrix.

        Raises:
            ChecksMismatchError, UnauthorizedError, InvalidMessageError: see `verify_verdicts`.
        """
        frozen = self.frozen
        own = verdict_of(frozen.task, frozen.batch, 0, self.accepted, self.rejected, self.check_shares, bytes(32))
        return verify_verdicts(frozen.task, frozen.batch, verdicts, frozen.inventories, own)


def judgement_of(
    frozen: FrozenBatch, signed: Sequence[Signed[CheckShare]], bodies: Callable[[Sequence[CheckShare]], Sequence[Read]]
) -> Judgement:
    """Add up the check shares of all servers (R15, and R9 again).

    Args:
        frozen: what they are of.
        signed: one of each server, in server order.
        bodies: opens the bodies of check shares whose signatures were checked, each from its beginning.

    Raises:
        ChecksMismatchError, UnauthorizedError, InvalidMessageError: a server signed something else, or a body is not
            the one that it signed.
        TooManyRejectedError: more reports failed than the task allows.
        CohortTooSmallError, RowUnderfilledError, FalseClaimError: too few are left.
    """
    shares = verify_check_shares(frozen.task, frozen.batch, frozen.cohort, frozen.seed, signed)
    rejected = judge(frozen.task, shares, check_points(frozen.seed), bodies(shares))
    check_accepted(frozen.task, frozen.cohort.count, len(rejected))
    return Judgement(frozen, frozen.report_ids.without(rejected), len(rejected), shares)


def require_frozen(agreed: Cohort, report_ids: ReportIds) -> None:
    """Check that what the servers froze is what their inventories have in common.

    Raises:
        CohortConflictError: it is not.
    """
    if (agreed.root, agreed.count) != (base64url(report_ids.root), len(report_ids)):
        raise CohortConflictError("the servers froze another cohort than their inventories have in common")
