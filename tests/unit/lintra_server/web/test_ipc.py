"""Frames between a gate and its upload workers: whole, in order, and refused where they are none."""

import socket
import threading

import pytest

from lintra_protocol.errors import BatchClosedError, LintraError, UnavailableError
from lintra_server.web.ipc import IpcChannel, IpcFrame, answered, decode_outcomes, encode_outcomes, refusal
from lintra_server.web.upload_worker import GateProxy


def test_frames_arrive_whole_and_in_order_and_the_end_of_a_line_is_none() -> None:
    one, other = (IpcChannel(end, name) for end, name in zip(socket.socketpair(), "ab", strict=True))
    sent = [IpcFrame(number, {"n": number}, bytes(number * 1000)) for number in range(200)]
    for frame in sent:
        one.send(frame)
    assert [other.receive() for _ in sent] == sent
    answered(one, 7, lambda: _raise(BatchClosedError("late")))
    refused = other.receive()
    assert refused is not None
    error = refusal(refused)
    assert isinstance(error, BatchClosedError)
    assert error.detail == "late"
    one.close()
    assert other.receive() is None
    other.close()


def test_all_frames_that_wait_are_sent_before_the_end_of_a_line() -> None:
    end, far = socket.socketpair()
    line, other = IpcChannel(end, "test"), IpcChannel(far, "other")
    for number in range(50):
        line.send(IpcFrame(number, {}, bytes(2000)))
    closing = threading.Thread(target=line.close)
    closing.start()
    assert [frame.number for _ in range(50) if (frame := other.receive())] == list(range(50))
    assert other.receive() is None
    closing.join(5)
    other.close()


def test_an_answer_that_nobody_can_use_does_not_keep_the_next_one_from_its_reader() -> None:
    near, far = socket.socketpair()
    gone, answering, line = threading.Event(), IpcChannel(near, "gate"), IpcChannel(far, "opener")
    gate, found = GateProxy(line, gone.set), list[IpcFrame | LintraError]()
    gate.ask_and_go({}, b"", lambda _: _raise(KeyError("nobody")) and None)
    given_up = gate.ask({})
    given_up.cancel()
    gate.ask_and_go({}, b"", found.append)
    for number in (1, 2, 3):
        answering.send(IpcFrame(number, {}, bytes(number)))
    answering.close()
    assert gone.wait(5)
    line.close()
    assert found == [IpcFrame(3, {}, bytes(3))]


def _raise(error: Exception) -> tuple[dict[str, object], bytes]:
    raise error


@pytest.mark.parametrize("sent", [b"\xff" * 12, b"\0" * 12, b"\0\0\0\1\0\0\0\2\0\0\0\0[]", b"\0\0\0\1\0\0\0\2", b""])
def test_what_is_no_frame_ends_the_line(sent: bytes) -> None:
    end, far = socket.socketpair()
    line = IpcChannel(end, "test")
    far.sendall(sent)
    far.close()
    assert line.receive() is None
    line.close()


def test_outcomes_survive_the_line() -> None:
    closed, busy = BatchClosedError("it is closed"), UnavailableError("later")
    outcomes: list[bool | LintraError] = [True, False, closed, closed, True, busy]
    words, data = encode_outcomes(outcomes)
    back = decode_outcomes(IpcFrame(1, words, data))
    assert [each if isinstance(each, bool) else (each.token, each.detail) for each in back] == [
        True, False, ("batch_closed", "it is closed"), ("batch_closed", "it is closed"), True, ("unavailable", "later"),
    ]  # fmt: skip
    assert len(words["problems"]) == 2  # type: ignore[arg-type]
