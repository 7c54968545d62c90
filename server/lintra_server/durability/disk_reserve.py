"""Room for the journal, a step file and its commit, kept from the start on: a full disk stops uploads, never a release.

A file of zeros lies in each folder. When a write meets a full disk both files are removed, and the write is tried once
more; when there is space again they are made again. To destroy something needs no room: it is overwritten in place.
"""

import errno
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy.exc import OperationalError

from lintra_protocol.errors import UnavailableError
from lintra_server.durability.private_files import sync_folder, write_new

RESERVE_FILE = "reserve"
_FULL = "database or disk is full"
"""SQLite's words."""


class Reserve:
    """The files that keep room free."""

    def __init__(self, folders: Sequence[Path], size: int) -> None:
        """Keep so many bytes in each folder, or none."""
        self._paths = [folder / RESERVE_FILE for folder in folders]
        self._size = size

    def use(self) -> bool:
        """Give the room to whoever needs it now; return whether there was any."""
        held = [path for path in self._paths if path.exists()]
        for path in held:
            path.unlink(missing_ok=True)
            sync_folder(path.parent)
        return bool(held)

    def refill(self) -> None:
        """Keep the room again, if it was used or another amount was asked for.

        Raises UnavailableError if there is not enough free disk for it yet.
        """
        for path in self._paths:
            if path.exists() and path.stat().st_size == self._size:
                continue
            path.unlink(missing_ok=True)
            if not self._size:
                continue
            if shutil.disk_usage(path.parent).free <= self._size:
                raise UnavailableError(f"{path.parent.name}: no room is left to keep {self._size} bytes for releases")
            try:
                # Written, not announced: a file with holes keeps nothing.
                write_new(path, bytes(self._size))
            except OSError as error:
                raise UnavailableError(f"{path.parent.name}: {os.strerror(error.errno or errno.EIO)}") from None


def is_full(error: BaseException) -> bool:
    """Return whether a write failed because the disk is full."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return isinstance(error, OperationalError) and _FULL in str(error)
