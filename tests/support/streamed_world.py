"""Streams in a world of servers: a task whose windows remember noise, and what its servers draw and release."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO

import numpy as np
import pytest

from lintra_protocol import ideal
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import IntArray, RingArray, from_ring, ring_from_bytes
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.fields.windows import Stream
from lintra_protocol.mechanisms import stream_noise as drawing
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.messages.documents import Signed, SketchShareRecord
from lintra_protocol.report.wire import decode_sealed_document
from lintra_protocol.rules.release import aggregate_context
from lintra_protocol.task import Task
from lintra_server.batches import stream_rows
from support.server_world import World
from support.windowed_world import WINDOWS, at, frozen, reports_of, shares_of, windowed

STREAM = Stream(damping="1", blur="0.1")


def streamed(task: Task, stream: Stream = STREAM) -> Task:
    """Return six windows of two hours with noise of servers that remember it, as much as keeps the claim."""
    task = windowed(task, WINDOWS.model_copy(update={"stream": stream}))
    setting = Setting(None, task.num_servers, stream=task.stream)
    calibrated = Measurement(task.mechanism, task.num_columns, setting, task.noise_claim).calibrated(task.max_clients)
    return task.model_copy(update={"mechanism": calibrated.mechanism, "noise": "servers"})


class RecordedSource:
    """A source that remembers what it gave."""

    def __init__(self, random_bytes: RandomBytes) -> None:
        self._random_bytes = random_bytes
        self.given = b""

    def __call__(self, count: int) -> bytes:
        self.given += (data := self._random_bytes(count))
        return data

    def again(self, start: int) -> RandomBytes:
        """Return a source that gives the same from some byte on."""
        return BytesIO(self.given[start:]).read


@dataclass(frozen=True)
class Draw:
    """One draw of a server's noise: of which window, beside which memories, what entered, and what is remembered."""

    row: int
    memories: Mapping[int, IntArray]
    noise: IntArray
    memory: IntArray


@dataclass
class Draws:
    """All draws of all servers, in order."""

    made: list[Draw] = field(default_factory=list)

    def watch(self, patched: pytest.MonkeyPatch) -> None:
        """Note every draw from now on."""

        def watched(
            measurement: Measurement, row: int, memories: Mapping[int, IntArray], random_bytes: RandomBytes
        ) -> tuple[IntArray, IntArray]:
            noise, memory = drawing.stream_noise(measurement, row, memories, random_bytes)
            self.made.append(Draw(row, dict(memories), noise.copy(), memory.copy()))
            return noise, memory

        patched.setattr(stream_rows, "stream_noise", watched)

    def of(self, row: int, noise: IntArray) -> Draw:
        """Return the one draw of a window that gave this noise."""
        (found,) = (draw for draw in self.made if draw.row == row and np.array_equal(draw.noise, noise))
        return found


async def collected(world: World, *windows: int) -> None:
    """Send reports of some windows, and let all of these end."""
    for window in windows:
        at(world, 2 * window + 0.5)
        await world.upload_everywhere(reports_of(world, window))
        at(world, 2 * window + 3)


async def released(world: World, window: int) -> list[bytes]:
    """Do the whole exchange of a window; return the answers of both servers."""
    _, request = await frozen(world, window)
    return await shares_of(world, window, request)


def opened_share(world: World, window: int, server: int, body: bytes) -> tuple[SketchShareRecord, RingArray]:
    """Return one server's record and share of a window."""
    document, sealed = decode_sealed_document(body)
    record = Signed[SketchShareRecord].from_canonical(document).verified(world.task.servers[server].identity_key)
    root, seed = parse_base64url(record.cohort_root), parse_base64url(record.seed)
    context = aggregate_context(world.task, window, server, root, seed)
    words = ring_from_bytes(world.sealing_key.open(sealed, context))
    return record, words.reshape(record.rows, record.words)


def noise_in(world: World, window: int, server: int, body: bytes) -> IntArray:
    """Return what a server's share of a window holds beside its shares of the reports, shape `(w,)`."""
    record, share = opened_share(world, window, server, body)
    ordered = sorted(reports_of(world, window), key=lambda report: report.report_id)
    matrix = world.task.mechanism.public_matrix(len(ordered), parse_base64url(record.seed))
    return from_ring(share - ideal.server_sketch_share(world.task, server, ordered, matrix))[0]
