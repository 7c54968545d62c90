"""The line between an opener and the gate: whole frames over a socket pair, questions and answers by number.

A frame is JSON and bytes, and never code. Whoever reads never waits for whoever writes: each end has a thread that
sends what waits, so that an opener that hangs cannot hold up the gate.
"""

import json
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TypeVar

from lintra_protocol.errors import LintraError, UnavailableError
from lintra_protocol.http.problems import from_problem, to_problem

Words = dict[str, object]
T = TypeVar("T")

_HEAD = struct.Struct(">III")
MAX_FRAME_BYTES = 64 << 20

_SENT_AT_ONCE = 1 << 16
"""Bytes of frames after which no further one is waited for."""


@dataclass(frozen=True)
class IpcFrame:
    """One message: a question's number, which its answer repeats; words; and bytes, which `repr` does not show."""

    number: int
    words: Words
    data: bytes = field(default=b"", repr=False)


class IpcChannel:
    """One end of a line."""

    def __init__(self, end: socket.socket, name: str) -> None:
        """Begin to send what is given to `send`; the caller reads with `frames`."""
        self._end = end
        self._reader = end.makefile("rb")
        self._waiting: SimpleQueue[bytes | None] = SimpleQueue()
        self._sender = threading.Thread(target=self._send_all, name=f"lintra-line-{name}", daemon=True)
        self._sender.start()

    def send(self, frame: IpcFrame) -> None:
        """Send a frame soon, from any thread; nothing is said if the other end is gone."""
        words = json.dumps(frame.words, separators=(",", ":")).encode()
        head = _HEAD.pack(frame.number, len(words), len(frame.data))
        self._waiting.put(b"".join((head, words, frame.data)))

    def receive(self) -> IpcFrame | None:
        """Return the next frame, or None at the end of the line: the other process is gone, or speaks another way."""
        try:
            number, words, data = _HEAD.unpack(self._exactly(_HEAD.size))
            if words + data > MAX_FRAME_BYTES:
                return None
            said = json.loads(self._exactly(words))
            return IpcFrame(number, said, self._exactly(data)) if isinstance(said, dict) else None
        except (OSError, ValueError, EOFError):
            return None

    def close(self) -> None:
        """Send what waits, and end the line."""
        self._waiting.put(None)
        self._sender.join(timeout=5)
        with suppress(OSError):  # also if it has not sent all by now
            self._end.shutdown(socket.SHUT_RDWR)
        self._reader.close()
        self._end.close()

    def _exactly(self, count: int) -> bytes:
        data = self._reader.read(count)
        if data is None or len(data) != count:
            raise EOFError
        return data

    def _send_all(self) -> None:
        try:
            self._send_what_waits()
        finally:
            # Whoever reads, here or at the other end, must not wait for what will never be sent.
            with suppress(OSError):
                self._end.shutdown(socket.SHUT_RDWR)

    def _send_what_waits(self) -> None:
        over = False
        while not over:
            # What else waits goes along: a call, and a turn of whoever reads, cost more than a frame.
            together = bytearray()
            over = (first := self._waiting.get()) is None
            together += first or b""
            while not over and len(together) < _SENT_AT_ONCE and not self._waiting.empty():
                over = (more := self._waiting.get()) is None
                together += more or b""
            try:
                self._end.sendall(together)
            except OSError:
                return


def answered(line: IpcChannel, number: int, work: Callable[[], tuple[Words, bytes]]) -> None:
    """Do what a question asks for, and answer it, also if that is refused or fails (see `tried` for errors)."""
    if (found := tried(line, number, work)) is not None:
        line.send(IpcFrame(number, *found))


def tried(line: IpcChannel, number: int, work: Callable[[], T]) -> T | None:
    """Do what a question asks for; if that is refused or fails, answer so, and return None."""
    try:
        return work()
    except (KeyError, TypeError, ValueError):
        raise
    except LintraError as error:
        refused = error
    except Exception as error:  # the disk, say: the other end may ask again later
        refused = UnavailableError(type(error).__name__)
    line.send(IpcFrame(number, {"problem": to_problem(refused)}))
    return None


def refusal(frame: IpcFrame) -> LintraError | None:
    """Return why a question was refused, or None."""
    document = frame.words.get("problem")
    return from_problem(document) if isinstance(document, dict) else None


def encode_outcomes(outcomes: Sequence[bool | LintraError]) -> tuple[Words, bytes]:
    """Encode what became of reports: a byte each, 0 repeated, 1 stored, from 2 on one of the problems that follow."""
    problems: dict[int, int] = {}
    listed: list[object] = []
    codes = bytearray()
    for outcome in outcomes:
        if isinstance(outcome, bool):
            codes.append(outcome)
            continue
        if id(outcome) not in problems:
            problems[id(outcome)] = len(listed) if len(listed) < 250 else 249
            listed.append(to_problem(outcome))
        codes.append(2 + problems[id(outcome)])
    return {"problems": listed[:250]}, bytes(codes)


def decode_outcomes(frame: IpcFrame) -> list[bool | LintraError]:
    """Undo `encode_outcomes`."""
    listed = frame.words.get("problems")
    problems = [from_problem(each) for each in listed] if isinstance(listed, list) else []
    return [problems[code - 2] if code > 1 else bool(code) for code in frame.data]
