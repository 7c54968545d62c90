"""What an analyst asks about several windows of a task together, within the caps on memory and time."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from lintra_analysis.access.stream import NO_STREAM
from lintra_analysis.estimators.table import Estimate
from lintra_analyzer.service import MOST_SMALL, Service
from lintra_analyzer.tasks.streams import Combination, OfStream, of_stream
from lintra_analyzer.tasks.windows import combined
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.task import Task
from lintra_service.work_pool import WorkRefusedError

T = TypeVar("T", bound=Estimate)


async def combine(service: Service, task_id: str, asked: Combination[T], who: str, kind: str) -> T:
    """Combine the releases of a task's windows, for `who` asks; they are opened one by one.

    Raises UnknownTaskError and UnknownBatchError if there are no such windows; InvalidAnalysisError if it does not fit
    the releases, or reaches a cap; InvalidReleaseError if archived numbers are not those of a record.
    """
    task = service.windowed(task_id)
    if task.stream is not None:
        return await combine_stream(service, task_id, asked, who, kind)
    records = service.store.releases_of(task_id, asked.first, max(asked.last + 1 - asked.first, 0))
    return await _run(service, combined, task, records, asked, who, kind)


async def combine_stream(service: Service, task_id: str, asked: OfStream[T], who: str, kind: str) -> T:
    """Return what is asked about the windows of a stream, for `who` asks; raises what `combine` does."""
    task = service.windowed(task_id)
    if task.stream is None:
        raise InvalidAnalysisError(NO_STREAM)
    records = service.store.releases_of(task_id, 0, asked.last + 1)
    return await _run(service, of_stream, task, records, asked, who, kind)


async def _run(
    service: Service,
    run: Callable[..., T],
    task: Task,
    records: Mapping[int, bytes],
    asked: object,
    who: str,
    kind: str,
) -> T:
    small = len(records) * len(task.columns) <= MOST_SMALL
    try:
        found = await service.work.run(who, run, service.archive, task, records, asked, small=small)
    except WorkRefusedError as error:
        raise InvalidAnalysisError(f"the windows together: {error}; ask about fewer windows") from None
    service.metrics.analysis(kind)
    return found
