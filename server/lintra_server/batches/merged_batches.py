"""Windows that are released together: their reports as those of one batch.

Each window keeps its own segments under its own data key. A release is a sum in the ring, so the sums of the windows
are added up like those of parts.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.crypto.ring import RingArray
from lintra_protocol.rules.release import ReleaseMatrix
from lintra_protocol.task import Task
from lintra_server.batches.executor import Executor, ReleaseRequest, Tell, sketch_share
from lintra_server.storage.segments import EXCLUDED, BatchSegments, Bytes, sort_ids
from lintra_server.storage.store import Store


def ranked(
    store: Store, members: Sequence[int], *, judged: bool = True
) -> list[tuple[NDArray[np.uint32], BatchSegments]]:
    """Return of each batch the ranks of its reports in the frozen cohort, and where they are read.

    Ranks have shape `(k,)`, in the order of storing; `EXCLUDED` stands for a report that is not in the cohort.
    `members` are the numbers of the batches; the last one is frozen. `judged` says whether those that a verdict
    rejected are out, too, and the ranks are among the others.
    """
    lists, stored_in = list[Bytes](), list[BatchSegments]()
    for number in members:
        ids, table = store.held(number)
        lists.append(ids)
        stored_in.append(store.segments(number, table))
    counts = [len(each) for each in lists]
    together = np.concatenate(lists) if len(lists) > 1 else lists[0]
    lists.clear()
    del ids
    _, kept = sort_ids(together)
    del together  # most of the memory that a release takes
    kept = np.delete(kept, store.missing(members[-1]))
    if judged:
        kept = np.delete(kept, store.rejected(members[-1]))
    ranks = np.full(sum(counts), EXCLUDED, np.uint32)
    ranks[kept] = np.arange(len(kept), dtype=np.uint32)
    return list(zip(np.split(ranks, np.cumsum(counts)[:-1]), stored_in, strict=True))


def share_of(
    store: Store, executor: Executor, task: Task, server: int, drawn: ReleaseMatrix, members: Sequence[int], tell: Tell
) -> RingArray:
    """Add up one server's shares of a frozen cohort; the result has shape `(m, w/c)`.

    `executor` adds up those of one batch; `server` is this server's index. `drawn` is the public matrix of the cohort,
    and its seed. `members` are the numbers of the batches that the cohort is of; the last one is frozen. `tell` is told
    after every part how much of all is done, from 0 to 1.
    """
    releases = [
        ReleaseRequest(task, server, drawn.matrix, drawn.seed, number, ranks, stored)
        for number, (ranks, stored) in zip(members, ranked(store, members), strict=True)
    ]
    return sketch_share(releases[-1], executor, tell, releases[:-1])
