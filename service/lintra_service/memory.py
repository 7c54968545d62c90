"""What a service gives back to the system: arrays of a release that are not needed any more, at once."""

import ctypes
import ctypes.util

LARGE_BYTES = 1 << 20

_MMAP_THRESHOLD = -3
"""M_MMAP_THRESHOLD of glibc's malloc.h."""


def give_back_large_blocks() -> bool:
    """Have every block of a mebibyte or more given back when it is freed; return whether the allocator knows how.

    By itself glibc learns from the first large block that is freed to keep blocks of up to 32 MiB, in a heap for each
    thread: a service that once held lists of a million identifiers in its threads would keep their room for ever.
    """
    name = ctypes.util.find_library("c")
    library = ctypes.CDLL(name) if name else None
    mallopt = getattr(library, "mallopt", None)
    return mallopt is not None and bool(mallopt(_MMAP_THRESHOLD, LARGE_BYTES))
