"""One parcel to one server: the same reports until it answers, a new key once, and a receipt that must fit."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from lintra_client.sending.connection import TRANSIENT, Channel, TransientError, printable
from lintra_client.sending.sealed_reports import Parcel, spelled
from lintra_client.task_check import ClientPolicy, ServerKey, agreed_task, sealing_key
from lintra_protocol.errors import InvalidMessageError, LintraError, OutdatedKeyError
from lintra_protocol.http.problems import from_problem
from lintra_protocol.messages.documents import Failure, Receipt, Signed, UploadAnswer, receipt_hash
from lintra_protocol.report.upload import SealedBlock, encode_upload
from lintra_protocol.task import Task


@dataclass(frozen=True)
class Delivery:
    """What became of a parcel at one server: a refusal for each report not taken, a signed receipt for the others."""

    failures: dict[bytes, LintraError]
    receipts: tuple[Signed[Receipt], ...]


class Destination:
    """One server of a task: its index, the way to it, and the key that it holds now."""

    def __init__(self, task: Task, index: int, channel: Channel, now: Callable[[], float]) -> None:
        """Fetch nothing yet; the key comes with the first use."""
        self.index = index
        self.name = channel.name
        self._task = task
        self.channel = channel
        self._now = now
        self._key: ServerKey | None = None
        self._lock = asyncio.Lock()

    async def key(self, stale: ServerKey | None = None) -> ServerKey:
        """Return a valid key of the server, fetched if none is known, if it expired, or if it is `stale`."""
        async with self._lock:
            if self._key is None or self._key is stale or self._key.valid_until <= self._now():
                body = await self.channel.fetch("/v1/keys", "keys")
                self._key = sealing_key(self._task, self.index, body, self._now())
            return self._key

    async def deliver(self, parcel: Parcel) -> Delivery:
        """Deliver a parcel, or say of every report why not; a refusal of the whole upload counts for each of them."""
        try:
            key = await self.key()
        except LintraError as error:
            return Delivery(dict.fromkeys(parcel.report_ids, error), ())
        first = await self._sealed_to(parcel, parcel.report_ids, key)
        outdated = [known for known, error in first.failures.items() if isinstance(error, OutdatedKeyError)]
        if not outdated:
            return first
        # The shares stay the same under the new key, so the identifiers and commitments do too. Once is enough: a
        # server that calls its own newest key outdated would go on for ever.
        try:
            newer = await self.key(stale=key)
        except LintraError:
            return first
        second = await self._sealed_to(parcel, outdated, newer)
        kept = {known: error for known, error in first.failures.items() if not isinstance(error, OutdatedKeyError)}
        return Delivery(kept | second.failures, first.receipts + second.receipts)

    async def upload_again(self, blocks: Sequence[SealedBlock]) -> Delivery:
        """Upload what was sealed before, and whose shares are not here; a refusal of all counts for each report."""

        async def waiting(wanted: Collection[bytes]) -> list[SealedBlock]:
            return [block for block in blocks if not set(wanted).isdisjoint(block.report_ids)]

        return await self._upload([known for block in blocks for known in block.report_ids], waiting)

    async def _sealed_to(self, parcel: Parcel, report_ids: Sequence[bytes], key: ServerKey) -> Delivery:
        """Upload some reports of a parcel; those that have to go again are sealed anew, without the others."""
        try:
            return await self._upload(report_ids, lambda wanted: parcel.sealed(self._task, self.index, key, wanted))
        except InvalidMessageError as error:  # nothing can be sealed to this key
            return Delivery(dict.fromkeys(report_ids, error), ())

    async def _upload(
        self, report_ids: Sequence[bytes], blocks_of: Callable[[Collection[bytes]], Awaitable[list[SealedBlock]]]
    ) -> Delivery:
        pending = dict.fromkeys(report_ids)
        refused: dict[bytes, LintraError] = {}
        receipts: list[Signed[Receipt]] = []

        async def attempt() -> None:
            blocks = await blocks_of(pending)
            sent = [known for block in blocks for known in block.report_ids]
            path = f"/v1/tasks/{self._task.task_id}/reports"
            data = await self.channel.post(path, encode_upload(blocks), "reports", "upload-answer")
            answer = UploadAnswer.from_canonical(data)
            failures = verified_failures(self._task, self.index, sent, answer)
            receipts.append(answer.receipt)
            for known in [known for known in pending if known not in failures]:
                del pending[known]
            for failed, error in failures.items():
                if failed in pending and not isinstance(error, TRANSIENT):
                    refused[failed] = error
                    del pending[failed]
            if pending:
                raise TransientError(failures[next(iter(pending))])

        try:
            await self.channel.persistently(attempt)
        except LintraError as error:
            refused |= dict.fromkeys(pending, error)
        return Delivery(refused, tuple(receipts))


async def found_at(
    channels: Sequence[Channel], task_id: str, policy: ClientPolicy, now: Callable[[], float]
) -> tuple[Task, list[Destination]]:
    """Fetch a task from all its servers and check it; return it, and its servers in its order, each with its key."""
    bodies = await asyncio.gather(*(channel.fetch(f"/v1/tasks/{task_id}", "task") for channel in channels))
    task, indices = agreed_task(task_id, [channel.name for channel in channels], bodies, policy)
    by_index = sorted(zip(indices, channels, strict=True), key=lambda pair: pair[0])
    destinations = [Destination(task, index, channel, now) for index, channel in by_index]
    await asyncio.gather(*(destination.key() for destination in destinations))
    return task, destinations


def verified_failures(
    task: Task, server: int, report_ids: Sequence[bytes], answer: UploadAnswer
) -> dict[bytes, LintraError]:
    """Check that an answer accounts for every report of an upload, and return the refusals.

    Raises InvalidMessageError if it refuses other reports or is out of order, or its receipt does not cover exactly
    the reports that were not refused.
    """
    failed = {failure.report_id: failure for failure in answer.failures}
    # Mostly there are none, and nothing has to be spelled out.
    refused = {known: failed[text] for known in report_ids if (text := spelled(known)) in failed} if failed else {}
    if list(refused.values()) != list(answer.failures):
        raise InvalidMessageError(f"server {server} refused reports that were not in this upload, or out of order")
    taken = [known for known in report_ids if known not in refused]
    receipt = answer.receipt.verified(task.servers[server].identity_key)
    expected = Receipt(task_id=task.task_id, server=server, count=len(taken), reports=receipt_hash(taken))
    if receipt != expected:
        raise InvalidMessageError(f"server {server} signed a receipt for other reports than the {len(taken)} it took")
    return {known: _refusal(failure) for known, failure in refused.items()}


def _refusal(failure: Failure) -> LintraError:
    return from_problem({"type": failure.type, "detail": printable(failure.detail)})
