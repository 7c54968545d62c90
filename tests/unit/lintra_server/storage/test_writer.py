"""Groups form by themselves, an upload is done when its commit is, and a failed commit fails its whole group."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future

import pytest

from lintra_protocol.errors import LintraError, OverloadedError, UnavailableError
from lintra_server.storage.store import Outcome, StoredUpload
from lintra_server.storage.writer import Told, Writer


class Disk:
    """Commits when it is told to, and remembers the groups."""

    def __init__(self) -> None:
        self.groups: list[int] = []
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.broken = False

    def commit(self, uploads: Sequence[StoredUpload]) -> list[list[Outcome]]:
        self.begun.release()
        assert self.may_end.acquire(timeout=10)
        if self.broken:
            raise OSError("disk full")
        self.groups.append(len(uploads))
        return [[True] * len(upload.report_ids) for upload in uploads]


def upload(number: int) -> StoredUpload:
    return StoredUpload(1, [number.to_bytes(32, "big")], [bytes(68)], 99)


def submitted(writer: Writer, one: StoredUpload) -> Future[list[Outcome]]:
    future: Future[list[Outcome]] = Future()

    def tell(told: Told) -> None:
        if isinstance(told, LintraError):
            future.set_exception(told)
        else:
            future.set_result(told)

    writer.submit(one, tell)
    return future


def test_what_arrives_during_a_commit_is_the_next_group() -> None:
    disk, seen = Disk(), []
    writer = Writer(disk.commit, 10_000, lambda reports, _: seen.append(reports), pytest.fail)
    first = submitted(writer, upload(0))
    assert disk.begun.acquire(timeout=10)
    others = [submitted(writer, upload(number)) for number in range(1, 6)]
    assert not first.done()
    disk.may_end.release()
    assert first.result(10) == [True]
    assert not any(other.done() for other in others)
    disk.may_end.release()
    assert [other.result(10) for other in others] == [[True]] * 5
    writer.close()
    assert disk.groups == [1, 5]
    assert seen == [1, 5]


def test_a_failed_commit_fails_its_group_and_no_other() -> None:
    disk = Disk()
    writer = Writer(disk.commit, 10_000, lambda *_: None, pytest.fail)
    first = submitted(writer, upload(0))
    assert disk.begun.acquire(timeout=10)
    group = [submitted(writer, upload(number)) for number in range(1, 4)]
    disk.may_end.release()
    assert first.result(10) == [True]
    assert disk.begun.acquire(timeout=10)
    disk.broken = True
    disk.may_end.release()
    for future in group:
        with pytest.raises(UnavailableError):
            future.result(10)
    disk.broken = False
    disk.may_end.release()
    assert submitted(writer, upload(9)).result(10) == [True]
    writer.close()


def test_the_queue_is_bounded_in_bytes() -> None:
    disk = Disk()
    writer = Writer(disk.commit, 250, lambda *_: None, pytest.fail)
    futures = [submitted(writer, upload(0))]
    assert disk.begun.acquire(timeout=10)
    futures += [submitted(writer, upload(1)), submitted(writer, upload(2))]
    with pytest.raises(OverloadedError):
        submitted(writer, upload(3))
    for _ in range(2):
        disk.may_end.release()
    assert [future.result(10) for future in futures] == [[True]] * 3
    writer.close()


def test_closing_writes_what_waits_and_takes_no_more() -> None:
    disk = Disk()
    writer = Writer(disk.commit, 10_000, lambda *_: None, pytest.fail)
    futures = [submitted(writer, upload(number)) for number in range(3)]
    for _ in range(3):
        disk.may_end.release()
    writer.close()
    assert [future.result(0) for future in futures] == [[True]] * 3
    with pytest.raises(UnavailableError):
        submitted(writer, upload(4))


def test_one_who_cannot_be_told_keeps_nobody_else_from_it() -> None:
    disk = Disk()
    writer = Writer(disk.commit, 10_000, lambda *_: None, pytest.fail)

    def gone(_: Told) -> None:
        raise RuntimeError("the event loop is closed")

    first = submitted(writer, upload(0))
    assert disk.begun.acquire(timeout=10)
    writer.submit(upload(1), gone)
    others = [submitted(writer, upload(number)) for number in range(2, 4)]
    for _ in range(3):
        disk.may_end.release()
    assert [future.result(10) for future in (first, *others)] == [[True]] * 3
    assert submitted(writer, upload(5)).result(10) == [True]
    writer.close()
