"""Tells by kernel events whether files were changed by others, for a quarter of the price of a stat.

Reading a file's times makes the next write dearer: on ext4 that write must store a new time, so every synchronisation
writes one more block. Asking for an event touches no file.
"""

import ctypes
import os
import select
from collections.abc import Mapping
from pathlib import Path

MODIFIED, CLOSED_AFTER_WRITING, OPENED = 0x2, 0x8, 0x20
NAMES_CHANGED = 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
"""Of a folder: something in it was moved away, moved in, made, deleted; or the folder itself was deleted or moved."""

_BYTES = 1 << 16


class FileEvents:
    """Events of some files since they were last forgotten. Where the kernel tells none, there is always one."""

    def __init__(self, watched: Mapping[Path, int]) -> None:
        """Begin to watch; `watched` says of each file or folder which events count."""
        self._queue = _new_queue(watched)
        if self._queue is not None:
            self._waiting = select.epoll()  # several threads may ask one, as they may not ask a `poll`
            self._waiting.register(self._queue, select.EPOLLIN)

    def happened(self) -> bool:
        """Return whether there was an event, or whether there may have been one because nobody tells."""
        return self._queue is None or bool(self._waiting.poll(0))

    def forget(self) -> None:
        """Forget those that there were. Whoever does looks at the files afterwards, not before."""
        while self._queue is not None and self._waiting.poll(0):
            os.read(self._queue, _BYTES)

    def close(self) -> None:
        """Watch no longer; from now on there is always an event."""
        queue, self._queue = self._queue, None
        if queue is not None:
            self._waiting.close()
            os.close(queue)


def _new_queue(watched: Mapping[Path, int]) -> int | None:
    """Return a descriptor from which events are read; None where there are no such events, or no more descriptors."""
    try:
        library = ctypes.CDLL(None)
        queue = int(library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    except (OSError, AttributeError):
        return None
    if queue < 0:
        return None
    for path, events in watched.items():
        if library.inotify_add_watch(queue, os.fsencode(path), ctypes.c_uint32(events)) < 0:
            os.close(queue)
            return None
    return queue
