"""What a batch holds, as closing, freezing and releasing read it: identifiers, ranks and shares."""

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, bindparam, select

from lintra_protocol.errors import UnavailableError
from lintra_protocol.randomness import RandomBytes
from lintra_protocol.report_ids import ReportIds, decode_positions
from lintra_protocol.ring import IntArray
from lintra_server.disk.batch_secrets import Secrets
from lintra_server.disk.vault import DataKey, Vault
from lintra_server.storage.database import NUM_REPORTS, AnyDatabase, batches
from lintra_server.storage.segments import EXCLUDED, Bytes, StoredSegments, all_ids, sort_ids
from lintra_server.storage.tasks import Tasks

_WRAPPED_KEY = select(batches.c.wrapped_key, batches.c.secret).where(batches.c.batch == bindparam("of_batch"))


class HeldReports(Tasks):
    """The stored reports of all batches; thread-safe."""

    def __init__(self, database: AnyDatabase, vault: Vault, secrets: Secrets, random_bytes: RandomBytes) -> None:
        """Read them from one database, and decrypt them through one vault and a secret for each batch."""
        super().__init__(database, vault, secrets, random_bytes)
        self._data_keys: dict[int, DataKey] = {}

    def report_ids(self, *numbers: int) -> ReportIds:
        """Return the identifiers of all stored reports of some batches, sorted (see `ids_by_storing` for errors)."""
        lists = [self.ids_by_storing(number) for number in numbers]
        return sort_ids(np.concatenate(lists) if len(lists) > 1 else lists[0])[0]

    def ids_by_storing(self, batch: int, count: int | None = None) -> Bytes:
        """Return the identifiers of all, or the first `count`, reports in the order of storing, shape `(n, 32)`.

        Raises:
            UnavailableError: the database is damaged: some are not there.
        """
        with self.database.reading() as connection:
            if count is None:
                count = connection.execute(select(NUM_REPORTS).where(batches.c.batch == batch)).scalar() or 0
            return all_ids(connection, batch, count)

    def missing(self, batch: int, stored: ReportIds) -> IntArray:
        """Return where in a batch's sorted list stand reports that the frozen cohort lacks, ascending, shape `(k,)`.

        Args:
            batch: its number here.
            stored: that list, which only a batch needs that an earlier version froze.
        """
        columns = select(batches.c.missing, batches.c.excluded).where(batches.c.batch == batch)
        with self.database.reading() as connection:
            places, excluded = connection.execute(columns).one()
        if places is not None:
            return decode_positions(places)
        outside = ReportIds.parse(excluded or b"", len(excluded or b""))
        return np.flatnonzero(stored.among(outside))

    def rejected(self, batch: int) -> IntArray:
        """Return where in a frozen cohort stand reports that the verdict rejected, ascending, shape `(k,)`.

        There are none before there is a verdict. They are told apart from `missing`: a cohort stays what was frozen.
        """
        query = select(batches.c.rejected).where(batches.c.batch == batch)
        with self.database.reading() as connection:
            return decode_positions(connection.execute(query).scalar_one() or b"")

    def ranks(self, batch: int) -> NDArray[np.uint32]:
        """Return the rank in the frozen cohort of every stored report in the order of storing, shape `(n,)`.

        `EXCLUDED` stands for those that are not in it.
        """
        stored, order = sort_ids(self.ids_by_storing(batch))
        kept = np.delete(order, self.missing(batch, stored))
        ranks = np.full(len(stored), EXCLUDED, np.uint32)
        ranks[kept] = np.arange(len(kept), dtype=np.uint32)
        return ranks

    def segments(self, batch: int) -> StoredSegments:
        """Return what a batch holds, segment by segment; whoever reads keeps it from being rewritten meanwhile.

        Raises:
            UnavailableError: the batch's secret was destroyed.
        """
        with self.database.reading() as connection:
            key = self._data_key(connection, batch)
        return StoredSegments(self.database, batch, key)

    def _data_key(self, connection: Connection, batch: int) -> DataKey:
        if batch not in self._data_keys:
            wrapped, name = connection.execute(_WRAPPED_KEY, {"of_batch": batch}).one()
            key = self._under(name).unwrap(wrapped or b"", "batch key", batch.to_bytes(8, "big"))
            self._data_keys[batch] = DataKey(key, self._random_bytes)
        return self._data_keys[batch]

    def _under(self, name: bytes | None) -> Vault:
        secret = self._secrets.get(name) if name else None
        if secret is None:
            raise UnavailableError("the secret of this batch was destroyed, or is missing from key_dir")
        return self._vault.under(secret)
