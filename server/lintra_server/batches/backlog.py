"""Estimates how long a new upload would wait: bytes that are being opened and stored, over the recent speed of that.

An early refusal is better than a late answer: a refused client comes again later, while one whose request timed out
sends the same again and makes the queue longer.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lintra_protocol.errors import OverloadedError

SLOWEST, WEIGHT = 1e-6, 0.1
"""Seconds a byte before anything was measured (a megabyte in a second), and how much the last upload counts."""


class Backlog:
    """Uploads that are being worked on; used from one event loop only."""

    def __init__(self, max_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Wait for nothing yet.

        `max_seconds` limits the work that may be ahead of an upload; `clock` is a steady one, in seconds.
        """
        self._max_seconds = max_seconds
        self._clock = clock
        self._bytes = 0
        self._seconds_per_byte = SLOWEST
        self._busy_since = 0.0
        self._done = 0

    @property
    def seconds(self) -> float:
        """Return how long an upload that came now would wait."""
        return self._bytes * self._seconds_per_byte

    @contextmanager
    def of(self, count: int) -> Iterator[None]:
        """Work on an upload of so many bytes; raise OverloadedError if too much is ahead of it."""
        if self.seconds > self._max_seconds:
            raise OverloadedError(f"{self.seconds:.0f} s of work are waiting, {self._max_seconds:g} s are allowed")
        if not self._bytes:
            self._busy_since, self._done = self._clock(), 0
        self._bytes += count
        try:
            yield
        finally:
            self._bytes -= count
            # Speed is what leaves while there is work, not what one upload takes: several are in the works at once.
            self._done += count
            speed = (self._clock() - self._busy_since) / self._done
            self._seconds_per_byte += WEIGHT * (speed - self._seconds_per_byte)
