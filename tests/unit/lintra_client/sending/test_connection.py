"""Requests to one server: a request to wait is honoured, and retries are heard of."""

import pytest
from stamina.instrumentation import set_on_retry_hooks

from lintra_client import Retries
from lintra_client.sending import connection
from lintra_client.sending.connection import Channel, TransientError
from lintra_client.sending.http import Connections
from lintra_protocol.errors import OverloadedError


def test_a_request_to_wait_is_honoured_up_to_the_clients_own_limit() -> None:
    channel = Channel(Connections(), "https://a.test", "https://a.test", Retries(longest_wait=10.0))
    assert channel._pause(TransientError(OverloadedError(), wait=3.0)) == 3.0
    assert channel._pause(TransientError(OverloadedError(), wait=86400.0)) == 10.0
    assert channel._pause(TransientError(OverloadedError(), wait=0.0)) is True
    assert channel._pause(TransientError(OverloadedError())) is True
    assert channel._pause(OverloadedError()) is False


async def test_what_a_command_sets_hears_of_every_retry_and_nothing_else_is_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    heard: list[str] = []
    monkeypatch.setattr(connection, "on_retry", lambda details: heard.append(str(details.caused_by)))
    quick = Retries(attempts=3, first_wait=0.001, longest_wait=0.001, jitter=0.0)
    channel = Channel(Connections(), "https://a.test", "https://a.test", quick)

    async def away() -> None:
        raise TransientError(OverloadedError("a.test is away"))

    try:
        with pytest.raises(OverloadedError):
            await channel.persistently(away)
    finally:
        set_on_retry_hooks(None)
    assert heard == ["a.test is away"] * 2
    written = capsys.readouterr()
    assert written.out + written.err == ""
