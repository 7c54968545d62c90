"""The two steps of a verified task between cohort and release: this server's check share, and its verdict, each once.

A check share follows from the stored shares and the check seed. The server must remember for ever that it was given
out, and for which seed: two linear equations of the same shares disclose a short row (R14 of
docs/reference/protocol-rules.md#rules). So its hash is written down before it leaves; its bytes are a file that is
made again if it is lost.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from threading import Lock

from lintra_protocol.cohort.report_ids import encode_positions
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.encoding.canonical import base64url, parse_base64url
from lintra_protocol.errors import (
    ChecksMismatchError,
    CohortConflictError,
    InvalidMessageError,
    LintraError,
    UnavailableError,
    UnknownResourceError,
)
from lintra_protocol.messages.documents import Cohort, Inventory, Signed, sign
from lintra_protocol.messages.verification import MATRIX_NONCE, CheckShare, Verdict
from lintra_protocol.report.report import checks_of
from lintra_protocol.report.wire import payload_bytes
from lintra_protocol.rules.release import check_seed, verify_cohorts
from lintra_protocol.rules.verification import (
    ChecksRequest,
    VerdictRequest,
    check_accepted,
    check_share_of,
    checks_hash,
    judge,
    parameters_of,
    verdict_of,
    verify_check_shares,
)
from lintra_protocol.verification.points import check_points
from lintra_server.batches.batch_step import BatchSteps, Busy
from lintra_server.batches.executor import PART_REPORTS, Tell
from lintra_server.batches.id_lists import BatchLists, FrozenList
from lintra_server.batches.merged_batches import ranked
from lintra_server.batches.reasons import lost, not_yet, require_own
from lintra_server.batches.registry import RegisteredBatch
from lintra_server.batches.transform import blocks, runs
from lintra_server.storage.batch_states import BatchStates
from lintra_server.storage.store import Batch, Store
from lintra_server.storage.transition_log import Stepper, Values
from lintra_service.scratch import Scratch
from lintra_service.spooled_bodies import BodyFolder

CHECKED_AT_ONCE = 4096
"""Reports whose check shares are computed together: some kilobytes each, while they are."""


class VerificationRound(BatchSteps):
    """Checks the reports of verified tasks; thread-safe."""

    def __init__(
        self,
        store: Store,
        states: BatchStates,
        stepper: Stepper,
        identity: SigningKey,
        lists: BatchLists,
        bodies: BodyFolder,
        scratch: Scratch,
        busy: Busy,
    ) -> None:
        """Check the reports of one store.

        `states` says which bodies are still needed; `stepper` makes every step durable before it is told. `bodies` says
        where check shares lie, of this server and, until it has judged, of others. `scratch` says where a check share
        is computed, which goes to a file only when it was hashed. `busy` is the turns of the gate, of whose batches
        these are.
        """
        super().__init__(store, stepper, busy)
        self._states = states
        self._identity = identity
        self._lists = lists
        self.bodies = bodies
        self._scratch = scratch
        self._lock = Lock()
        self._awaited: dict[int, list[bytes]] = {}

    # --- (R14) checks ------------------------------------------------------------------------------------------

    def check(self, held: RegisteredBatch, request: ChecksRequest, tell: Tell = lambda _: None) -> bytes:
        """Return this server's signed check share of the frozen cohort, the only one there will ever be.

        `request` has the cohorts that all servers froze; `tell` is told now and then how much is done.

        Raises:
            BatchOpenError, UnknownResourceError: no cohort was frozen here yet; or nothing is verified in this task.
            AbandonedError, TooManyRejectedError: the batch was given up.
            InvalidMessageError, UnauthorizedError: the cohorts are not one of each server.
            CohortConflictError, NonceMismatchError: the servers do not agree.
        """
        # A check share leaves this server only if
        #   (1) none left for another seed, and none ever will: two points show a row;
        #   (2) every server froze the same cohort, and it is the one frozen here, so that all check the same reports;
        #   (3) the seed follows from that cohort and from every server's nonce, each committed to before the cohort;
        #   (4) that it leaves was written down first, in the journal, then here.
        self._require_verified(held)
        with self.busy[held.number]:
            self._stepper.settle()
            batch = self._batch(held)
            require_own(held, request.cohorts, batch.cohort or not_yet(batch, "cohort"))  # (2)
            cohort = verify_cohorts(held.task, held.batch, request.cohorts, self._inventories(held))  # (2), (3)
            nonces = [parse_base64url(signed.message.nonce) for signed in request.cohorts]
            seed = check_seed(held.task, held.batch, parse_base64url(cohort.root), nonces, batch.first)  # (3)
            if batch.check_share is not None:
                return self._same_share(held, batch, batch.check_share, seed, tell)  # (1)
            if batch.state != "frozen":
                raise lost(batch, "check share")
            body = self._compute(held, cohort.count, seed, tell)
            share = check_share_of(held.task, held.batch, held.server, cohort, seed, body)
            document = sign(self._identity, share).canonical()
            values: Values = {"state": "checked", "check_share": document}
            self._perform(held, "checked", "frozen", values, batch.first)  # (1), (4)
            return document

    def check_share(self, held: RegisteredBatch) -> bytes:
        """Return the signed check share that was given out.

        Raises BatchOpenError, UnknownResourceError if there is none yet; AbandonedError, TooManyRejectedError if the
        batch was given up.
        """
        batch = self._batch(held)
        return batch.check_share or not_yet(batch, "check share")

    def body(self, held: RegisteredBatch) -> tuple[int, Iterator[bytes]]:
        """Return length and pieces of the body of the check share (see `check_share` for errors).

        Raises UnknownResourceError if the batch was released, and nobody needs it any more; UnavailableError if it was
        lost; whoever asks for the checks once more makes it again.
        """
        share = self._own_share(self.check_share(held))
        size = self.body_bytes(held, share)
        if self.bodies.has(parse_base64url(share.body), size):
            return size, self.bodies.pieces(parse_base64url(share.body))
        if self._batch(held).state not in ("checked", "judged"):
            raise UnknownResourceError("the batch was released, and with it the body of its check share went")
        raise UnavailableError("the body of the check share is not here; ask for the checks once more")

    def _same_share(self, held: RegisteredBatch, batch: Batch, document: bytes, seed: bytes, tell: Tell) -> bytes:
        share = self._own_share(document)
        if share.check_seed != base64url(seed):
            raise CohortConflictError("a check share was given out here before, for another seed")
        if batch.state in ("checked", "judged"):
            self._require_body(held, share, tell)
        return document

    def _require_body(self, held: RegisteredBatch, share: CheckShare, tell: Tell) -> None:
        """Make the body of the check share again, if it was lost."""
        digest = parse_base64url(share.body)
        if not self.bodies.is_whole(digest, self.body_bytes(held, share)):
            self.bodies.forget([digest])
            if self._compute(held, share.count, parse_base64url(share.check_seed), tell) != digest:
                raise UnavailableError("the stored shares are not those that were checked: lintra server doctor")

    def _compute(self, held: RegisteredBatch, count: int, seed: bytes, tell: Tell) -> bytes:
        """Write the check shares of a cohort's reports, in its order, and return the hash of all."""
        task, points = held.task, check_points(seed)
        members = self._store.history.members(held.number)
        size, done = parameters_of(task).check_bytes, 0
        each = payload_bytes(task, held.server)
        with self._scratch.file(count * size) as computed, self.bodies.writer(count * size) as writer:
            for ranks, stored in ranked(self._store, members, judged=False):
                for part in runs(stored, PART_REPORTS):
                    own = ranks[part.begins : part.ends]
                    for places, payloads in blocks(task, held.server, own, stored, part):
                        for start in range(0, len(places), CHECKED_AT_ONCE):
                            chosen = payloads[start * each : (start + CHECKED_AT_ONCE) * each]
                            at = places[start : start + CHECKED_AT_ONCE]
                            computed.place(checks_of(task, held.server, chosen, points), at)
                        done += len(places)
                        tell(done / count)
            if done != count:
                raise ValueError(f"{count - done} stored shares of the cohort are missing")
            for piece in computed.pieces():
                writer.add(piece)
            return writer.finish()

    # --- (R15) verdict -----------------------------------------------------------------------------------------

    def judge(
        self, held: RegisteredBatch, request: VerdictRequest, digests: Sequence[bytes], tell: Tell = lambda _: None
    ) -> bytes:
        """Decide which reports of the cohort are accepted, once and for ever, and return that signed, with the nonce.

        `request` has the check shares of all servers. `digests` are hashes of the bodies that came with it, which lie
        in the folder: of the other servers, in order. `tell` is told now and then how much is done.

        Raises:
            BatchOpenError, UnknownResourceError: no check share was given out here yet.
            InvalidMessageError, UnauthorizedError: the check shares are not one of each server, or hold no elements.
            ChecksMismatchError: the servers did not check the same; or a body is not the one that its server signed.
            TooManyRejectedError: more failed than the task allows; the batch is given up.
            AbandonedError: the batch was given up before.
        """
        # A verdict is come to, and the second nonce revealed, only if
        #   (1) none was come to before from other check shares;
        #   (2) every server signed its check share of this very cohort under this very seed, and this server's is the
        #       one that it gave out;
        #   (3) every body is the one that its server signed, and holds elements of the fields only;
        #   (4) what is left may be released, as far as numbers tell; otherwise the batch is given up, for good;
        #   (5) it was written down first, with the rejected, so that the matrix can never be drawn for another cohort.
        try:
            return self._judge(held, request, digests, tell)
        finally:
            with self._lock:
                self._awaited.pop(held.number, None)

    def _judge(self, held: RegisteredBatch, request: VerdictRequest, digests: Sequence[bytes], tell: Tell) -> bytes:
        with self.busy[held.number]:
            self._stepper.settle()
            batch = self._batch(held)
            cohort = Signed[Cohort].from_canonical(batch.cohort or not_yet(batch, "cohort")).message
            shares = self._verified(held, batch, cohort, request)  # (2)
            _require_bodies([share for share in shares if share.server != held.server], digests)  # (3)
            if batch.verdict is not None:
                return self._same_verdict(batch.verdict, shares)  # (1)
            if batch.state != "checked":
                raise lost(batch, "verdict")
            rejected = self._judged(held, shares, tell)  # (3)
            try:
                check_accepted(held.task, cohort.count, len(rejected))  # (4)
            except LintraError as error:
                self._give_up(held, batch, error, rejected)
                raise
            verdict = self._verdict(held, batch, cohort, rejected, shares)
            values: Values = {"state": "judged", "verdict": verdict, "rejected": encode_positions(rejected)}
            self._perform(held, "judged", "checked", values, batch.first)  # (1), (5)
            self.bodies.forget([parse_base64url(share.body) for share in shares if share.server != held.server])
            return verdict

    def verdict(self, held: RegisteredBatch) -> bytes:
        """Return the signed verdict (see `check_share` for errors)."""
        batch = self._batch(held)
        return batch.verdict or not_yet(batch, "verdict")

    def body_bytes(self, held: RegisteredBatch, share: CheckShare | None = None) -> int:
        """Return the length of a body of the check shares of a batch (see `check_share` for errors)."""
        self._require_verified(held)
        found = share or self._own_share(self.check_share(held))
        return found.count * parameters_of(held.task).check_bytes

    def _verified(
        self, held: RegisteredBatch, batch: Batch, cohort: Cohort, request: VerdictRequest
    ) -> list[CheckShare]:
        own = batch.check_share or not_yet(batch, "check share")
        if len(request.check_shares) != held.task.num_servers:
            raise InvalidMessageError(f"expected {held.task.num_servers} check shares, got {len(request.check_shares)}")
        if request.check_shares[held.server].canonical() != own:
            raise ChecksMismatchError("this server gave out another check share")
        seed = parse_base64url(self._own_share(own).check_seed)
        return verify_check_shares(held.task, held.batch, cohort, seed, request.check_shares)

    @staticmethod
    def _same_verdict(verdict: bytes, shares: list[CheckShare]) -> bytes:
        if Signed[Verdict].from_canonical(verdict).message.checks != base64url(checks_hash(shares)):
            raise ChecksMismatchError("a verdict was come to here before, from other check shares")
        return verdict

    def _judged(self, held: RegisteredBatch, shares: list[CheckShare], tell: Tell) -> IntArray:
        own = shares[held.server]
        self._require_body(held, own, tell)
        with ExitStack() as files:
            bodies = [files.enter_context(self.bodies.open(parse_base64url(share.body))).read for share in shares]
            return judge(held.task, shares, check_points(parse_base64url(own.check_seed)), bodies, tell)

    def _verdict(
        self, held: RegisteredBatch, batch: Batch, cohort: Cohort, rejected: IntArray, shares: list[CheckShare]
    ) -> bytes:
        inventory = Signed[Inventory].from_canonical(batch.inventory or not_yet(batch, "inventory")).message
        lists = parse_base64url(inventory.root), inventory.count, parse_base64url(cohort.root)
        accepted = self._lists.cohort(FrozenList(held.number, *lists, cohort.count)).without(rejected)
        self._lists.keep_tree(accepted.tree)
        nonce = self._store.nonce(held.number, MATRIX_NONCE)
        found = verdict_of(held.task, held.batch, held.server, accepted, len(rejected), shares, nonce)
        return sign(self._identity, found).canonical()

    def _give_up(self, held: RegisteredBatch, batch: Batch, error: LintraError, rejected: IntArray) -> None:
        values: Values = {"state": "abandoned", "ended_by": error.token, "rejected": encode_positions(rejected)}
        self._perform(held, "abandoned", "checked", values, batch.first)
        for number in self._store.history.members(held.number):
            self._store.forget_key(number)

    @staticmethod
    def _require_verified(held: RegisteredBatch) -> None:
        if held.task.verified is None:
            raise UnknownResourceError("the reports of this task are not verified")

    @staticmethod
    def _own_share(document: bytes) -> CheckShare:
        return Signed[CheckShare].from_canonical(document).message

    # --- bodies ------------------------------------------------------------------------------------------------

    def expect(self, held: RegisteredBatch, digests: list[bytes]) -> None:
        """Keep bodies that came with a request for a verdict, until there is one or a refusal."""
        with self._lock:
            self._awaited[held.number] = digests

    def tidy(self) -> None:
        """Remove the bodies that nobody needs any more: of batches that were released or given up, and of requests."""
        with self._lock:
            own = [
                parse_base64url(self._own_share(document).body) for document in self._states.waiting_checks(self._store)
            ]
            self.bodies.keep_only([*own, *chain.from_iterable(self._awaited.values())])


def _require_bodies(shares: Sequence[CheckShare], digests: Sequence[bytes]) -> None:
    """Check that bodies are those that their servers signed."""
    for share, digest in zip(shares, digests, strict=True):
        if share.body != base64url(digest):
            raise ChecksMismatchError(f"the body of server {share.server} is not the one that it signed")
