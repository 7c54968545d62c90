"""Limits attempts to sign in: a token cannot be guessed, but each attempt costs work."""

from collections import OrderedDict, deque
from collections.abc import Callable

from lintra_protocol.errors import OverloadedError

MOST_FAILURES = 10
SECONDS = 300.0
MOST_PEERS = 10_000


class Attempts:
    """Failures to sign in, by peer; addresses are forgotten when the time is over, and never logged."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Know of none. `clock` gives seconds since any fixed moment."""
        self._clock = clock
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()

    def require(self, peer: str) -> None:
        """Check that a peer may try; raise OverloadedError if it failed too often of late."""
        before = self._clock() - SECONDS
        # Sorted by the last failure, so that those to forget stand in front.
        while self._failed and next(iter(self._failed.values()))[-1] < before:
            self._failed.popitem(last=False)
        if sum(time >= before for time in self._failed.get(peer, ())) >= MOST_FAILURES:
            raise OverloadedError(
                f"{MOST_FAILURES} failures to sign in from this address within {SECONDS / 60:g} minutes; wait a little"
            )

    def failed(self, peer: str) -> None:
        """Count a failure."""
        self._failed.setdefault(peer, deque(maxlen=MOST_FAILURES)).append(self._clock())
        self._failed.move_to_end(peer)
        # With more addresses than this the oldest are let go: memory stays bounded whoever tries.
        while len(self._failed) > MOST_PEERS:
            self._failed.popitem(last=False)
