"""Batches that take no reports while they are being closed, and take them again if closing fails.

A journal line or an error ends the closing of a batch. After an error the batch is opened again at once, or as soon as
a failed database answers. A start opens all of them (see `starting`).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

from lintra_protocol.errors import CohortTooSmallError
from lintra_server.storage.batch_states import BatchStates
from lintra_server.storage.store import Store
from lintra_server.storage.transition_log import Stepper


class Closing:
    """The batches of one server that are being closed; thread-safe."""

    def __init__(self, store: Store, states: BatchStates, stepper: Stepper) -> None:
        """Close none.

        `store` knows how many reports there are; `stepper` knows whether a step has its journal line.
        """
        self._store = store
        self._states = states
        self._stepper = stepper
        self._lock = Lock()
        self._in_hand = set[int]()
        self._left = set[int]()

    @contextmanager
    def stopped(self, members: Sequence[int], min_clients: int) -> Iterator[bool]:
        """Let batches take no reports while the last of them is closed with the others; say whether they were open.

        `members` are their numbers in the store; the caller sees to it that nobody else closes one of them meanwhile.
        `min_clients` is the fewest reports of all.
        """
        *others, last = members
        with self._lock:
            self._in_hand.update(members)
        try:
            # From here on they may be closing: of a commit that failed nobody knows whether it happened.
            new = set(members) - self._left
            self._left.update(new)
            try:
                stopped = self._stepper.with_room(
                    lambda: self._states.begin_closing(last, self._store, min_clients, others)
                )
            except CohortTooSmallError:
                self._left.difference_update(new)
                raise
            try:
                yield stopped
            finally:
                self._open_again(set(members))
        finally:
            with self._lock:
                self._in_hand.difference_update(members)

    def settle(self) -> None:
        """Open what an error left closing, unless somebody is closing it again."""
        if self._left:
            with self._lock:
                self._open_again(self._left - self._in_hand)

    def _open_again(self, numbers: set[int]) -> None:
        """Open those of some batches that are closing still; none while a step has its journal line and no more."""
        numbers = numbers & self._left
        if numbers and not self._stepper.in_flight:
            # Of a batch that was closed it changes nothing.
            self._stepper.with_room(lambda: self._states.reopen(*sorted(numbers)))
            self._left.difference_update(numbers)
