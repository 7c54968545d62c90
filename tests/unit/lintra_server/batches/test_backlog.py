"""How long an upload would wait is measured, and bounded."""

import pytest

from lintra_protocol.errors import OverloadedError
from lintra_server.batches.backlog import Backlog


class Steps:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_the_wait_follows_the_speed_of_the_uploads_before() -> None:
    clock = Steps()
    backlog = Backlog(max_seconds=10, clock=clock)
    for _ in range(100):
        with backlog.of(1000):
            clock.seconds += 2
    with backlog.of(4000):
        assert backlog.seconds == pytest.approx(8, rel=0.01)


def test_an_upload_behind_too_much_work_is_told_to_come_again_and_one_alone_never_is() -> None:
    clock = Steps()
    backlog = Backlog(max_seconds=1, clock=clock)
    for _ in range(100):
        with backlog.of(1000):
            clock.seconds += 5
    with backlog.of(1000):
        refused = pytest.raises(OverloadedError, match="5 s of work are waiting, 1 s are allowed")
        with refused, backlog.of(1):
            pass
    with backlog.of(10_000):
        pass


def test_uploads_that_run_side_by_side_count_once() -> None:
    clock = Steps()
    backlog = Backlog(max_seconds=100, clock=clock)
    for _ in range(100):
        with backlog.of(500), backlog.of(500):
            clock.seconds += 1
    with backlog.of(1000):
        assert backlog.seconds == pytest.approx(1.5, rel=0.35)
