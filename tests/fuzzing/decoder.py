"""What holds for everything that reads a stranger's bytes.

A decoder either returns something that encodes to the very bytes it read, or refuses it in words: nothing else, in
bounded time and memory. Where many bytes have one meaning, as in a CSV file, only the second half holds.
"""

import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lintra_protocol.errors import LintraError

MOST_SECONDS = 5.0
"""For one input of at most a few thousand bytes, on a machine that does other things, too."""

MOST_BYTES = 256 << 20
"""Of address space beyond what the process has already; on Linux, where the system holds a process to it."""

Decode = Callable[[bytes], bytes | None]


class UnlawfulError(AssertionError):
    """A decoder did something else than its law says."""


@dataclass(frozen=True)
class Decoder:
    """One reader of foreign bytes.

    Attributes:
        decode: reads bytes and returns what it read, encoded again; None where that need not be the same.
        seeds: good inputs.
        is_json: whether to change values inside documents, too, and not only bytes.
        refusal: what it raises for bad input.
    """

    decode: Decode
    seeds: Sequence[bytes] = field(repr=False)
    is_json: bool = False
    refusal: type[Exception] = LintraError

    def check(self, data: bytes) -> bool:
        """Return whether an input is good.

        Raises:
            UnlawfulError: another error than a refusal, another encoding, too long, or too much memory.
        """
        started = time.monotonic()
        try:
            with bounded_memory(MOST_BYTES):
                again = self.decode(data)
        except self.refusal:
            again = None
            good = False
        except Exception as error:
            raise UnlawfulError(f"{type(error).__name__}: {error}") from error
        else:
            good = True
        if again is not None and again != data:
            raise UnlawfulError("what was read encodes to other bytes")
        if time.monotonic() - started > MOST_SECONDS:
            raise UnlawfulError(f"reading took more than {MOST_SECONDS} s")
        return good


@contextmanager
def bounded_memory(most: int) -> Iterator[None]:
    """Let this process have so many bytes of address space more, and no more; beyond, allocations fail."""
    pages = Path("/proc/self/statm")
    if not pages.exists():
        yield
        return
    taken = int(pages.read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard - taken)
    resource.setrlimit(resource.RLIMIT_AS, (taken + most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
