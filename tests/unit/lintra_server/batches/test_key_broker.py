"""The door of a release's keys on one machine: it answers processes of its own user, and nobody else."""

import os
import socket
import struct
from contextlib import suppress
from pathlib import Path

import pytest

from lintra_protocol.errors import UnavailableError
from lintra_server.batches.key_broker import BrokeredKeys, enter, open_broker

BEHIND = BrokeredKeys("sqlite:///a.sqlite", bytes(range(32)))


def told_to_a_stranger(address: str) -> bytes:
    """Return all that a door says to whoever comes."""
    said = b""
    with socket.socket(socket.AF_UNIX) as way:
        way.connect(address.removeprefix("unix:"))
        way.settimeout(5)
        with suppress(ConnectionError):
            while piece := way.recv(4096):
                said += piece
    return said


def test_the_door_answers_its_own_user() -> None:
    with open_broker(BEHIND) as address:
        assert enter(address) == BEHIND
        assert BEHIND.database.encode() in told_to_a_stranger(address)


@pytest.mark.parametrize("user", [os.getuid() + 1, os.getuid() + 65_534])
def test_the_door_answers_its_own_user_only(monkeypatch: pytest.MonkeyPatch, user: int) -> None:
    """Whoever gets at the socket of another user, the kernel says who he is."""
    with open_broker(BEHIND) as address:
        with monkeypatch.context() as patched:
            patched.setattr(os, "getuid", lambda: user)
            assert told_to_a_stranger(address) == b""
            with pytest.raises(UnavailableError, match="no way through the door"):
                enter(address)
        assert enter(address) == BEHIND


def test_neither_the_group_nor_the_process_lets_anybody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernel says is process, user and group, in this order."""
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    kernel = socket.socket.getsockopt

    def other_user(self: socket.socket, level: int, option: int, *more: int) -> int | bytes:
        if option == socket.SO_PEERCRED:
            return struct.pack("3i", 4242, 17, 4242)
        return kernel(self, level, option, *more)

    monkeypatch.setattr(socket.socket, "getsockopt", other_user)
    with open_broker(BEHIND) as address:
        assert told_to_a_stranger(address) == b""


def test_the_folder_of_the_door_lets_no_other_user_in() -> None:
    with open_broker(BEHIND) as address:
        folder = Path(address.removeprefix("unix:")).parent
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()
