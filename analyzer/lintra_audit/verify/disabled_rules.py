"""Servers that lack one rule: the product's own server with one of its functions replaced, in a process of its own.

The product has no switch for a rule. The audit changes the server as an attacker who runs one could: it starts the same
program, and this module replaces one function before the program begins. All else stays.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.crypto.ring import IntArray, RingArray
from lintra_protocol.encoding.canonical import ByteRows, framed, parse_base64url
from lintra_protocol.messages.documents import Cohort, Inventory, Signed, TaskRecord, sign
from lintra_protocol.messages.verification import CheckShare, Verdict
from lintra_protocol.report import report
from lintra_protocol.rules import verification as verdicts
from lintra_protocol.rules.release import ReleaseMatrix, check_cohort, late_seed
from lintra_protocol.rules.verification import ChecksRequest, VerdictRequest, check_share_of
from lintra_protocol.task import Task
from lintra_protocol.transforms.base import PublicMatrix
from lintra_protocol.verification import checks, points
from lintra_protocol.verification.fields import ROOTS
from lintra_protocol.verification.parameters import Parameters
from lintra_protocol.verification.points import Points
from lintra_server.batches import gate, merged_batches
from lintra_server.batches import verification_round as judging
from lintra_server.batches.executor import Executor, Tell
from lintra_server.batches.registry import RegisteredBatch, RegisteredTask, Registry
from lintra_server.batches.verification_round import VerificationRound
from lintra_server.storage import chains
from lintra_server.storage.chains import Chains
from lintra_server.storage.marks import End, Marks
from lintra_server.storage.store import Batch, Store
from lintra_server.storage.tasks import TaskRow

Replaced = tuple[object, str, object]
"""Where a function stands, its name, and what stands there instead."""


def disable(rule: str) -> None:
    """Take a rule out of this process, for good.

    Raises ValueError if what should be replaced is not where it was, so that the rule would still be kept.
    """
    for owner, name, instead in _unlucky_points() if rule == UNLUCKY else WITHOUT[rule]():
        if not hasattr(owner, name):
            raise ValueError(f"{owner!r} has no {name}, so the rule {rule!r} would still be kept")
        setattr(owner, name, instead)


def _silent(_done: float) -> None:
    """Report no progress."""


# --- what a report has to be --------------------------------------------------------------------------------------


def _no_verdict() -> list[Replaced]:
    return [(verdicts, "accepted", lambda _parameters, shares, _points: np.ones(len(shares[0]), np.bool_))]


def _two_primes() -> list[Replaced]:
    def accepted(parameters: Parameters, shares: Sequence[ByteRows], _points: Points) -> NDArray[np.bool_]:
        passed: NDArray[np.bool_] = np.logical_and.reduce(checks.passed_in(parameters, shares)[:2], axis=0)
        return passed

    return [(verdicts, "accepted", accepted)]


def _no_root() -> list[Replaced]:
    return [(checks, "ROOTS", (0, 0, 0, 0))]


def _no_format() -> list[Replaced]:
    return [(report, "malformed", lambda _parameters, _server, payloads: np.zeros(len(payloads), np.bool_))]


# --- what a batch has to be ---------------------------------------------------------------------------------------


def _no_margin() -> list[Replaced]:
    def without_margin(task: Task, num_clients: int, num_own: int) -> object:
        return check_cohort(task.model_copy(update={"max_rejected": "0"}), num_clients, num_own)

    return [(gate, "fewest_reports", lambda task: task.claim.min_clients), (gate, "check_cohort", without_margin)]


def _no_limit() -> list[Replaced]:
    def without_limit(task: Task, count: int, num_rejected: int) -> object:
        return verdicts.check_accepted(task.model_copy(update={"max_rejected": "0.99"}), count, num_rejected)

    return [(judging, "check_accepted", without_limit), (gate, "check_accepted", without_limit)]


def _no_agreement() -> list[Replaced]:
    def nonces(
        task: Task, _batch: int, signed: Sequence[Signed[Verdict]], _inventories: object, _own: Verdict
    ) -> list[bytes]:
        said = [each.verified(entry.identity_key) for each, entry in zip(signed, task.servers, strict=True)]
        return [parse_base64url(verdict.nonce) for verdict in said]

    return [(gate, "verify_verdicts", nonces)]


def _no_body_hash() -> list[Replaced]:
    """Accept bodies without a check that they are those that were signed."""
    taken: dict[int, dict[int, bytes]] = {}
    judge = VerificationRound.judge

    def noted(
        self: VerificationRound,
        held: RegisteredBatch,
        request: VerdictRequest,
        digests: Sequence[bytes],
        tell: Tell = _silent,
    ) -> bytes:
        others = [server for server in range(held.task.num_servers) if server != held.server]
        taken[held.number] = dict(zip(others, digests, strict=True))
        return judge(self, held, request, digests, tell)

    def judged(self: VerificationRound, held: RegisteredBatch, shares: list[CheckShare], tell: Tell) -> IntArray:
        own, rows = shares[held.server], []
        self._require_body(held, own, tell)
        for share in shares:
            name = taken[held.number].get(share.server, parse_base64url(own.body))
            with self.bodies.open(name) as file:
                rows.append(np.frombuffer(file.read(self.body_bytes(held, own)), np.uint8).reshape(own.count, -1))
        seed = parse_base64url(own.check_seed)
        return np.flatnonzero(~checks.accepted(verdicts.parameters_of(held.task), rows, points.check_points(seed)))

    return [(judging, "_require_bodies", lambda _shares, _digests: None), (VerificationRound, "_judged", judged),
            (VerificationRound, "judge", noted)]  # fmt: skip


# --- what is computed once, and when ------------------------------------------------------------------------------


def unlucky_points(seed: bytes, *, skips: bool) -> Points:
    """Return check points as if the stream of a seed began with a root of -1: a chance of 2^-60.

    `skips` says whether such a point is skipped, as the rule says. Raises ValueError if the stream has no four usable
    points, which has a chance below 2^-1000.
    """
    stream = hashlib.shake_128(framed("check points", seed)).digest(256)
    found = points.first_usable(stream if skips else (2).to_bytes(8, "little") + stream)
    if found is None:
        raise ValueError("a stream of 32 words without four usable points has a chance below 2^-1000")
    return found if skips else (ROOTS[0], *found[1:])


def _unlucky_points() -> list[Replaced]:
    return [(judging, "check_points", partial(unlucky_points, skips=True))]


def _any_points() -> list[Replaced]:
    return [
        (judging, "check_points", partial(unlucky_points, skips=False)),
        (checks, "require_usable", lambda _points: None),
    ]


def _checks_again() -> list[Replaced]:
    """A second check share for whatever nonces are shown; the body that is given out is the last one's."""
    latest: dict[int, tuple[int, bytes]] = {}
    original = VerificationRound.body

    def agreed(
        _task: Task, _batch: int, cohorts: Sequence[Signed[Cohort]], _inventories: Sequence[Signed[Inventory]]
    ) -> Cohort:
        return cohorts[0].message

    def another(
        self: VerificationRound, held: RegisteredBatch, _batch: Batch, document: bytes, seed: bytes, tell: Tell
    ) -> bytes:
        share = Signed[CheckShare].from_canonical(document).message
        digest = self._compute(held, share.count, seed, tell)
        latest[held.number] = self.body_bytes(held, share), digest
        cohort = Signed[Cohort].from_canonical(self._batch(held).cohort or b"").message
        return sign(
            self._identity, check_share_of(held.task, held.batch, held.server, cohort, seed, digest)
        ).canonical()

    def body(self: VerificationRound, held: RegisteredBatch) -> tuple[int, Iterator[bytes]]:
        if held.number not in latest:
            return original(self, held)
        size, digest = latest[held.number]
        return size, self.bodies.pieces(digest)

    return [
        (judging, "verify_cohorts", agreed),
        (VerificationRound, "_same_share", another),
        (VerificationRound, "body", body),
    ]


class Remaining(PublicMatrix):
    """A matrix that was drawn for a whole cohort, of which some reports are left out afterwards."""

    def __init__(self, whole: PublicMatrix, left: IntArray) -> None:
        """Keep the columns at some ascending places."""
        self._whole, self._left = whole, left
        self.rows, self.num_clients, self.copies, self.totals = whole.rows, len(left), whole.copies, whole.totals

    def entries(self, ranks: IntArray) -> tuple[IntArray, IntArray]:
        """Return the entries of the columns that are left, in the shapes of `PublicMatrix.entries`."""
        return self._whole.entries(self._left[ranks])

    def row_counts(self) -> IntArray:
        """Return how many of the reports that are left enter each row, shape `(m,)`."""
        return np.bincount(self.entries(np.arange(self.num_clients))[0].ravel(), minlength=self.rows)


def early_matrix(task: Task, root: bytes, nonces: Sequence[bytes], count: int) -> PublicMatrix:
    """Return the matrix of a frozen cohort as everybody knows it before the verdict, where it is drawn so early."""
    return task.mechanism.public_matrix(count, late_seed(task, 0, root, nonces))


def _early_matrix() -> list[Replaced]:
    nonces: dict[int, list[bytes]] = {}
    roots: dict[int, tuple[bytes, int]] = {}
    check = VerificationRound.check

    def checked(self: VerificationRound, held: RegisteredBatch, request: ChecksRequest, tell: Tell = _silent) -> bytes:
        nonces[held.number] = [parse_base64url(signed.message.nonce) for signed in request.cohorts]
        cohort = request.cohorts[held.server].message
        roots[held.number] = parse_base64url(cohort.root), cohort.count
        return check(self, held, request, tell)

    def share_of(
        store: Store,
        executor: Executor,
        task: Task,
        server: int,
        drawn: ReleaseMatrix,
        members: Sequence[int],
        tell: Tell,
    ) -> RingArray:
        root, count = roots[members[-1]]
        left = np.delete(np.arange(count), store.rejected(members[-1]))
        matrix = Remaining(early_matrix(task, root, nonces[members[-1]], count), left)
        return merged_batches.share_of(
            store, executor, task, server, ReleaseMatrix(drawn.seed, matrix, drawn.privacy), members, tell
        )

    return [(VerificationRound, "check", checked), (gate, "share_of", share_of)]


# --- what a database says -------------------------------------------------------------------------------------------


def _believed_database() -> list[Replaced]:
    """Take definitions and rows of reports as they stand in the database."""

    def loaded(self: Registry, _task_id: str, row: TaskRow) -> RegisteredTask:
        task = Task.from_canonical(row.definition)
        server = next(i for i, each in enumerate(task.servers) if each.identity_key == self._identity.public_key)
        return RegisteredTask(row.task, task, server, sign(self._identity, TaskRecord(definition=task)).canonical())

    def end(self: Chains, batch: int) -> End:
        with self._reading() as connection:
            return chains._tail(connection, batch)

    return [(Registry, "_loaded", loaded), (Chains, "end", end), (Chains, "known", lambda *_: None),
            (Marks, "follows", lambda *_: True)]  # fmt: skip


WITHOUT: dict[str, Callable[[], list[Replaced]]] = {
    "verdict": _no_verdict,
    "four primes": _two_primes,
    "root of -1": _no_root,
    "format": _no_format,
    "margin": _no_margin,
    "limit": _no_limit,
    "agreement": _no_agreement,
    "signed bodies": _no_body_hash,
    "usable points": _any_points,
    "one check": _checks_again,
    "late matrix": _early_matrix,
    "database": _believed_database,
}
"""By the name of the rule (see `rules.RULES`): what stands in its place."""

UNLUCKY = "unlucky"
"""Not a rule: servers whose check points begin with a root of -1, which has a chance of 2^-60."""
