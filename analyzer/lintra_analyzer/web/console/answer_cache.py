"""Keeps what was computed of a release for the next request: a release never changes, so neither do its answers."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

V = TypeVar("V")
Name = tuple[str, ...]


class AnswerCache(Generic[V]):
    """The answers that were asked for last, at most so many; a name says everything that an answer depends on."""

    def __init__(self, most: int) -> None:
        """Keep at most `most` answers."""
        self._most = most
        self._held: OrderedDict[Name, V] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, name: Name, make: Callable[[], V]) -> V:
        """Return an answer, which is made if it is not kept; what `make` raises is raised, and nothing kept."""
        with self._lock:
            if name in self._held:
                self._held.move_to_end(name)
                return self._held[name]
        # Two requests may compute the same at once: that costs less than making all others wait.
        made = make()
        with self._lock:
            self._held[name] = made
            while len(self._held) > self._most:
                self._held.popitem(last=False)
        return made
