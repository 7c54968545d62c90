"""Checks in the background, every ten seconds, whether requests can be served; the last result is answered.

Each look rewrites and syncs one block in every folder that the service keeps, so that a full, read-only or hanging
disk shows before a request meets it; and a look that hangs shows too, since what was seen grows old.
"""

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import structlog

from lintra_protocol.errors import LintraError, UnavailableError

PROBE_SECONDS = 10
OLD_SECONDS = 30
"""What was seen longer ago says nothing."""

BLOCK_BYTES = 4096
PROBE_FILE = ".probe"

_log = structlog.get_logger()


class Readiness:
    """The last look at what a service needs; `probe` from any thread, `require` from any other."""

    def __init__(
        self,
        folders: Sequence[Path],
        checks: Mapping[str, Callable[[], None]],
        min_free_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Have seen nothing yet, so not be ready.

        `folders` says where the service writes. `checks` are by the name of what they look at; each raises if it is not
        well. `min_free_bytes` is on the disk of every folder; `clock` is a steady one, in seconds.
        """
        self._folders = folders
        self._checks = checks
        self._min_free_bytes = min_free_bytes
        self._clock = clock
        self._seen: tuple[float, LintraError | None] | None = None
        self._crowded: UnavailableError | None = None

    def probe(self) -> None:
        """Look once, and remember what was seen."""
        began = self._clock()
        error = self._look()
        before = self._seen[1] if self._seen else None
        if error and str(error) != str(before):
            _log.warning("not ready", reason=error.detail or error.token)
        elif before and not error:
            _log.info("ready again")
        # The time before the look: a look that took long saw what was true then.
        self._seen = (began, error)

    def require(self) -> None:
        """Pass if the last look found everything well, and was not long ago.

        Raises UnavailableError if nobody has looked, or the last look was too long ago; or the
        LintraError that it found.
        """
        self.require_space()
        if self._seen is None:
            raise UnavailableError("nothing was looked at yet")
        when, error = self._seen
        age = self._clock() - when
        if age > OLD_SECONDS:
            raise UnavailableError(f"the last look is {age:.0f} s old: a disk may hang")
        if error is not None:
            raise error

    def require_space(self) -> None:
        """Pass unless the last look found too little free disk; what is left is for releases, not for uploads.

        Raises UnavailableError if there is too little.
        """
        if self._crowded is not None:
            raise self._crowded

    def _look(self) -> LintraError | None:
        try:
            self._crowded = next(filter(None, map(self._short_of_space, self._folders)), None)
            for folder in self._folders:
                rewrite_block(folder)
        except OSError as error:
            return UnavailableError(f"a folder of this service cannot be written: {error.strerror}")
        for name, check in self._checks.items():
            try:
                check()
            except LintraError as error:
                return error
            except Exception as error:  # whatever keeps it from working
                return UnavailableError(f"{name}: {type(error).__name__}")
        return self._crowded

    def _short_of_space(self, folder: Path) -> UnavailableError | None:
        free = shutil.disk_usage(folder).free
        if free >= self._min_free_bytes:
            return None
        return UnavailableError(f"{folder.name}: {free} bytes are free, {self._min_free_bytes} are needed")


def rewrite_block(folder: Path) -> None:
    """Write one block in a folder and wait until it is on the disk."""
    # Not truncated: on a full disk an old block could be rewritten, so the block is made anew each time.
    path, fresh = folder / PROBE_FILE, folder / f"{PROBE_FILE}.new"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, os.urandom(BLOCK_BYTES))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    fresh.replace(path)
