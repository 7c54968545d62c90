"""Looks: what an analyst heard of an open batch, once per time unit. A row counts only if this server wrote it."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, insert

from lintra_protocol.encoding.canonical import canonical_json
from lintra_server.storage.database import looks
from lintra_server.storage.schema import as_read

Mac = Callable[..., bytes]
"""Authenticates what only this server may have written."""


@dataclass(frozen=True)
class Look:
    """The last look at a batch; `counted_at` and `census` are None if none was taken while it was open."""

    told_at: int
    counters: bytes
    counted_at: int | None
    reports: int
    census: bytes | None

    def encode(self) -> bytes:
        """Return what its row is authenticated by."""
        census = "" if self.census is None else self.census.hex()
        return canonical_json([self.told_at, self.counters.hex(), self.counted_at, self.reports, census])

    def keep(self, connection: Connection, batch: int, mac: Mac, name: bytes) -> None:
        """Write it in the place of the one before. `name` is that of its batch, as notes have it."""
        connection.execute(looks.delete().where(looks.c.batch == batch))
        row = {"batch": batch, "mac": mac("look", name, self.encode()), **vars(self)}
        connection.execute(insert(looks), row)


def look_at(connection: Connection, batch: int, mac: Mac, name: bytes) -> Look | None:
    """Return the last look at a batch; None if there was none, or if this server did not write its row."""
    row = connection.execute(as_read(looks).where(looks.c.batch == batch)).one_or_none()
    return None if row is None else look_of(row, mac, name)


def look_of(row: Row[*tuple[Any, ...]], mac: Mac, name: bytes) -> Look | None:
    """Return what a row of the table says of the batch of this name, or None if this server did not write it."""
    look = Look(row.told_at, row.counters, row.counted_at, row.reports, row.census)
    try:
        return look if hmac.compare_digest(row.mac, mac("look", name, look.encode())) else None
    except (AttributeError, TypeError, ValueError):  # a value of another kind than was written
        return None
