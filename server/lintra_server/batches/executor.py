"""Executors of a release: this process, a pool of processes, or a cluster. All of them give the same bits.

A part is a run of segments. Whoever computes it reads them from the store, decrypts them, applies the matrix to its
ranks, and returns a sum modulo 2^64. Sums of parts are added in any order: the ring is commutative, and exact. Noise
and sealing are the gate's, once; no part ever sees them.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

import numpy as np
import structlog
from numpy.typing import NDArray

from lintra_protocol.crypto.ring import RingArray
from lintra_protocol.errors import UnavailableError
from lintra_protocol.task import Task
from lintra_protocol.transforms.base import PublicMatrix
from lintra_server.batches.transform import Segments, is_right, part_share, runs
from lintra_server.storage.segments import BatchSegments

log = structlog.get_logger()

PART_REPORTS = 1 << 20
"""Most reports of a part, unless one segment has more: some seconds of one core for rows of thousands of words."""

PartShare = tuple[RingArray, int]
"""The sum of some shares with its check (see `part_share`), and how many it adds."""

Tell = Callable[[float], None]
"""Is told how much of a step is done, from 0 to 1."""


@dataclass(frozen=True)
class ReleaseRequest:
    """One server's part in a release, before noise: what is to be added up, and what the matrix comes from."""

    task: Task
    server: int
    matrix: PublicMatrix = field(repr=False)
    seed: bytes  #: of the matrix, which follows from it
    batch: int  #: its number in the store
    #: of every stored report in the order of storing, or `EXCLUDED`; shape `(n,)`
    ranks: NDArray[np.uint32] = field(repr=False)
    stored: BatchSegments = field(repr=False)
    part_reports: int = PART_REPORTS  #: most reports of a part

    def parts(self) -> list[Segments]:
        """Return the runs of segments that are added up each by itself."""
        return runs(self.stored, self.part_reports)


class Executor(Protocol):
    """Adds up the parts of a release."""

    def part_shares(self, release: ReleaseRequest) -> Iterable[PartShare]:
        """Return the sums of all parts, in any order, added up or not.

        Raises UnavailableError if a part could not be computed; the release can be asked for again.
        """


class InProcessExecutor:
    """Computes one part after the other where it is asked."""

    def part_shares(self, release: ReleaseRequest) -> Iterator[PartShare]:
        """Yield the sum of every part."""
        for part in release.parts():
            own = release.ranks[part.begins : part.ends]
            yield part_share(release.task, release.server, release.matrix, own, release.stored, part)


def sketch_share(
    release: ReleaseRequest, executor: Executor, tell: Tell = lambda _: None, others: Iterable[ReleaseRequest] = ()
) -> RingArray:
    """Add up one server's shares of a cohort; the result has shape `(m, w/c)`.

    `tell` is told after every part how much of all is done, from 0 to 1. `others` are those of the batches whose
    reports are in the same cohort, under the same matrix. Raises ValueError if a report of the cohort is in none of the
    segments; UnavailableError if the sum is not what its check says.
    """
    empty = np.zeros((release.matrix.rows, release.task.sketch_words + 1), np.uint64)
    every = (part for each in (*others, release) for part in executor.part_shares(each))
    parts = _counted(every, release.matrix.num_clients, tell)
    share, done = tree_sum(chain([(empty, 0)], parts))
    if done != release.matrix.num_clients:
        raise ValueError(f"{release.matrix.num_clients - done} stored shares of the cohort are missing")
    if not is_right(share):
        log.critical("a sum is wrong: memory or a processor of this machine is at fault", batch=release.batch)
        raise UnavailableError("the sum of the shares did not pass this server's own check; nothing left: ask again")
    return share[:, :-1]


def _counted(parts: Iterable[PartShare], total: int, tell: Tell) -> Iterator[PartShare]:
    done = 0
    for part in parts:
        done += part[1]
        tell(done / total)
        yield part


def tree_sum(sums: Iterable[PartShare]) -> PartShare:
    """Add sums up, each with one that holds as many: at most log2 of their number are kept at a time."""
    kept: list[tuple[int, PartShare]] = []
    for one in sums:
        level, total = 0, one
        while kept and kept[-1][0] == level:
            total = added(kept.pop()[1], total)
            level += 1
        kept.append((level, total))
    total = kept.pop()[1]
    while kept:
        total = added(kept.pop()[1], total)
    return total


def added(first: PartShare, second: PartShare) -> PartShare:
    """Add two sums, modulo 2^64."""
    return first[0] + second[0], first[1] + second[1]
