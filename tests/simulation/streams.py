"""Streams in a simulation: what servers draw, remember and take back, held against rules R-S1 to R-S5."""

import random
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.fields.windows import Stream, Windows
from lintra_protocol.mechanisms import stream_noise as drawing
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.task import Task
from lintra_server.batches import stream_rows
from lintra_server.durability.journal import BatchId
from lintra_server.storage.stream_memory import StreamMemory
from simulation.books import Course, batch_key, law
from vectors import plain

STREAMS = (
    None,
    Stream(damping="1", blur="0.1"),
    Stream(damping="0.5", blur="0"),
    Stream(damping="1", blur="0.5", memory=2),
)

OTHER_NOISE = "noise of a window of a stream is none that its server drew"
FRESH_TWICE = "fresh noise is in two windows of a stream"
NAMES_OTHERS = "a share names other windows than those whose memory entered"
OF_ANOTHER = "a memory entered that is of another release than the one given out"
WAS_LOST = "a memory entered that was lost"
DESCENDING = "a window of a stream was released after a later one"

RowKey = tuple[str, int]
"""A stream's task, and a server."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """One draw: the noise of a window, which memories entered, and what is remembered."""

    row: int
    memories: Mapping[int, IntArray]
    noise: IntArray
    memory: IntArray


@dataclass
class StreamBooks:
    """What is known of all streams of a simulation.

    Attributes:
        drawn: every draw of every server.
        shares: the noise of each share that was given out, by task and server, then by window.
        entered: what a memory that entered a share was drawn with, likewise.
        fresh: fresh noise of shares that were given out, and where it was.
        asked: the last window whose release somebody asked for, by task and server.
        lost: how many draws there were when a server lost its memory, by server.
        files: all that files of memories ever held.
    """

    drawn: list[Drawn] = field(default_factory=list)
    shares: defaultdict[RowKey, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    entered: defaultdict[RowKey, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    fresh: dict[bytes, tuple[RowKey, int]] = field(default_factory=dict)
    asked: dict[RowKey, int] = field(default_factory=dict)
    lost: dict[int, int] = field(default_factory=dict)
    files: defaultdict[Path, list[bytes]] = field(default_factory=lambda: defaultdict(list))

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Note every draw, and every file of a memory, from now on."""
        draw, write = stream_rows.stream_noise, StreamMemory.write

        def kept(memory: StreamMemory, batch: BatchId, released: bytes, words: IntArray) -> None:
            write(memory, batch, released, words)
            path = memory._files._path(batch.name)
            self.files[path].append(path.read_bytes())

        def watched(
            measurement: Measurement, row: int, memories: Mapping[int, IntArray], random_bytes: RandomBytes
        ) -> tuple[IntArray, IntArray]:
            noise, memory = draw(measurement, row, memories, random_bytes)
            self.drawn.append(Drawn(row, dict(memories), noise.copy(), memory.copy()))
            return noise, memory

        patch.setattr(stream_rows, "stream_noise", watched)
        patch.setattr(StreamMemory, "write", kept)

    def wanted(self, course: Course, server: int, name: str) -> None:
        """Note that somebody asks a server for a document, which may give up earlier windows (R-S2)."""
        if name == "aggregate" and course.task.stream is not None:
            key = course.task.task_id, server
            self.asked[key] = max(course.batch, self.asked.get(key, 0))

    def overtaken(self, course: Course, server: int) -> bool:
        """Return whether a later window's release may have given up this one at a server (R-S2)."""
        return course.batch < self.asked.get((course.task.task_id, server), 0)

    def forget(self, folder: Path, server: int) -> None:
        """Take away what a server remembers, which does not run."""
        self.lost[server] = len(self.drawn)
        shutil.rmtree(folder / "streams", ignore_errors=True)

    def put_back(self, folder: Path, server: int, chance: random.Random) -> None:
        """Put back files that held a server's memories before, also those of attempts that released nothing."""
        self.lost.pop(server, None)
        for path, held in self.files.items():
            if path.is_relative_to(folder) and path.parent.exists():
                path.write_bytes(chance.choice(held))
                path.chmod(0o600)

    def check_share(self, course: Course, server: int, noise: list[int], remembered: Sequence[int] | None) -> None:
        """Hold the noise of a share against what its server drew.

        (law) It was drawn for this window. (law) Fresh noise is in one window only (R-S1). (law) What entered is of
        the releases that were given out (R-S3), and was not lost (R-S4). (law) The share names it (R-S5).
        """
        stream, key = course.task.stream, (course.task.task_id, server)
        assert stream is not None
        words = np.array(noise, np.int64)
        found = [one for one in self.drawn if one.row == course.batch and np.array_equal(one.noise, words)]
        law(len(found) == 1, OTHER_NOISE, course.key, f"server {server}", len(found))
        if not found:
            return  # where another law is listened to
        one = found[0]
        fresh = (words + drawing.carried(stream, course.batch, one.memories, words.size)).tobytes()
        before = self.fresh.setdefault(fresh, (key, course.batch))
        law(before == (key, course.batch), FRESH_TWICE, course.key, f"server {server}", before)
        law(remembered == tuple(sorted(one.memories)), NAMES_OTHERS, course.key, remembered, sorted(one.memories))
        self.shares[key][course.batch] = words.tobytes()
        place = self.drawn.index(one)
        for window, memory in one.memories.items():
            of = [n for n, each in enumerate(self.drawn) if each.row == window and np.array_equal(each.memory, memory)]
            law(len(of) == 1, OF_ANOTHER, course.key, window, len(of))
            law(not of[0] < self.lost.get(server, 0) <= place, WAS_LOST, course.key, f"server {server}", window)
            self.entered[key][window] = self.drawn[of[0]].noise.tobytes()
        given, entered = self.shares[key], self.entered[key]
        wrong = [window for window in entered.keys() & given.keys() if entered[window] != given[window]]
        law(not wrong, OF_ANOTHER, course.key, f"server {server}", *wrong)

    def check_order(self, task: Task, server: int, released: Sequence[str]) -> None:
        """(law) A server releases the windows of a stream in ascending order, as its journal says (R-S2)."""
        numbers = [n for key in released for n in range(task.num_batches) if key == batch_key(task.task_id, n)]
        law(numbers == sorted(set(numbers)), DESCENDING, f"server {server}", *numbers)


def noise_of(found: list[list[int]], exact: list[list[int]]) -> list[int]:
    """Return what a share of one row holds beside the reference's."""
    return [plain.lift((noised - without) % plain.RING) for noised, without in zip(found[0], exact[0], strict=True)]


def in_a_stream(task: Task, windows: Windows, stream: Stream) -> Task:
    """Return a task whose servers add the noise, with windows that are a stream, calibrated anew."""
    told = windows.model_copy(update={"stream": stream})
    streaming = task.model_copy(update={"windows": told})
    calibrated = Measurement(
        task.mechanism, task.num_columns, streaming.measurement.setting, streaming.noise_claim
    ).calibrated(task.max_clients)
    return streaming.model_copy(update={"mechanism": calibrated.mechanism})
