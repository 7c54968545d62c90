"""To log never raises and never waits for long: on a full disk, with nobody who reads, with a value nobody can show."""

import gc
import json
import logging
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from lintra_service import logs
from lintra_service.logs import NeverRaisingStream, configure_logging, write_last_line

FULL = Path("/dev/full")


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(logging, "lastResort", logging.lastResort)
    monkeypatch.setattr(logs, "_as_json", False)
    monkeypatch.setattr(logs, "_descriptor", 2)
    yield
    structlog.reset_defaults()


class Standard:
    """A standard error with a descriptor of its own."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor


def configured(monkeypatch: pytest.MonkeyPatch, descriptor: int, kind: str = "json") -> structlog.BoundLogger:
    monkeypatch.setattr("sys.stderr", Standard(descriptor))
    configure_logging("info", kind)  # type: ignore[arg-type]
    return structlog.get_logger()  # type: ignore[no-any-return]


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("kind", ["json", "console"])
def test_a_full_disk_that_holds_the_log_raises_nothing_and_the_first_line_afterwards_says_how_many_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    file = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    well, descriptor = os.dup(file), os.dup(file)
    # A library's line goes where ours go only if the root has no handlers; here the runner of the tests has set some.
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    log = configured(monkeypatch, descriptor, kind)
    log.info("one")
    # What an earlier test left is collected now: asyncio says so in the log, and such a line would be lost, too.
    gc.collect()
    full = os.open(FULL, os.O_WRONLY)
    os.dup2(full, descriptor)
    try:
        raise OSError("the disk")
    except OSError:
        log.exception("two")
        log.error("three")
        logging.getLogger("a library").warning("four")
    write_last_line("five")
    os.dup2(well, descriptor)
    log.info("six")
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == 3
    assert "one" in lines[0]
    assert "log lines were lost" in lines[1]
    assert re.search(r'lines"?[=:] ?(\d+)', lines[1])[1] == "3"  # type: ignore[index]
    assert "six" in lines[2]
    for each in (file, well, full, descriptor):
        os.close(each)


def test_a_line_of_which_a_part_was_written_is_ended_before_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    log, write = configured(monkeypatch, file), os.write

    def some(descriptor: int, data: bytes) -> int:
        if descriptor == file and len(data) < 40:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[:40] if descriptor == file else data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", some)
        log.info("cut")
        patch.setattr(os, "write", lambda *_: some(file, b""))
        log.info("gone")
    log.info("whole")
    _, lost, whole = (tmp_path / "log").read_text().splitlines()
    assert json.loads(lost)["lines"] == 2
    assert json.loads(whole)["event"] == "whole"
    os.close(file)


def test_nobody_who_reads_holds_nobody_up_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "WAIT_SECONDS", 0.2)
    reading, writing = os.pipe()
    log, began = configured(monkeypatch, writing), time.monotonic()
    for _ in range(3000):  # more than a pipe holds
        log.info("a line", text="x" * 100)
    assert time.monotonic() - began < 10
    data = os.read(reading, 1 << 20)
    log.info("the last one")
    after = os.read(reading, 1 << 20).splitlines()
    assert len(data.splitlines()) + json.loads(after[-2])["lines"] == 3000
    assert json.loads(after[-1])["event"] == "the last one"
    os.close(reading)
    log.info("nobody is there")
    os.close(writing)
    log.info("nothing is there")


def test_a_write_that_hangs_holds_up_one_thread_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "WAIT_SECONDS", 0.1)
    stream, free, inside = NeverRaisingStream(2), threading.Event(), threading.Event()

    def hang(*_: object) -> None:
        inside.set()
        free.wait(10)

    monkeypatch.setattr(stream, "_put", hang)
    first = threading.Thread(target=stream.write, args=("one\n",))
    first.start()
    inside.wait(10)
    began = time.monotonic()
    stream.write("two\n")
    assert time.monotonic() - began < 5
    free.set()
    first.join()


def test_a_value_that_cannot_be_shown_leaves_the_line_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hidden:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    file = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    configured(monkeypatch, file).info("seen", value=Hidden())
    line = json.loads((tmp_path / "log").read_text())
    assert (line["event"], line["unsaid"]) == ("seen", "RuntimeError")
    os.close(file)
