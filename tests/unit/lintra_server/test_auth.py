"""A signed request is good once, for as long as its date allows."""

from pathlib import Path

import pytest

from lintra_protocol.errors import OverloadedError, UnauthorizedError
from lintra_protocol.http.requests import REPLAY_WINDOW, sign_request
from lintra_protocol.task import Task
from lintra_server import auth
from lintra_server.auth import Authenticator
from support.server_world import ANALYZER, START, new_world

URL = "http://server.example/x"


@pytest.fixture
def task(tmp_path: Path) -> Task:
    world = new_world(tmp_path)
    world.close()
    return world.task


def ask(door: Authenticator, task: Task, signed_at: int, now: int, nonce: int = 0) -> None:
    headers = sign_request(ANALYZER, "GET", URL, b"", signed_at, nonce.to_bytes(16, "big"))
    door.require_analyzer(task, "GET", URL, headers, now)


@pytest.mark.parametrize("ahead", [-REPLAY_WINDOW, 0, REPLAY_WINDOW])
def test_a_replay_is_refused_for_as_long_as_its_date_is_good(task: Task, ahead: int) -> None:
    door = Authenticator()
    ask(door, task, START + ahead, START)
    for later in range(START, START + ahead + REPLAY_WINDOW + 2, 50):
        with pytest.raises(UnauthorizedError):
            ask(door, task, START + ahead, later)


def test_nonces_are_forgotten_when_they_can_no_longer_be_replayed(task: Task) -> None:
    door = Authenticator()
    ask(door, task, START, START)
    later = START + 2 * REPLAY_WINDOW + 1
    ask(door, task, later, later, nonce=1)
    assert len(door._seen) == 1


def test_memory_for_nonces_is_bounded(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "MAX_NONCES", 2)
    door = Authenticator()
    for nonce in range(2):
        ask(door, task, START, START, nonce)
    with pytest.raises(OverloadedError):
        ask(door, task, START, START, 2)
