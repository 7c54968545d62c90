"""Between the cohort and the matrix of a verified task: every server checks all reports, late, and decides alone.

The analyzer carries what servers say to each other; what it carries is signed, or hashed in what is. Rule numbers are
those of docs/reference/protocol-rules.md#rules. A rule that fails raises; nothing here returns a boolean.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.canonical import base64url, domain_hash, framed, parse_base64url
from lintra_protocol.encoding.documents import Frozen
from lintra_protocol.errors import (
    ChecksMismatchError,
    CohortConflictError,
    CohortTooSmallError,
    InvalidMessageError,
    TooManyRejectedError,
)
from lintra_protocol.messages.documents import Cohort, Inventory, Signed, nonce_commitment
from lintra_protocol.messages.verification import MATRIX_NONCE, CheckShare, Verdict
from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.rules.release import check_seed, verify_cohorts
from lintra_protocol.task import Task
from lintra_protocol.verification.checks import accepted
from lintra_protocol.verification.parameters import Parameters
from lintra_protocol.verification.points import Points, check_points

BLOCK_BYTES = 1 << 20
"""Of each server's check shares that are added up at a time."""

Read = Callable[[int], bytes]
"""Returns the next bytes of a body, so many; fewer only at its end."""


class ChecksRequest(Frozen):
    """All N signed cohorts in server order: what a server wants to see before it gives out its check share."""

    cohorts: tuple[Signed[Cohort], ...]


class VerdictRequest(Frozen):
    """All N signed check shares in server order; the bodies of the other servers come behind it as bytes."""

    check_shares: tuple[Signed[CheckShare], ...]


class VerifiedAggregateRequest(Frozen):
    """All N signed verdicts in server order."""

    verdicts: tuple[Signed[Verdict], ...]


class BodyHash:
    """H("check body", body) of a body that comes in pieces, of a length that is known beforehand."""

    def __init__(self, size: int) -> None:
        """Begin with nothing of `size` bytes."""
        self._hash = hashlib.sha256(framed("check body") + size.to_bytes(8, "big"))
        self._left = size

    def add(self, piece: bytes | memoryview) -> None:
        """Take the next bytes."""
        self._left -= len(piece)
        self._hash.update(piece)

    def digest(self) -> bytes:
        """Return the hash; raise ChecksMismatchError if more or fewer bytes came."""
        if self._left:
            raise ChecksMismatchError("the body of a check share has another length")
        return self._hash.digest()


def parameters_of(task: Task) -> Parameters:
    """Return the parameters of a verified task; raise ChecksMismatchError if nobody checks the reports of this task."""
    if task.verified is None:
        raise ChecksMismatchError("this task has no verification: there is nothing to check")
    return task.verified


def verify_check_shares(
    task: Task, batch: int, cohort: Cohort, seed: bytes, signed: Sequence[Signed[CheckShare]]
) -> list[CheckShare]:
    """Check one signed check share of every server, in server order (R15).

    `seed` is the check seed that follows from it and from all nonces.

    Raises:
        InvalidMessageError: not one for each server.
        UnauthorizedError: a signature is not by that server.
        ChecksMismatchError: of another cohort, seed or shape.
    """
    if len(signed) != task.num_servers:
        raise InvalidMessageError(f"expected {task.num_servers} check shares, got {len(signed)}")
    messages = [each.verified(entry.identity_key) for each, entry in zip(signed, task.servers, strict=True)]
    for index, message in enumerate(messages):
        if message != check_share_of(task, batch, index, cohort, seed, parse_base64url(message.body)):
            raise ChecksMismatchError(f"the check share of server {index} is of another cohort, seed or shape")
    return messages


def check_share_of(task: Task, batch: int, server: int, cohort: Cohort, seed: bytes, body: bytes) -> CheckShare:
    """Describe the check shares of a cohort whose body has a hash."""
    return CheckShare(
        task_id=task.task_id,
        batch=batch,
        server=server,
        cohort_root=cohort.root,
        count=cohort.count,
        check_seed=base64url(seed),
        words=task.num_words,
        body=base64url(body),
    )


def checks_hash(check_shares: Sequence[CheckShare]) -> bytes:
    """Return H("checks", check shares): which ones a verdict comes from."""
    return domain_hash("checks", *(share.canonical() for share in check_shares))


def judge(
    task: Task,
    check_shares: Sequence[CheckShare],
    points: Points,
    bodies: Sequence[Read],
    tell: Callable[[float], None] = lambda _: None,
) -> IntArray:
    """Add up the check shares of all servers, and return which reports fail (R15).

    They are ascending places in the cohort, shape `(k,)`. Memory holds a block of each body. Nothing may be built on
    the result before this has returned: that every body is the one that its server signed shows at the end. `points`
    are those of the check seed that they name. `bodies` are those of all servers, each from its beginning. `tell` is
    told now and then how much is done, from 0 to 1. Raises ChecksMismatchError if a body is not the one that its server
    signed.
    """
    parameters, count = parameters_of(task), check_shares[0].count
    hashes = [BodyHash(count * parameters.check_bytes) for _ in bodies]
    rejected = [np.zeros(0, np.int64)]
    for start, size in _blocks(count, max(1, BLOCK_BYTES // parameters.check_bytes)):
        shares = []
        for read, own in zip(bodies, hashes, strict=True):
            piece = read(size * parameters.check_bytes)
            own.add(piece)
            if len(piece) != size * parameters.check_bytes:
                raise ChecksMismatchError("the body of a check share is cut off")
            shares.append(np.frombuffer(piece, np.uint8).reshape(size, parameters.check_bytes))
        rejected.append(start + np.flatnonzero(~accepted(parameters, shares, points)))
        tell((start + size) / count)
    for share, own in zip(check_shares, hashes, strict=True):
        if base64url(own.digest()) != share.body:
            raise ChecksMismatchError(f"the body of server {share.server} is not the one that it signed")
    return np.concatenate(rejected)


def _blocks(count: int, most: int) -> Iterator[tuple[int, int]]:
    return ((start, min(most, count - start)) for start in range(0, count, most))


def check_accepted(task: Task, count: int, num_rejected: int) -> PrivacyStatement:
    """Decide whether what was accepted of a frozen cohort may be released, and state the privacy to expect (R9 again).

    Raises TooManyRejectedError if there are more than `max_rejected`; CohortTooSmallError, RowUnderfilledError,
    FalseClaimError if too few are left.
    """
    allowed = count - task.least_accepted(count)
    if num_rejected > allowed:
        raise TooManyRejectedError(f"{num_rejected} of {count} reports failed their check; at most {allowed} may")
    left = count - num_rejected
    if left < task.claim.min_clients:
        raise CohortTooSmallError(f"{left} of at least {task.claim.min_clients} reports were accepted")
    statement = task.privacy(left)
    statement.require(task.claim)
    return statement


def verdict_of(
    task: Task,
    batch: int,
    server: int,
    accepted_ids: ReportIds,
    rejected: int,
    check_shares: Sequence[CheckShare],
    nonce: bytes,
) -> Verdict:
    """Say which reports a server accepted, and reveal its second nonce."""
    return Verdict(
        task_id=task.task_id,
        batch=batch,
        server=server,
        count=len(accepted_ids),
        root=base64url(accepted_ids.root),
        rejected=rejected,
        checks=base64url(checks_hash(check_shares)),
        nonce=base64url(nonce),
    )


def verify_verdicts(
    task: Task, batch: int, signed: Sequence[Signed[Verdict]], inventories: Sequence[Signed[Inventory]], own: Verdict
) -> list[bytes]:
    """Check that all N servers came to one verdict and revealed their second nonces (R10); return these nonces.

    `signed` is the verdicts, in server order; `inventories` are those of all servers, with the commitments to these
    nonces.

    Raises:
        InvalidMessageError: not one for each server.
        UnauthorizedError: a signature is not by that server.
        ChecksMismatchError: they do not agree, or a nonce is not the one that its inventory committed to.
    """
    if len(signed) != task.num_servers:
        raise InvalidMessageError(f"expected {task.num_servers} verdicts, got {len(signed)}")
    messages = [each.verified(entry.identity_key) for each, entry in zip(signed, task.servers, strict=True)]
    agreed = _decided(own)
    for index, (verdict, inventory) in enumerate(zip(messages, inventories, strict=True)):
        if (verdict.task_id, verdict.batch, verdict.server) != (task.task_id, batch, index):
            raise ChecksMismatchError(f"verdict {index} is of another task, batch or server")
        if _decided(verdict) != agreed:
            raise ChecksMismatchError(f"server {index} came to another verdict")
        held = inventory.message
        nonce = nonce_commitment(task, batch, parse_base64url(verdict.nonce), held.first, MATRIX_NONCE)
        if base64url(nonce) != held.matrix_nonce_commitment:
            raise ChecksMismatchError(f"server {index} revealed another nonce than it committed to")
    return [parse_base64url(verdict.nonce) for verdict in messages]


def _decided(verdict: Verdict) -> tuple[str, int, int, str]:
    return verdict.root, verdict.count, verdict.rejected, verdict.checks


@dataclass(frozen=True)
class FrozenBatch:
    """What was frozen, as the check shares name it.

    `cohort` is what all servers froze; the servers' own differ in server and nonce only.
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

    `accepted` is their identifiers; `rejected` says how many were not.
    """

    frozen: FrozenBatch
    accepted: ReportIds = field(repr=False)
    rejected: int
    check_shares: Sequence[CheckShare] = field(repr=False)

    def verified(self, verdicts: Sequence[Signed[Verdict]]) -> list[bytes]:
        """Check that all servers came to this verdict; return the nonces of the matrix.

        Raises ChecksMismatchError, UnauthorizedError or InvalidMessageError as `verify_verdicts` does.
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
    """Check that what the servers froze is what their inventories have in common, or raise CohortConflictError."""
    if (agreed.root, agreed.count) != (base64url(report_ids.root), len(report_ids)):
        raise CohortConflictError("the servers froze another cohort than their inventories have in common")
