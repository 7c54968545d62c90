"""Limits how many bytes from unauthenticated senders are held at once: bytes that came, not bytes that were announced.

A sender that announces much and sends little takes no room from anybody. One that sends much is bounded by the budget,
and, once half of it is used, by a share of its own: before that a share would only hurt honest clients behind one
address.
"""

from collections import Counter
from types import TracebackType
from typing import Self

from lintra_protocol.errors import OverloadedError

PEER_SHARE = 8
"""A peer may hold this part of a budget, one over it, while more than half is used."""


class ByteBudget:
    """A budget of bytes; used from one event loop only."""

    def __init__(self, size: int, peer_share: int = PEER_SHARE) -> None:
        """Hold nothing yet.

        `size` is the most bytes that all leases hold together. While more than half is used, one peer holds at most one
        over `peer_share`.
        """
        self.size = size
        self.used = 0
        self._peer_limit = size // peer_share
        self._peers: Counter[str] = Counter()

    def lease(self, peer: str) -> "Lease":
        """Return a lease for one request of a peer; it holds nothing before it takes, and gives all back at its end."""
        return Lease(self, peer)

    def require(self) -> None:
        """Check that something could be taken now; raise OverloadedError if all is used."""
        if self.used >= self.size:
            raise OverloadedError(f"{self.used} bytes are being received or written")

    def take(self, peer: str, count: int, held: int) -> None:
        """Count bytes that came from a peer, for a request that holds some already.

        Raises OverloadedError if too much is being received, from everybody or from this address.
        """
        used = self.used + count
        # A request alone is taken whatever its size, or it could never be.
        if self.used > held and used > self.size:
            raise OverloadedError(f"{self.used} bytes are being received or written")
        if used > self.size // 2 and self._peers[peer] > held and self._peers[peer] + count > self._peer_limit:
            raise OverloadedError("this address has sent more than its share of what is being received")
        self.used = used
        self._peers[peer] += count

    def give(self, peer: str, count: int) -> None:
        """Take back what a request held."""
        self.used -= count
        self._peers[peer] -= count
        # What is zero is forgotten: addresses are not kept.
        if not self._peers[peer]:
            del self._peers[peer]


class Lease:
    """What one request holds of a budget, from its first byte until it is dealt with."""

    def __init__(self, budget: ByteBudget, peer: str) -> None:
        """Hold nothing yet."""
        self._budget = budget
        self._peer = peer
        self.held = 0

    def take(self, count: int) -> None:
        """Hold more."""
        self._budget.take(self._peer, count, self.held)
        self.held += count

    def __enter__(self) -> Self:
        """Begin, if anything could be taken."""
        self._budget.require()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give back everything."""
        self._budget.give(self._peer, self.held)
        self.held = 0


class OneAtATime:
    """Lets one request in; the others may come again."""

    def __init__(self, busy: str) -> None:
        """Be empty."""
        self._busy = busy
        self._inside = False

    def __enter__(self) -> None:
        """Go in; raise OverloadedError if somebody is inside."""
        if self._inside:
            raise OverloadedError(self._busy)
        self._inside = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the next one in."""
        self._inside = False
