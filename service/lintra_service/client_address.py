"""The address of a client, as budgets need it: an IPv4 address or the /64 of an IPv6 address. It is never logged.

Behind reverse proxies the connection is the proxy's. Each proxy appends the address it was called from to
`x-forwarded-for`, and whoever calls first may write there what it likes; so the list is read from its right end, and
the first address that is no trusted proxy's is the peer.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from starlette.datastructures import Headers
from starlette.types import Scope

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

UNKNOWN = "unknown"
"""The peer of a connection without an address: a socket in the file system, a test in one process."""

_PREFIX = 64


def peer_of(scope: Scope, trusted_proxies: Sequence[Network]) -> str:
    """Return the peer of a request; what is no address counts as the last trusted proxy's own."""
    client = scope.get("client")
    # The commonest case, without parsing: an IPv4 address as the system writes it, and nobody forwards.
    if client and not trusted_proxies and client[0].count(".") == 3 and ":" not in client[0]:
        return str(client[0])
    found = _address(client[0]) if client else None
    if found is None:
        return UNKNOWN
    if trusted_proxies and _trusted(found, trusted_proxies):
        forwarded = ",".join(Headers(scope=scope).getlist("x-forwarded-for")).split(",")
        for text in reversed(forwarded):
            said = _address(text.strip())
            if said is None:
                break
            found = said
            if not _trusted(found, trusted_proxies):
                break
    return _named(found)


def trusted_peer(scope: Scope, trusted_proxies: Sequence[Network]) -> bool:
    """Return whether the connection itself comes from a trusted proxy, whose other words are believed too."""
    client = scope.get("client")
    found = _address(client[0]) if client else None
    return found is not None and _trusted(found, trusted_proxies)


def _address(text: str) -> Address | None:
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _trusted(address: Address, proxies: Sequence[Network]) -> bool:
    return any(address in proxy for proxy in proxies)


def _named(address: Address) -> str:
    return str(address) if address.version == 4 else str(ip_network((address, _PREFIX), strict=False))
