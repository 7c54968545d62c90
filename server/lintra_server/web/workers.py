"""The gate's side of several workers: it starts the openers, answers what they ask, and starts again one that died.

The gate is the only process with the root key, the batches' secrets, journal and database. An opener is started as a
new program, never forked, so that no copy of these is in its memory; it gets no environment with secrets either.
"""

import asyncio
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack

import structlog
from starlette.types import ASGIApp

from lintra_protocol.crypto.tokens import SERIAL_BYTES
from lintra_protocol.encoding.canonical import HASH_BYTES
from lintra_protocol.errors import InvalidMessageError, LintraError, UnavailableError
from lintra_protocol.report.wire import payload_bytes
from lintra_server.batches.intake import clock_refusal
from lintra_server.batches.registry import RegisteredTask
from lintra_server.node import Node
from lintra_server.settings import Settings
from lintra_server.storage.store import StoredUpload
from lintra_server.storage.writer import Tell, Told
from lintra_server.web.ipc import IpcChannel, IpcFrame, Words, answered, encode_outcomes, tried
from lintra_server.web.request_proxy import answer_forwarded
from lintra_service.supervisor import HANG_SECONDS, Supervisor

RESTART_SECONDS = 0.5
STOP_SECONDS = 40.0

log = structlog.get_logger()


class Answers:
    """Answers what one opener asks; what it says is checked, since it reads what strangers send."""

    def __init__(self, node: Node, line: IpcChannel) -> None:
        """Answer on a line."""
        self._node = node
        self._line = line
        self._told: dict[int, RegisteredTask] = {}
        self._asked = False

    def run(self) -> None:
        """Answer until the line ends."""
        while (frame := self._line.receive()) is not None:
            try:
                self._one(frame)
            except Exception as error:  # an opener is started again, whatever it said, and this thread goes on
                log.error("an opener said what cannot be meant", reason=type(error).__name__)
                return

    def _one(self, frame: IpcFrame) -> None:
        asked = frame.words.get("ask")
        if asked == "store":
            self._store(frame)
        elif asked == "stored":
            answered(self._line, frame.number, lambda: self._stored(frame))
        elif asked == "task":
            answered(self._line, frame.number, lambda: self._task(str(frame.words["task"])))
        elif asked == "key":
            answered(self._line, frame.number, lambda: self._key(frame.data))
        elif asked == "space":
            answered(self._line, frame.number, self._space)
        elif frame.words.get("tell") == "counted":
            self._counted(frame.words)

    def _task(self, task_id: str) -> tuple[Words, bytes]:
        held = self._node.registry.find(task_id)
        definition = held.task.canonical()
        self._told[held.key] = held
        words: Words = {
            "key": held.key, "server": held.server, "definition": len(definition), "record": len(held.record),
        }  # fmt: skip
        return words, definition + held.record + (held.token_key or b"")

    def _key(self, key_id: bytes) -> tuple[Words, bytes]:
        key = self._node.keys.find(key_id)
        return {"suite": key.suite}, key.private_bytes

    @property
    def asked(self) -> bool:
        """Whether the opener serves: it asks this again and again."""
        return self._asked

    def _space(self) -> tuple[Words, bytes]:
        self._asked = True
        self._node.readiness.require_space()
        return {}, b""

    def _held(self, frame: IpcFrame) -> RegisteredTask:
        held = self._told.get(int(str(frame.words["key"])))
        if held is None:
            raise InvalidMessageError("the opener was not told of this task")
        return held

    def _stored(self, frame: IpcFrame) -> tuple[Words, bytes]:
        report_ids = _cut(frame.data, HASH_BYTES)
        number = self._node.registry.number_of(self._held(frame), int(str(frame.words["batch"])))
        known = self._node.store.stored(number, report_ids) if number is not None else set()
        return {}, bytes(report_id in known for report_id in report_ids)

    def _store(self, frame: IpcFrame) -> None:
        """Store an upload, and answer when it is durable, or why it never will be."""

        def tell(told: Told) -> None:
            if isinstance(told, LintraError):
                answered(self._line, frame.number, lambda: _refuse(told))
            else:
                self._line.send(IpcFrame(frame.number, *encode_outcomes(told)))

        def begin() -> None:
            self._node.readiness.require_space()
            self._submit(frame, tell)

        tried(self._line, frame.number, begin)

    def _submit(self, frame: IpcFrame, tell: Tell) -> None:
        """Give an upload to the writer, if its batch takes it now, by this process's clock."""
        held, count = self._held(frame), int(str(frame.words["count"]))
        serial = SERIAL_BYTES if held.admission is not None else 0
        sizes = (HASH_BYTES, serial, payload_bytes(held.task, held.server))
        if len(frame.data) != count * sum(sizes):
            raise InvalidMessageError("the opener's reports have another length than this task's")
        first, second = count * HASH_BYTES, count * (HASH_BYTES + serial)
        report_ids, payloads = _cut(frame.data[:first], HASH_BYTES), _cut(frame.data[second:], sizes[2])
        serials = _cut(frame.data[first:second], SERIAL_BYTES)
        batch = int(str(frame.words["batch"]))
        refusal = clock_refusal(held.task, batch, self._node.now())
        number = self._node.registry.number_of(held, batch)
        if number is None and refusal is not None:
            return tell([refusal] * count)
        if number is None:
            number = self._node.opened(held, batch)
        return self._node.writer.submit(
            StoredUpload(number, report_ids, payloads, held.task.max_clients, refusal, serials), tell
        )

    def _counted(self, words: Words) -> None:
        reports, answers = words["reports"], words["answers"]
        if not isinstance(reports, list) or not isinstance(answers, list):
            raise InvalidMessageError("the opener's counts are no lists")
        for key, batch, token, count in reports:
            self._node.intake.note(int(key), int(batch), str(token), int(count))
        for resource, status, seconds in answers:
            self._node.metrics.observe_request(str(resource), int(status), float(seconds))


def _refuse(error: LintraError) -> tuple[Words, bytes]:
    raise error


def _cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


class Worker:
    """One opener: its listening socket, which outlives it, and its process."""

    def __init__(self, node: Node, app: ASGIApp, own: socket.socket, share: int) -> None:
        """Start it.

        `share` says how many openers there are, among which the room for uploads is divided.
        """
        self._node = node
        self._app = app
        self._own = own
        self._share = share
        self._loop = asyncio.get_running_loop()
        self._requests: set[asyncio.Task[None]] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep_running, name="lintra-worker", daemon=True)
        self.process: subprocess.Popen[bytes] | None = None
        self._answers: Answers | None = None
        self._thread.start()

    @property
    def serves(self) -> bool:
        """Whether its process is there and takes requests."""
        return self._answers is not None and self._answers.asked

    @property
    def is_well(self) -> bool:
        """Return whether somebody looks after the process, or was asked to stop doing so."""
        return self._stopping.is_set() or self._thread.is_alive()

    def _keep_running(self) -> None:
        while not self._stopping.is_set():
            try:
                reason = f"status {self._run()}"
            except Exception as error:  # no memory for a process, say: a little later there may be
                reason = type(error).__name__
            if not self._stopping.is_set():
                log.error("an opener ended and is started again", reason=reason)
                self._stopping.wait(RESTART_SECONDS)

    def _run(self) -> int:
        """Run one process from its start to its end, and return its status."""
        with ExitStack() as ends:
            opened = (*socket.socketpair(), *socket.socketpair())
            line, far_line, channel, far_channel = map(ends.enter_context, opened)
            # An opener says something twice a second. One that does not hangs, and is killed as if its line had ended.
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(HANG_SECONDS), 0))
            descriptors = [end.fileno() for end in (far_line, far_channel, self._own)]
            self.process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "lintra_server.web.upload_worker", *map(str, descriptors)],
                pass_fds=descriptors, env=_without_secrets(os.environ),
            )  # fmt: skip
            far_line.close()
            far_channel.close()
            near = IpcChannel(line, "gate")
            near.send(_hello(self._node.settings, self._share, self._node.identity.private_bytes))
            receiving = threading.Thread(target=self._receive, args=(channel,), name="lintra-forward", daemon=True)
            receiving.start()
            self._answers = Answers(self._node, near)
            self._answers.run()
            self._answers = None
            near.close()
            # The line is over: either the process is, or it must not go on.
            if not self._stopping.is_set():
                self.process.kill()
            receiving.join(timeout=5)
            return self.process.wait()

    def _receive(self, channel: socket.socket) -> None:
        """Take ends of requests that the opener passes on, until it is gone."""
        while True:
            try:
                said, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
            except OSError:
                return
            if not said:
                return
            for descriptor in descriptors:
                end = socket.socket(fileno=descriptor)
                try:
                    self._loop.call_soon_threadsafe(self._answer, end)
                except RuntimeError:  # the gate is ending
                    end.close()
                    return

    def _answer(self, end: socket.socket) -> None:
        request = self._loop.create_task(answer_forwarded(end, self._app, self._node))
        self._requests.add(request)
        request.add_done_callback(self._requests.discard)

    def stop(self) -> None:
        """Ask the process to finish what was begun, and wait for it."""
        self._stopping.set()
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self._thread.join(timeout=10)
        self._own.close()


def _hello(settings: Settings, share: int, identity: bytes) -> IpcFrame:
    words: Words = {
        "host": settings.host,
        "max_connections": settings.max_connections,
        "trusted_proxies": [str(each) for each in settings.trusted_proxies],
        "page_origins": settings.pages.origins if settings.pages.origins == "any" else list(settings.pages.origins),
        "max_pending_bytes": max(1 << 16, settings.queue.max_pending_bytes // share),
        "max_wait_seconds": settings.queue.max_wait_seconds,
        "log_level": settings.log_level,
        "log_format": settings.log_format,
    }
    return IpcFrame(0, words, identity)


def _without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without this service's settings, which may hold its keys."""
    return {name: value for name, value in environment.items() if not name.upper().startswith("LINTRA_")}


def listening_sockets(host: str, port: int, count: int) -> list[socket.socket]:
    """Return sockets that share one port; the kernel deals connections among them."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Alone first: a program that shares its port with whoever asks would take half of the connections.
    with socket.socket(family) as alone:
        alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        alone.bind((host, port))
        port = alone.getsockname()[1]
    sockets = []
    for _ in range(count):
        one = socket.socket(family)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        one.bind((host, port))
        one.listen(2048)
        sockets.append(one)
    return sockets


class Workers:
    """All openers of a gate."""

    def __init__(self, node: Node, app: ASGIApp, count: int, supervisor: Supervisor) -> None:
        """Start them, watched by a supervisor; called in the event loop that answers what they pass on."""
        self._node = node
        settings = node.settings
        sockets = listening_sockets(settings.host, settings.port, count)
        self._workers = [Worker(node, app, own, count) for own in sockets]
        supervisor.watch("who looks after the openers", lambda: all(worker.is_well for worker in self._workers))

    def check(self) -> None:
        """Check that uploads can be taken, and that all openers run.

        Raises UnavailableError, OverloadedError if they cannot.
        """
        self._node.check()
        if missing := sum(not worker.serves for worker in self._workers):
            raise UnavailableError(f"{missing} openers are being started")

    async def stop(self) -> None:
        """Let all finish what they began."""
        await asyncio.gather(*(asyncio.to_thread(worker.stop) for worker in self._workers))
