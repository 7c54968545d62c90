"""Admission tokens: who may send a report, checked by a server before it reads the report.

The author makes one key for each server. A token is a random serial and, for each server, a MAC of task and serial
under that server's key. A server cannot make one for another server; the author can make any number.
"""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Self

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.encoding.canonical import base64url, domain_hash, framed, parse_base64url
from lintra_protocol.errors import InvalidMessageError, TokenInvalidError

KEY_BYTES = 32
SERIAL_BYTES = 16
MAC_BYTES = 16
PASS_BYTES = SERIAL_BYTES + MAC_BYTES
"""What one server receives of a token: the serial and its own MAC."""


@dataclass(frozen=True)
class Token:
    """A place for one report in each window of a task; `repr` does not show it.

    `serial` is 16 bytes, the same at all servers. `macs` are 16 bytes for each server, in the task's order.
    """

    serial: bytes = field(repr=False)
    macs: tuple[bytes, ...] = field(repr=False)

    def pass_for(self, server: int) -> bytes:
        """Return the `PASS_BYTES` that one server receives."""
        return self.serial + self.macs[server]

    def spelled(self) -> str:
        """Return the token as text, which is given to a client in secret."""
        return base64url(b"".join((self.serial, *self.macs)))

    @classmethod
    def parse(cls, text: str, num_servers: int) -> Self:
        """Read a token of a task with N servers.

        Raises InvalidMessageError if it is not the text of one; the detail does not repeat it.
        """
        try:
            data = parse_base64url(text.strip(), SERIAL_BYTES + MAC_BYTES * num_servers)
        except InvalidMessageError as error:
            raise InvalidMessageError(f"not a token for {num_servers} servers: {error.detail}") from None
        starts = range(SERIAL_BYTES, len(data), MAC_BYTES)
        return cls(data[:SERIAL_BYTES], tuple(data[start : start + MAC_BYTES] for start in starts))


def derived_keys(secret: bytes, identity_keys: Sequence[str]) -> tuple[bytes, ...]:
    """Return the keys of some servers, derived from the author's secret and their own identity keys.

    A server has one key in all tasks of an author, and no two servers share one; a MAC names its task.
    """
    return tuple(domain_hash("token key", secret, parse_base64url(identity)) for identity in identity_keys)


def key_commitment(key: bytes) -> str:
    """Return the hash of a server's key that stands in the task, so that nobody can bring another key."""
    return base64url(domain_hash("token key commitment", key))


def key_context(task_id: bytes, server: int) -> bytes:
    """Return the HPKE `info` under which a key is sealed to its server."""
    return framed("token key", task_id, server.to_bytes(2, "big"))


def make_token(keys: Sequence[bytes], task_id: bytes, random_bytes: RandomBytes) -> Token:
    """Make a token with a fresh serial."""
    serial = random_bytes(SERIAL_BYTES)
    return Token(serial, tuple(Admission(key, task_id).mac(serial) for key in keys))


class Admission:
    """Checks the passes of one task at one server; its `repr` does not show the key."""

    def __init__(self, key: bytes, task_id: bytes) -> None:
        """Take the server's key of a task."""
        # Everything before the serial, hashed once: a third less time for each of many tokens.
        before = framed("token", task_id) + SERIAL_BYTES.to_bytes(8, "big")
        self._before = blake2b(before, digest_size=MAC_BYTES, key=key)

    def mac(self, serial: bytes) -> bytes:
        """Return the MAC of a serial: keyed BLAKE2b (RFC 7693), a third of the time of HMAC for so short a text."""
        state = self._before.copy()
        state.update(serial)
        return state.digest()

    def require(self, presented: bytes) -> bytes:
        """Check a pass, and return its serial; raise TokenInvalidError if the MAC is not this server's."""
        serial = presented[:SERIAL_BYTES]
        if not hmac.compare_digest(self.mac(serial), presented[SERIAL_BYTES:]):
            raise TokenInvalidError
        return serial
