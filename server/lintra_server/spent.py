"""Tokens that were used: a token is good for one report in a window, and for that one again.

A report lost at one server is completed with the same token; another report in its place is refused.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, insert, select

from lintra_protocol.messages import BATCH
from lintra_server.database import spent_tokens

_SERIALS_PER_QUERY = 512
_USED = select(spent_tokens.c.serial).where(
    spent_tokens.c.task == bindparam("task"),
    spent_tokens.c.window == bindparam("window"),
    spent_tokens.c.serial.in_(bindparam("serials", expanding=True)),
)
_USE = insert(spent_tokens)


class Spent:
    """The tokens of some uploads, within the transaction that stores their reports."""

    def __init__(self, connection: Connection, task: int, serials: Sequence[bytes]) -> None:
        """Look up which of the serials were used before."""
        self._connection = connection
        self._of = {"task": task, "window": BATCH}
        self._used: set[bytes] = set()
        self._new: list[dict[str, object]] = []
        for start in range(0, len(serials), _SERIALS_PER_QUERY):
            some = {"serials": serials[start : start + _SERIALS_PER_QUERY]}
            self._used.update(connection.execute(_USED, self._of | some).scalars())

    def is_used(self, serial: bytes | None) -> bool:
        """Return whether a token was used for a report; without tokens nothing is."""
        return serial in self._used

    def use(self, serial: bytes | None, report_id: bytes) -> None:
        """Use a token for a report that is stored in this transaction."""
        if serial is not None:
            self._used.add(serial)
            self._new.append({**self._of, "serial": serial, "report_id": report_id})

    def keep(self) -> None:
        """Write down what was used."""
        if self._new:
            self._connection.execute(_USE, self._new)
