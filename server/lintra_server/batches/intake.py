"""The only way in: an upload is cut into reports, each is opened and checked, and the new ones are stored (R2-R4).

An answer is given only after the commit that holds its reports is durable.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from lintra_protocol.canonical import base64url
from lintra_protocol.errors import (
    LintraError,
    OutdatedKeyError,
    ReportTooEarlyError,
    ReportTooLateError,
    TaskEndedError,
    TaskNotStartedError,
    TokenInvalidError,
)
from lintra_protocol.messages import Counters, Failure, Receipt, UploadAnswer, receipt_hash, sign
from lintra_protocol.report import open_share
from lintra_protocol.sealing import SealingKey
from lintra_protocol.signing import SigningKey
from lintra_protocol.task import Task
from lintra_protocol.tokens import Admission
from lintra_protocol.wire import (
    MAX_REPORTS,
    SealedReport,
    decode_count,
    decode_passes,
    decode_reports,
    head_bytes,
    report_id,
    upload_bytes,
)
from lintra_server.batches.backlog import Backlog
from lintra_server.batches.registry import SKEW_UNITS, HeldTask
from lintra_server.storage.store import Outcome, Upload
from lintra_server.storage.writer import Writer

FindKey = Callable[[bytes], SealingKey]
FindStored = Callable[[int, Sequence[bytes]], set[bytes]]
Opened = tuple[bytes, bytes, bytes | LintraError]
"""A report identifier, the serial of its token if it has one, and its payload or why it is refused."""

Result = tuple[bytes, bool | LintraError]
"""A report identifier, and whether it is new (True), repeated (False) or refused."""

OPENERS = 2


def max_upload_bytes(held: HeldTask) -> int:
    """Return the length of the largest upload of a task."""
    return upload_bytes(held.task, held.server, MAX_REPORTS)


@dataclass
class Tally:
    """What became of the reports of one task that were not stored, since this process started.

    How many were stored the store knows, whatever process stored them. What the analyst was told of the others before
    this process began the store knows too.
    """

    repeated: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def message(self, stored: int, before: Counters | None) -> Counters:
        """Return it with what was told before; the parts add up because nothing is counted apart from them."""
        counted = Counter(before.refused if before else {}) + self.refused
        repeated = self.repeated + (before.repeated if before else 0)
        received = stored + repeated + counted.total()
        return Counters(received=received, accepted=stored, repeated=repeated, refused=dict(sorted(counted.items())))


class Intake:
    """Takes uploads of all tasks."""

    def __init__(
        self,
        writer: Writer,
        find_key: FindKey,
        find_stored: FindStored,
        identity: SigningKey,
        max_wait_seconds: float,
        now: Callable[[], float],
        observe: Callable[[str, int], None],
    ) -> None:
        """Take uploads.

        Args:
            writer: stores them.
            find_key: returns the private key with an identifier, or raises `OutdatedKeyError`.
            find_stored: returns which of some reports of a task, given by its number, are stored durably.
            identity: signs receipts.
            max_wait_seconds: of work that may be ahead of an upload.
            now: the clock, in seconds since the epoch.
            observe: is told outcomes and their numbers.
        """
        self._writer = writer
        self._find_key = find_key
        self._find_stored = find_stored
        self._identity = identity
        self._backlog = Backlog(max_wait_seconds)
        self._now = now
        self._observe = observe
        self._openers = ThreadPoolExecutor(OPENERS, thread_name_prefix="lintra-opener")
        self._tallies: defaultdict[int, Tally] = defaultdict(Tally)

    def counters(self, held: HeldTask, stored: int, before: Counters | None) -> Counters:
        """Return what became of a task's reports: `stored` ones, and the rest with what was told `before`."""
        return self._tallies[held.number].message(stored, before)

    async def accept(self, held: HeldTask, body: bytes) -> UploadAnswer:
        """Store the good reports of an upload durably, and say which ones failed.

        Raises:
            InvalidMessageError: the body is not a whole number of this task's reports.
            OverloadedError, UnavailableError: nothing was stored; the same upload may be sent again.
        """
        reports = list(decode_reports(body, held.task, held.server))
        try:
            with self._backlog.of(len(body)):
                results = await self._results(held, reports)
        except LintraError as error:
            self._count(held, [error] * len(reports))
            raise
        self._count(held, [outcome for _, outcome in results])
        return self._answer(held, results)

    async def _results(self, held: HeldTask, reports: Sequence[SealedReport]) -> list[Result]:
        loop = asyncio.get_running_loop()
        opened = await loop.run_in_executor(self._openers, open_reports, held, reports, self._find_key)
        # A key may go between a commit and a lost answer: what is stored need not be opened to be known.
        outdated = [report_id for report_id, _, error in opened if isinstance(error, OutdatedKeyError)]
        known = set[bytes]()
        if outdated:
            known = await loop.run_in_executor(self._openers, self._find_stored, held.number, outdated)
        results: dict[bytes, bool | LintraError] = {
            report_id: False if report_id in known else error
            for report_id, _, error in opened
            if isinstance(error, LintraError)
        }
        good = [each for each in opened if isinstance(each[2], bytes)]
        outcomes: list[Outcome] = []
        if good:
            report_ids, serials, payloads = zip(*good, strict=True)
            used = serials if held.admission else ()
            upload = Upload(held.number, report_ids, payloads, clock_refusal(held.task, self._now()), used)
            outcomes = await asyncio.wrap_future(self._writer.submit(upload))
        stored = iter(outcomes)
        return [
            (report_id, next(stored) if isinstance(payload, bytes) else results[report_id])
            for report_id, _, payload in opened
        ]

    def _count(self, held: HeldTask, outcomes: Sequence[bool | LintraError]) -> None:
        tokens = Counter(
            outcome.token if isinstance(outcome, LintraError) else ("accepted" if outcome else "repeated")
            for outcome in outcomes
        )
        for token, count in tokens.items():
            self._observe(token, count)
        tally = self._tallies[held.number]
        tokens.pop("accepted", 0)
        tally.repeated += tokens.pop("repeated", 0)
        tally.refused.update(tokens)

    def _answer(self, held: HeldTask, results: Sequence[Result]) -> UploadAnswer:
        failures = tuple(
            Failure(report_id=base64url(report_id), type=error.token, detail=error.detail, retryable=error.retryable)
            for report_id, error in results
            if isinstance(error, LintraError)
        )
        stored = [report_id for report_id, outcome in results if not isinstance(outcome, LintraError)]
        receipt = Receipt(
            task_id=held.task.task_id, server=held.server, count=len(stored), reports=receipt_hash(stored)
        )
        return UploadAnswer(failures=failures, receipt=sign(self._identity, receipt))

    def close(self) -> None:
        """Stop opening reports."""
        self._openers.shutdown()


def screening(held: HeldTask) -> Callable[[bytes], bool] | None:
    """Return what looks at the tokens of an upload before the rest of it is read; None in an open task.

    It is given what has arrived so far, and returns whether it has seen enough. It raises `TokenInvalidError` if none
    of the tokens is this task's, and `InvalidMessageError` if the upload does not even begin like one.
    """
    admission = held.admission
    if admission is None:
        return None

    def screen(arrived: bytes) -> bool:
        if len(arrived) < head_bytes(held.task, 0) or len(arrived) < head_bytes(held.task, decode_count(arrived)):
            return False
        passes = decode_passes(arrived[: head_bytes(held.task, decode_count(arrived))])
        if not any(_is_admitted(admission, each) for each in passes):
            raise TokenInvalidError
        return True

    return screen


def _is_admitted(admission: Admission, presented: bytes) -> bool:
    try:
        admission.require(presented)
    except TokenInvalidError:
        return False
    return True


def open_reports(held: HeldTask, reports: Sequence[SealedReport], find_key: FindKey) -> list[Opened]:
    """Open and check reports, the token first: it costs microseconds, and opening a share a hundred times more."""
    task = held.task
    results: list[Opened] = []
    for report in reports:
        try:
            serial = b"" if held.admission is None else held.admission.require(report.admission)
            identifier, time, payload = open_share(task, held.server, report, find_key)
            if time < task.not_before:
                raise ReportTooEarlyError(f"its time is {time}, the task begins at {task.not_before}")
            if time >= task.not_after:
                raise ReportTooLateError(f"its time is {time}, the task ends at {task.not_after}")
            results.append((identifier, serial, payload))
        except LintraError as error:
            results.append((report_id(report.header), b"", error))
    return results


def clock_refusal(task: Task, now: float) -> LintraError | None:
    """Return why a task takes no new reports at this moment, or None."""
    unit = now // task.time_precision
    if unit < task.not_before - SKEW_UNITS:
        return TaskNotStartedError(f"it begins at {task.not_before} and this server's clock is at {unit:.0f}")
    if unit >= task.not_after + SKEW_UNITS:
        return TaskEndedError(f"it ended at {task.not_after} and this server's clock is at {unit:.0f}")
    return None
