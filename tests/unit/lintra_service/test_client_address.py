"""Whose budget counts: an IPv4 address or a /64, and behind trusted proxies the last address that is none of theirs."""

from ipaddress import ip_network

import pytest

from lintra_service.client_address import peer_of

PROXIES = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


def peer(client: str | None, *forwarded: str, trusted: bool = True) -> str:
    headers = [(b"x-forwarded-for", value.encode()) for value in forwarded]
    scope = {"type": "http", "client": client and (client, 1), "headers": headers}
    return peer_of(scope, PROXIES if trusted else ())


@pytest.mark.parametrize(
    ("client", "forwarded", "expected"),
    [
        ("192.0.2.7", (), "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", (), "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1%eth0", (), "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", (), "192.0.2.7"),
        ("10.0.0.1", ("192.0.2.7",), "192.0.2.7"),
        ("10.0.0.1", ("203.0.113.5, 192.0.2.7, 10.9.9.9",), "192.0.2.7"),
        ("10.0.0.1", ("203.0.113.5", "192.0.2.7"), "192.0.2.7"),
        ("fd00::1", ("2001:db8::5",), "2001:db8::/64"),
        ("10.0.0.1", (), "10.0.0.1"),
        ("10.0.0.1", ("nonsense",), "10.0.0.1"),
        (None, (), "unknown"),
    ],
)
def test_the_peer_is_the_rightmost_address_that_is_not_trusted(
    client: str | None, forwarded: tuple[str, ...], expected: str
) -> None:
    assert peer(client, *forwarded) == expected


def test_a_stranger_cannot_choose_its_peer_by_a_header() -> None:
    assert peer("192.0.2.7", "203.0.113.5") == "192.0.2.7"
    assert peer("10.0.0.1", "203.0.113.5, 192.0.2.7") == "192.0.2.7"
    assert peer("10.0.0.1", "203.0.113.5", trusted=False) == "10.0.0.1"
