"""Opening: what is new of some blocks is decrypted and checked, the cheapest check first (R3)."""

from collections.abc import Callable, Sequence

from lintra_protocol.crypto.sealing import SealingKey
from lintra_protocol.crypto.tokens import Admission
from lintra_protocol.errors import LintraError, ReportTooEarlyError, ReportTooLateError, TokenInvalidError
from lintra_protocol.report.report import open_block
from lintra_protocol.report.upload import SealedBlock
from lintra_protocol.task import Task
from lintra_server.batches.registry import RegisteredTask

FindKey = Callable[[bytes], SealingKey]
Opened = bytes | LintraError | None
"""What the way in makes of a report: its payload, why it is refused, or None if it is stored already."""


def open_blocks(
    held: RegisteredTask, blocks: Sequence[SealedBlock], find_key: FindKey, known: set[bytes]
) -> list[Opened]:
    """Open and check what is new of some blocks, the cheapest check first.

    A token costs microseconds, to look an identifier up a few more, and to open a block a hundred. A report that is
    stored is known by its identifier, whatever became of the key it was sealed to; a block of nothing but these, or of
    reports without a token, is not opened. One that does not open is refused as a whole, apart from what is stored.
    """
    refused: dict[int, LintraError] = {}
    if held.admission is not None:
        passes = [each for block in blocks for each in block.passes]
        refused = {
            place: TokenInvalidError() for place, each in enumerate(passes) if not is_admitted(held.admission, each)
        }
    results: list[Opened] = []
    for block in blocks:
        if not refused and known.isdisjoint(block.report_ids):
            results += _opened(held, block, find_key)
            continue
        # No payload is empty, so that nothing stands for what is still to be opened.
        first = len(results)
        standing: list[Opened] = [
            refused.get(first + place) or (None if report_id in known else b"")
            for place, report_id in enumerate(block.report_ids)
        ]
        if b"" in standing:
            opened = _opened(held, block, find_key)
            standing = [new if old == b"" else old for old, new in zip(standing, opened, strict=True)]
        results += standing
    return results


def _opened(held: RegisteredTask, block: SealedBlock, find_key: FindKey) -> list[bytes | LintraError]:
    try:
        opened = open_block(held.task, held.server, block, find_key)
    except LintraError as error:
        return [error] * len(block.headers)
    outside = {time: refusal for time in set(block.times) if (refusal := _time_refusal(held.task, time))}
    if not outside:
        return opened
    return [
        outside.get(time, each) if isinstance(each, bytes) else each
        for time, each in zip(block.times, opened, strict=True)
    ]


def _time_refusal(task: Task, time: int) -> LintraError | None:
    """Return why a task takes no report of a time, or None."""
    if time < task.not_before:
        return ReportTooEarlyError(f"its time is {time}, the task begins at {task.not_before}")
    if time >= task.not_after:
        return ReportTooLateError(f"its time is {time}, the task ends at {task.not_after}")
    return None


def is_admitted(admission: Admission, presented: bytes) -> bool:
    """Return whether what a report presents of its token is this task's."""
    try:
        admission.require(presented)
    except TokenInvalidError:
        return False
    return True
