"""A server's process of which one part dies or hangs, half a second after it began to serve."""

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest

from lintra_server import serve
from lintra_server.node import Node
from lintra_server.settings import Settings
from lintra_server.storage.store import StoredUpload
from lintra_server.web import workers as opening
from lintra_service.supervisor import Supervisor
from support.forks import log_to

HANG = 3
"""Seconds after which work without progress is a hang."""

AFTER = 0.5


def _die(*_: object) -> NoReturn:
    raise SystemExit  # of which a thread ends without a word


def _fail(*_: object) -> NoReturn:
    raise MemoryError("a secret")


def _cannot_say(*_: object) -> NoReturn:
    raise ZeroDivisionError


def _hang(*_: object) -> None:
    threading.Event().wait()


def _writer(patch: pytest.MonkeyPatch, node: Node, commit: Callable[..., object]) -> None:
    """Let the writer fail at the first upload, which comes soon."""
    patch.setattr(node.writer, "_commit", commit)
    upload = StoredUpload(1, [bytes(32)], [bytes(68)], 10)
    threading.Timer(AFTER, lambda: node.writer.submit(upload, print)).start()


def _writer_that_cannot_halt(patch: pytest.MonkeyPatch, node: Node) -> None:
    for name in ("_halt", "_observe"):
        patch.setattr(node.writer, name, _cannot_say)
    _writer(patch, node, lambda _: [[True]])


def _notes(patch: pytest.MonkeyPatch, node: Node, work: Callable[..., None]) -> None:
    patch.setattr(node, "_note_if_changed", work)


def _probe(patch: pytest.MonkeyPatch, node: Node) -> None:
    patch.setattr(serve, "PROBE_SECONDS", 0.1)
    patch.setattr(node.readiness, "_look", _hang)


def _impatient_with_openers(patch: pytest.MonkeyPatch, _: Node) -> None:
    patch.setattr(opening, "HANG_SECONDS", 30)  # longer than the start of one takes on a busy machine


Fault = Callable[[pytest.MonkeyPatch, Node], None]
FAULTS: dict[str, Fault] = {
    "the writer died": partial(_writer, commit=_die),
    "lintra-writer died: ZeroDivisionError": _writer_that_cannot_halt,
    f"the writer has made no progress for {HANG} s": partial(_writer, commit=_hang),
    "the note-taker died": partial(_notes, work=_die),
    "lintra-notes died: MemoryError": partial(_notes, work=_fail),
    f"the note-taker has made no progress for {HANG} s": partial(_notes, work=_hang),
    f"uvloop_0 has made no progress for {HANG} s": _probe,
}
"""By what the process says in the end."""

OPENERS = "an opener hangs"


def run(path: str, fault: str, log: str) -> None:
    """Be the server of some settings, whose openers are two where it is one of them that is going to hang."""
    log_to(log)
    patch, made = pytest.MonkeyPatch(), serve.create_app

    def create_app(settings: Settings) -> object:
        app = made(settings)
        FAULTS.get(fault, _impatient_with_openers)(patch, app.node)
        return app

    patch.setattr(serve, "create_app", create_app)
    seconds = 60 if fault == OPENERS else HANG
    patch.setattr(serve, "Supervisor", partial(Supervisor, hang_seconds=seconds))
    serve.run(Settings.load(Path(path)), 2 if fault == OPENERS else 1)
    os._exit(0)
