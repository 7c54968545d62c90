"""An opener: a process that takes uploads, opens and checks them, and hands what is good to the gate.

It holds the identity key, with which receipts are signed, and the sealing keys that it was asked for; never the root
key, a batch's secret, the journal or the database. When the gate is gone it ends at once: what it had not answered was
not acknowledged.

Started by `lintra_server.web.workers` as `python -m lintra_server.web.upload_worker CHANNEL PROXY LISTENER`, three
descriptors.
"""

import asyncio
import os
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from ipaddress import ip_network
from typing import cast

import structlog
from starlette.types import Scope

from lintra_protocol.crypto.randomness import bulk_system_randomness
from lintra_protocol.crypto.sealing import CLASSICAL, HYBRID, SealingKey
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.crypto.tokens import Admission
from lintra_protocol.errors import LintraError, OverloadedError, UnavailableError
from lintra_protocol.report.upload import SealedBlock
from lintra_protocol.task import Task
from lintra_server.batches.intake import Intake, is_small
from lintra_server.batches.registry import RegisteredTask
from lintra_server.batches.report_decryption import Opened, open_blocks
from lintra_server.metrics import Metrics
from lintra_server.storage.store import StoredUpload
from lintra_server.storage.writer import Tell
from lintra_server.web.ipc import IpcChannel, IpcFrame, Words, decode_outcomes, refusal
from lintra_server.web.page_access import Origins
from lintra_server.web.request_proxy import RequestProxy
from lintra_server.web.upload_route import Front
from lintra_service import process
from lintra_service.byte_budget import ByteBudget
from lintra_service.client_address import Network, peer_of
from lintra_service.listener import listener
from lintra_service.logs import configure_logging
from lintra_service.settings import LogFormat, LogLevel
from lintra_service.supervisor import Supervisor, require_endless, track_work

GATE_GONE = 75
"""The exit status of an opener whose gate is gone."""

REMEMBER_SECONDS = 60.0
"""How long a key or a task is remembered that the gate has told; then it is asked for again."""

TELL_SECONDS = 0.5
"""How often the gate is told what was counted, and asked whether there is room on its disk."""

TRUSTED = 1 << 13
"""Bytes of sealed blocks that are opened before the gate is asked whether it has them: asking costs more."""

ANSWER_SECONDS = 30.0
MOST_REMEMBERED = 64
_BATCH_BITS = 32

log = structlog.get_logger()


Answered = Callable[[IpcFrame | LintraError], None]
"""What is told the gate's answer, or why it refused."""


class GateProxy:
    """The gate as an opener sees it; used from all threads."""

    def __init__(self, line: IpcChannel, gone: Callable[[], None] = lambda: os._exit(GATE_GONE)) -> None:
        """Begin to read answers.

        `gone` is called when there is no gate any more. Whatever was not answered is not acknowledged, so the process
        ends at once; whoever starts the gate again starts openers, too.
        """
        self._line = line
        self._gone = gone
        self._lock = threading.Lock()
        self._asked: dict[int, Answered] = {}
        self._number = 0
        threading.Thread(target=self._read, name="lintra-answers", daemon=True).start()

    def ask(self, words: Words, data: bytes = b"") -> "Future[IpcFrame]":
        """Ask something; the future gives the answer, or why it was refused."""
        future: Future[IpcFrame] = Future()

        def answered(answer: IpcFrame | LintraError) -> None:
            if isinstance(answer, LintraError):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        self.ask_and_go(words, data, answered)
        return future

    def ask_and_go(self, words: Words, data: bytes, answered: "Answered") -> None:
        """Ask something; `answered` is called once, in the thread that reads, and must not wait."""
        with self._lock:
            self._number = number = self._number % 0xFFFFFFFF + 1
            self._asked[number] = answered
        self._line.send(IpcFrame(number, words, data))

    def tell(self, words: Words) -> None:
        """Say something that needs no answer."""
        self._line.send(IpcFrame(0, words))

    def _read(self) -> None:
        while (frame := self._line.receive()) is not None:
            with self._lock:
                answered = self._asked.pop(frame.number, None)
            if answered is None:
                continue
            try:
                answered(refusal(frame) or frame)
            except Exception as error:  # whoever asked is gone, or cannot read it; others are answered all the same
                log.error("an answer of the gate was lost", reason=type(error).__name__)
        self._gone()


def _waited(future: "Future[IpcFrame]") -> IpcFrame:
    try:
        return future.result(ANSWER_SECONDS)
    except TimeoutError:
        raise UnavailableError("the gate does not answer") from None


class TaskCache:
    """Tasks and keys that the gate has told, for a while."""

    def __init__(self, gate: GateProxy) -> None:
        """Know nothing yet."""
        self._gate = gate
        self._tasks: dict[str, tuple[float, RegisteredTask]] = {}
        self._keys: dict[bytes, tuple[float, SealingKey]] = {}

    def find(self, task_id: str) -> RegisteredTask:
        """Return a registered task (see `Registry.find`)."""
        known = self._tasks.get(task_id)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        frame = _waited(self._gate.ask({"ask": "task", "task": task_id}))
        sizes = [int(str(frame.words[name])) for name in ("key", "server", "definition", "record")]
        number, server, definition, record = sizes
        task = Task.from_canonical(frame.data[:definition])
        key = frame.data[definition + record :]
        admission = Admission(key, task.id_bytes) if key else None
        held = RegisteredTask(number, task, server, frame.data[definition : definition + record], admission)
        _make_room(self._tasks)
        self._tasks[task_id] = time.monotonic() + REMEMBER_SECONDS, held
        return held

    def key(self, key_id: bytes) -> SealingKey:
        """Return a sealing key (see `Keyring.find`)."""
        known = self._keys.get(key_id)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        # Before the gate is asked: if it refuses, the private key must not stay here.
        self._keys.pop(key_id, None)
        frame = _waited(self._gate.ask({"ask": "key"}, key_id))
        key = SealingKey(HYBRID if frame.words["suite"] == HYBRID else CLASSICAL, frame.data)
        _make_room(self._keys)
        self._keys[key_id] = time.monotonic() + REMEMBER_SECONDS, key
        return key

    def has_keys(self, key_ids: Sequence[bytes]) -> bool:
        """Return whether the gate need not be asked for the keys with these identifiers."""
        now = time.monotonic()
        return all(key_id in self._keys and self._keys[key_id][0] > now for key_id in key_ids)

    def stored(self, number: int, report_ids: Sequence[bytes]) -> set[bytes]:
        """Return which of some reports of a batch are stored (see `Store.stored`)."""
        frame = _waited(self._gate.ask({"ask": "stored", **_named(number)}, b"".join(report_ids)))
        return {report_id for report_id, held in zip(report_ids, frame.data, strict=True) if held}


def number_of(held: RegisteredTask, batch: int) -> int:
    """Return a number for a batch of a task; it is not that in the store, which only the gate knows."""
    return held.key << _BATCH_BITS | batch


def _named(number: int) -> Words:
    return {"key": number >> _BATCH_BITS, "batch": number & ((1 << _BATCH_BITS) - 1)}


def _make_room(remembered: dict[str, tuple[float, RegisteredTask]] | dict[bytes, tuple[float, SealingKey]]) -> None:
    # Whoever asks for very many costs questions to the gate, and no memory.
    if len(remembered) >= MOST_REMEMBERED:
        remembered.clear()


class RemoteWriter:
    """Hands uploads to the gate; whoever asks is told only when an upload is durable, or will never be."""

    def __init__(self, gate: GateProxy, max_bytes: int) -> None:
        """Let at most so many bytes wait."""
        self._gate = gate
        self._max_bytes = max_bytes
        self._bytes = 0
        self._lock = threading.Lock()
        self.failed = False
        """Nobody looks here: the gate looks at its own disk."""

    def submit(self, upload: StoredUpload, tell: Tell) -> None:
        """Hand over an upload (see `Writer.submit`); whether the task takes it now is the gate's to say.

        Raises OverloadedError if too many bytes wait to be written.
        """
        with self._lock:
            # An upload alone is taken whatever its size, or a large one would never be.
            if self._bytes and self._bytes + upload.size > self._max_bytes:
                raise OverloadedError(f"{self._bytes} bytes wait to be written")
            self._bytes += upload.size
        words: Words = {"ask": "store", "count": len(upload.report_ids), **_named(upload.batch)}
        data = b"".join((*upload.report_ids, *upload.serials, *upload.payloads))

        def done(answer: IpcFrame | LintraError) -> None:
            with self._lock:
                self._bytes -= upload.size
            tell(answer if isinstance(answer, LintraError) else decode_outcomes(answer))

        self._gate.ask_and_go(words, data, done)


class WorkerIntake(Intake):
    """Takes uploads; what becomes of them is told to the gate, which counts for all openers."""

    told: "Counter[tuple[int, int, str]]"

    async def _opened(
        self, held: RegisteredTask, blocks: Sequence[SealedBlock], report_ids: Sequence[bytes], batches: Sequence[int]
    ) -> list[Opened]:
        """Open a small upload at once: whether a report is stored already, the gate sees when it stores it.

        Only where something does not open is the gate asked first: a report that is stored is known by its identifier,
        whatever became of the key it was sealed to.
        """
        if is_small(blocks, batches, TRUSTED) and self._has_keys([block.key_id for block in blocks]):
            opened = open_blocks(held, blocks, self._find_key, set())
            if not any(isinstance(each, LintraError) for each in opened):
                return opened
        return await super()._opened(held, blocks, report_ids, batches)

    def note(self, key: int, batch: int, token: str, count: int) -> None:
        """Count what became of some reports, to be told."""
        self.told[key, batch, token] += count


class WorkerMetrics(Metrics):
    """Keeps what was counted until the gate is told, whose metrics are those of the server."""

    def __init__(self) -> None:
        """Have counted nothing."""
        super().__init__()
        self.answers: list[tuple[str, int, float]] = []

    def observe_request(self, resource: str, status: int, seconds: float) -> None:
        """Count one answer."""
        self.answers.append((resource, status, seconds))


class RemoteByteBudget:
    """Whether the gate said lately that there is room on its disk."""

    def __init__(self) -> None:
        """Take the best for granted until the first answer."""
        self.refusal: LintraError | None = None

    def require_space(self) -> None:
        """Raise what the gate said, if it said no."""
        if self.refusal is not None:
            raise self.refusal


class UploadWorker:
    """The parts of one opener."""

    def __init__(self, gate: GateProxy, said: IpcFrame) -> None:
        """Put them together as the gate said.

        `gate` is the one to which good reports go. `said` is the gate's first frame: what this opener needs of the
        settings, and the identity key.
        """
        self._gate = gate
        self._trusted: list[Network] = [ip_network(str(each)) for each in _listed(said.words["trusted_proxies"])]
        self.registry = TaskCache(gate)
        self.readiness = RemoteByteBudget()
        most = int(str(said.words["max_pending_bytes"]))
        self.uploads = ByteBudget(most)
        self.metrics = WorkerMetrics()
        origins = said.words["page_origins"]
        self.page_origins: Origins = "any" if origins == "any" else [str(each) for each in _listed(origins)]
        self.intake = WorkerIntake(
            RemoteWriter(gate, most), self.registry.key, self.registry.stored, lambda *_: False,
            self.registry.has_keys, SigningKey(said.data), float(str(said.words["max_wait_seconds"])), time.time,
            lambda *_: None, number_of, number_of,
        )  # fmt: skip
        self.intake.told = Counter()
        self._request_ids = bulk_system_randomness()

    def new_request_id(self) -> str:
        """Return a name for one request."""
        return self._request_ids(8).hex()

    def peer(self, scope: Scope) -> str:
        """Return whose budget a request is counted against."""
        return peer_of(scope, self._trusted)

    async def keep_telling(self) -> None:
        """Tell the gate what was counted, and ask for room, for ever."""
        while True:
            await asyncio.sleep(TELL_SECONDS)
            self.tell()
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    await asyncio.wrap_future(self._gate.ask({"ask": "space"}))
                self.readiness.refusal = None
            except LintraError as error:
                self.readiness.refusal = error
            except TimeoutError:
                self.readiness.refusal = UnavailableError("the gate does not answer")

    def tell(self) -> None:
        """Tell the gate what was counted since the last time."""
        # Taken away before it is told: what is counted meanwhile is told the next time.
        told, self.intake.told = self.intake.told, Counter()
        answers, self.metrics.answers = self.metrics.answers, []
        if told or answers:
            counted = [[*counted, count] for counted, count in told.items()]
            self._gate.tell({"tell": "counted", "reports": counted, "answers": answers})


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


async def _serve(opener: UploadWorker, said: IpcFrame, forward: socket.socket, own: socket.socket) -> None:
    app = Front(opener, RequestProxy(forward))
    serving = listener(app, str(said.words["host"]), own.getsockname()[1], int(str(said.words["max_connections"])))
    telling = require_endless(asyncio.create_task(opener.keep_telling(), name="what tells the gate"))
    await process.until_stopped([(serving, [own])])
    telling.cancel()
    opener.tell()


def main(line: int, forward: int, own: int) -> None:
    """Serve until SIGTERM, or until the gate is gone."""
    end = IpcChannel(socket.socket(fileno=line), "opener")
    said = end.receive()
    if said is None:
        sys.exit(GATE_GONE)
    configure_logging(cast("LogLevel", said.words["log_level"]), cast("LogFormat", said.words["log_format"]))
    opener = UploadWorker(GateProxy(end), said)
    ends = socket.socket(fileno=forward), socket.socket(fileno=own)
    process.run(lambda: _serve(opener, said, *ends), Supervisor())
    with track_work("the end"):
        opener.intake.close()
        end.close()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
