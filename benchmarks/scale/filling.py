"""Reports written directly into a server's store, in segments as large as those that remain after closing."""

import numpy as np
import numpy.typing as npt

from lintra_server.batches.registry import HeldBatch
from lintra_server.storage.segments import tail, write_segments
from lintra_server.storage.store import Store


def fill(store: Store, held: HeldBatch, report_ids: npt.NDArray[np.uint8], payloads: npt.NDArray[np.uint8]) -> None:
    """Store new reports of an open batch in one transaction.

    Args:
        store: of one server.
        held: the batch.
        report_ids: shape `(k, 32)`.
        payloads: shape `(k, bytes)`.
    """
    new = {report_id.tobytes(): payload.tobytes() for report_id, payload in zip(report_ids, payloads, strict=True)}
    with store.database.writing() as connection:
        connection.exec_driver_sql("PRAGMA cache_size=-400000")
        key = store._data_key(connection, held.number)
        write_segments(connection, held.number, tail(connection, held.number), new, (), key)
