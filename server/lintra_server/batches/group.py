"""Windows that are released together: their reports as those of one batch.

Each keeps its own segments under its own data key. What is computed of them is a sum in the ring, so the sums of the
windows are added up, as those of parts are.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.ring import RingArray
from lintra_protocol.rules import Drawn
from lintra_protocol.task import Task
from lintra_server.batches.executor import Executor, Release, Tell, sketch_share
from lintra_server.storage.segments import EXCLUDED, sort_ids
from lintra_server.storage.store import Store


def ranks_of(store: Store, members: Sequence[int], *, judged: bool = True) -> list[NDArray[np.uint32]]:
    """Return the ranks of each batch's reports, shape `(k,)`, in the frozen cohort, as they were stored, or `EXCLUDED`.

    Args:
        store: with the reports.
        members: the numbers of the batches; the last one is frozen.
        judged: whether those that a verdict rejected are out, too, and the ranks are among the others.
    """
    lists = [store.ids_by_storing(number) for number in members]
    counts = [len(each) for each in lists]
    together = np.concatenate(lists) if len(lists) > 1 else lists[0]
    lists.clear()
    stored, kept = sort_ids(together)
    missing = store.missing(members[-1], stored)
    del together, stored  # most of the memory that a release takes
    kept = np.delete(kept, missing)
    if judged:
        kept = np.delete(kept, store.rejected(members[-1]))
    ranks = np.full(sum(counts), EXCLUDED, np.uint32)
    ranks[kept] = np.arange(len(kept), dtype=np.uint32)
    return np.split(ranks, np.cumsum(counts)[:-1])


def share_of(
    store: Store, executor: Executor, task: Task, server: int, drawn: Drawn, members: Sequence[int], tell: Tell
) -> RingArray:
    """Add up one server's shares of a frozen cohort; the result has shape `(m, w/c)`.

    Args:
        store: with the reports.
        executor: adds up those of one batch.
        task: the task.
        server: this server's index.
        drawn: the public matrix of the cohort, and its seed.
        members: the numbers of the batches that the cohort is of; the last one is frozen.
        tell: is told after every part how much of all is done, from 0 to 1.

    Raises:
        ValueError: a report of the cohort is in none of the segments.
        UnavailableError: a part could not be computed, or a secret was destroyed.
    """
    ranks = ranks_of(store, members)
    releases = [
        Release(task, server, drawn.matrix, drawn.seed, number, own, store.segments(number))
        for number, own in zip(members, ranks, strict=True)
    ]
    return sketch_share(releases[-1], executor, tell, releases[:-1])
