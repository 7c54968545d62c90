"""Requests to one server: a request to wait is honoured."""

from lintra_client import Retries
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
