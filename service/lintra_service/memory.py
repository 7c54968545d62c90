"""Returns the memory of a release's arrays to the system as soon as they are not needed any more."""

import ctypes
import ctypes.util

LARGE_BYTES = 4 << 20
"""Blocks from this size on come from the system and go back to it, in pages of two mebibytes where it has them."""

KEPT_BYTES = 8 << 20
"""What a heap keeps for the next smaller blocks: a page that the system hands out costs more than most work on it."""

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1
"""M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of glibc's malloc.h."""


def give_back_large_blocks() -> bool:
    """Have every block of four mebibytes or more given back when it is freed; return whether the allocator knows how.

    By itself glibc learns from the first large block that is freed to keep blocks of up to 32 MiB, in a heap for each
    thread: a service that once held lists of a million identifiers in its threads would keep their room for ever. Told
    where a large block begins, it would also give back whatever is free beyond 128 KiB, and ask for it again for the
    next array of the same loop.
    """
    name = ctypes.util.find_library("c")
    library = ctypes.CDLL(name) if name else None
    mallopt = getattr(library, "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, LARGE_BYTES)) and bool(mallopt(_TRIM_THRESHOLD, KEPT_BYTES))
