"""Reports written directly into a server's store, in segments as large as those that remain after closing."""

import numpy as np
import numpy.typing as npt
from sqlalchemy import insert

from lintra_server.batches.registry import HeldBatch
from lintra_server.storage.database import SPAN, segments
from lintra_server.storage.segments import MAX_SEGMENT_BYTES, tail
from lintra_server.storage.store import Store


def fill(store: Store, held: HeldBatch, report_ids: npt.NDArray[np.uint8], payloads: npt.NDArray[np.uint8]) -> None:
    """Store new reports of an open batch in one transaction.

    Args:
        store: of one server.
        held: the batch.
        report_ids: shape `(k, 32)`.
        payloads: shape `(k, bytes)`.
    """
    size = max(1, MAX_SEGMENT_BYTES // payloads.shape[1])
    with store.database.writing() as connection:
        key, end = store._data_key(connection, held.number), tail(connection, held.number)
        for place, start in enumerate(range(0, len(report_ids), size)):
            here, number = slice(start, start + size), end.number + 1 + place
            row = {
                "key": held.number * SPAN + number,
                "total": end.total + start + len(report_ids[here]),
                "ids": report_ids[here].tobytes(),
                "payloads": key.encrypt(payloads[here].tobytes(), number),
            }
            connection.execute(insert(segments), row)
