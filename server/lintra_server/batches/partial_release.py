"""Computes a part of a release in a process of its own: the process's instructions, and the work itself."""

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.task import Task
from lintra_protocol.transforms.base import PublicMatrix
from lintra_server.batches.executor import PartShare, ReleaseRequest
from lintra_server.batches.key_broker import BrokeredKeys, Certificates, enter
from lintra_server.batches.transform import Segments, part_share
from lintra_server.storage.read_only import ReadOnlyDatabase
from lintra_server.storage.segments import SegmentTable, StoredSegments


@dataclass(frozen=True)
class RemotePart:
    """One part as it travels: nothing in it is secret."""

    definition: bytes = field(repr=False)  #: the task's, canonical
    server: int
    num_clients: int
    seed: bytes = field(repr=False)
    batch: int  #: its number in the store
    part: Segments
    table: SegmentTable = field(repr=False)  #: of the rows of the run, whose marks the gate has checked
    ranks: NDArray[np.uint32] = field(repr=False)  #: of the reports of the run, or `EXCLUDED`; shape `(k,)`
    door: str  #: where database and key are told (see `key_door`)


def remote_parts(release: ReleaseRequest, door: str) -> list[RemotePart]:
    """Return the parts of a release for other processes."""
    definition, clients = release.task.canonical(), release.matrix.num_clients
    return [
        RemotePart(
            definition,
            release.server,
            clients,
            release.seed,
            release.batch,
            part,
            release.stored.table(part.first, part.last),
            release.ranks[part.begins : part.ends],
            door,
        )
        for part in release.parts()
    ]


def behind_the_door(release: ReleaseRequest) -> BrokeredKeys:
    """Return what the processes of a release must know to read its shares."""
    return BrokeredKeys(*release.stored.elsewhere())


def compute(told: RemotePart, certificates: Certificates | None = None) -> PartShare:
    """Read the segments of a part, decrypt them and add them up; nothing is kept afterwards but the public matrix."""
    behind = enter(told.door, certificates)
    task, matrix = _matrix(told.definition, told.num_clients, told.seed)
    database = ReadOnlyDatabase(behind.database)
    try:
        stored = StoredSegments(database, told.batch, behind.key, told.table)
        return part_share(task, told.server, matrix, told.ranks, stored, told.part)
    finally:
        database.close()


@lru_cache(maxsize=1)
def _matrix(definition: bytes, num_clients: int, seed: bytes) -> tuple[Task, PublicMatrix]:
    task = Task.from_canonical(definition)
    return task, task.mechanism.public_matrix(num_clients, seed)
