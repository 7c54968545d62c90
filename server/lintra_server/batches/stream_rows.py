"""The noise of a server in the windows of a stream: rows in ascending order, each drawn once, with what is remembered.

Rule numbers are those of docs/reference/protocol-rules.md#rules.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import IntArray, RingArray, to_ring
from lintra_protocol.errors import AbandonedError, UnavailableError
from lintra_protocol.mechanisms.stream_noise import stream_noise
from lintra_server.batches.registry import RegisteredBatch
from lintra_server.durability.journal import BatchId
from lintra_server.storage.history import BatchHistory, History
from lintra_server.storage.stream_memory import WAS_RELEASED, StreamMemory
from lintra_server.storage.transition_log import Step, Stepper

_TRIES = 5
"""How often a window is given up again whose state changed meanwhile."""


@dataclass(frozen=True)
class DrawnNoise:
    """What a window's noise leaves: the windows whose memory entered, and its own memory, shape `(w,)`."""

    remembered: tuple[int, ...] | None = None  #: None where windows are no stream
    memory: IntArray | None = field(default=None, repr=False)


class StreamRows:
    """Draws the noise of a server; thread-safe. Windows of a stream take turns, all others do not wait."""

    def __init__(self, history: History, stepper: Stepper, memory: StreamMemory, random_bytes: RandomBytes) -> None:
        """Draw noise from a source of random bytes, beside what was remembered."""
        self._history = history
        self._stepper = stepper
        self._memory = memory
        self._random_bytes = random_bytes
        self._turns: defaultdict[bytes, Lock] = defaultdict(Lock)

    @contextmanager
    def turn(self, held: RegisteredBatch) -> Iterator[None]:
        """Let no other window of the same stream be drawn, and give up earlier ones that were not released (R-S2).

        Raises:
            AbandonedError: this window, or a later one, was released before.
            UnavailableError: an earlier window cannot be given up now.
        """
        if held.task.stream is None:
            yield
            return
        with self._turns[held.task.id_bytes]:
            windows = self._history.of_task(held.task.id_bytes)
            if any(each.state in WAS_RELEASED and each.batch.number >= held.batch for each in windows):
                raise AbandonedError(
                    f"window {held.batch} was not released when a later one of its stream was, and never will be"
                )
            for window in windows:
                if window.batch.number < held.batch:
                    self._give_up(window)
            yield

    def add_noise(self, held: RegisteredBatch, share: RingArray) -> DrawnNoise:
        """Add this server's noise to its share, in place; once for each release, in its turn (R-S1)."""
        task, stream = held.task, held.task.stream
        if stream is None:
            task.measurement.add_server_noise(share, self._random_bytes)
            return DrawnNoise()
        memories = dict[int, IntArray]()
        for window in self._history.of_task(task.id_bytes):
            wanted = window.batch.number in stream.remembered_by(held.batch)
            if wanted and (found := self._memory.of(window)) is not None:  # R-S3
                memories[window.batch.number] = found
        noise, memory = stream_noise(task.measurement, held.batch, memories, self._random_bytes)
        share += to_ring(noise)[np.newaxis]
        return DrawnNoise(tuple(sorted(memories)), memory)

    def remember(self, held: RegisteredBatch, drawn: DrawnNoise, released: bytes) -> None:
        """Keep what is remembered of a window, durably, before the journal says that it is released."""
        memory, batch = drawn.memory, BatchId(held.task.id_bytes, held.batch)
        if memory is not None:
            self._stepper.with_room(lambda: self._memory.write(batch, released, memory))

    def forget_used(self, held: RegisteredBatch) -> None:
        """Forget what no later window needs."""
        stream = held.task.stream
        if stream is None:
            return
        following = stream.remembered_by(held.batch + 1)
        first = following.start if held.batch + 1 < stream.rows else stream.rows
        for window in self._history.of_task(held.task.id_bytes):
            if window.batch.number < first:
                self._memory.forget(window.batch)

    def _give_up(self, window: BatchHistory) -> None:
        for _ in range(_TRIES):
            if window.is_final:
                return
            batch = window.batch
            step = Step(
                self._stepper.start, "abandoned", batch.task_id, window.state, {"state": "abandoned"}, batch.number
            )
            if self._stepper.perform(step):
                return
        raise UnavailableError(f"{window.batch} is changing; ask again later")
