"""The HPKE keys that clients seal their shares to: made in time, offered while active, kept a while longer.

Each is a file in the key folder that holds the key and its times, wrapped under the root key, and is destroyed in time:
uploads that somebody recorded do not open with an old copy of the database.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import get_args

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.sealing import SealingKey, SuiteName
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.encoding.canonical import (
    base64url,
    canonical_json,
    domain_hash,
    parse_base64url,
    parse_canonical_json,
)
from lintra_protocol.errors import LintraError, OutdatedKeyError, UnavailableError
from lintra_protocol.messages.documents import KeyList, SealingKeyEntry, Signed, sign
from lintra_protocol.report.wire import KEY_ID_BYTES
from lintra_server.clock import Overdue
from lintra_server.durability.key_files import KeyFiles
from lintra_server.settings import KeyPaths
from lintra_service.settings import InvalidSettingsError

DAY = 86_400
CACHE_SECONDS = DAY
"""How long clients may remember the list; keys open reports for at least twice as long after they expired."""


@dataclass(frozen=True)
class StoredKey:
    """A sealing key and the time for which it is offered, in seconds since the epoch."""

    key: SealingKey = field(repr=False)
    valid_from: int
    valid_until: int

    @property
    def key_id(self) -> bytes:
        """Return its identifier."""
        return domain_hash("sealing key id", self.key.suite.encode(), self.key.public_bytes)[:KEY_ID_BYTES]

    def encode(self) -> bytes:
        """Return what is kept of it, before that is wrapped."""
        return canonical_json(
            {
                "private": base64url(self.key.private_bytes),
                "suite": self.key.suite,
                "valid_from": self.valid_from,
                "valid_until": self.valid_until,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> "StoredKey":
        """Parse what `encode` wrote; raise InvalidSettingsError if it is something else."""
        match parse_canonical_json(data):
            case {"private": str(private), "suite": str(suite), "valid_from": int(since), "valid_until": int(until)}:
                for known in get_args(SuiteName):
                    if known == suite:
                        return cls(SealingKey(known, parse_base64url(private)), since, until)
        raise InvalidSettingsError("a file of a sealing key is of another version")


class Keyring:
    """This server's HPKE keys; thread-safe."""

    def __init__(
        self,
        files: KeyFiles,
        identity: SigningKey,
        suites: tuple[SuiteName, ...],
        lives: KeyPaths,
        random_bytes: RandomBytes,
        now: Callable[[], float],
        running: Callable[[], float],
    ) -> None:
        """Load the keys, and make those that are missing, unless the clock is not to be believed.

        `lives` says how long a key lives. `now` is the clock, in seconds since the epoch; it may raise
        `UnavailableError`. `running` counts seconds, and nobody sets it.
        """
        self._files = files
        self._overdue = Overdue(running)
        self._identity = identity
        self._suites = suites
        self._lives = lives
        self._random_bytes = random_bytes
        self._now = now
        self._keys: dict[bytes, StoredKey] = {}
        for name in files.names():
            try:
                data = files.read(name, name)
                if data is not None:
                    self._keys[name] = StoredKey.decode(data)
            except (InvalidSettingsError, LintraError):
                raise InvalidSettingsError(
                    f"the sealing key sealing/{name.hex()}.key in key_dir does not open: it was changed, or the "
                    "storage root key is another one: lintra server doctor"
                ) from None
        self.signed_list = b""
        try:
            self.maintain()
        except UnavailableError:  # with a wrong clock keys are neither made nor destroyed
            self._sign(-1.0)

    def maintain(self) -> None:
        """Make successors for keys about to expire, destroy those nobody may still use, and sign the list again."""
        now = int(self._now())
        for key_id in self._expired(now):
            self._files.destroy(key_id)
            self._keys = {name: key for name, key in self._keys.items() if name != key_id}
        for suite in self._suites:
            if not self._has_lasting(suite, now):
                self._make(suite, now)
        self._sign(now)

    def _expired(self, now: int) -> list[bytes]:
        """Return the keys that nobody may use any more, and have been so while this process ran for a while."""
        grace = self._lives.grace_days * DAY
        expired = {key_id for key_id, key in self._keys.items() if key.valid_until + grace <= now}
        settled = self._overdue.settled(set(expired))
        return [key_id for key_id in expired if key_id in settled]

    def _has_lasting(self, suite: SuiteName, now: int) -> bool:
        """Return whether a suite has a key that is valid now, and will be for a while."""
        until = now + self._lives.renew_days * DAY
        return any(
            key.key.suite == suite and key.valid_from <= now and key.valid_until > until for key in self._keys.values()
        )

    def _make(self, suite: SuiteName, now: int) -> None:
        new = StoredKey(SealingKey.generate(suite, self._random_bytes), now, now + self._lives.active_days * DAY)
        self._files.write(new.key_id, new.encode(), new.key_id)
        self._keys = {**self._keys, new.key_id: new}

    def find(self, key_id: bytes) -> SealingKey:
        """Return the private key with this identifier; raise OutdatedKeyError if this server does not hold it."""
        try:
            return self._keys[key_id].key
        except KeyError:
            raise OutdatedKeyError(f"no key {base64url(key_id)}") from None

    def has(self, key_ids: Iterable[bytes]) -> bool:
        """Return whether this server holds the private keys with these identifiers."""
        return all(key_id in self._keys for key_id in key_ids)

    def active(self) -> dict[bytes, SealingKey]:
        """Return the keys that the signed list offers, by identifier."""
        offered = Signed[KeyList].from_canonical(self.signed_list).message.keys
        return {key_id: self.find(key_id) for key_id in (parse_base64url(entry.key_id) for entry in offered)}

    def has_active(self) -> bool:
        """Return whether every suite has a key that clients may use now (see `maintain` for the clock)."""
        now = int(self._now())
        return set(self._suites) <= {
            key.key.suite for key in self._keys.values() if key.valid_from <= now < key.valid_until
        }

    def _sign(self, now: float) -> None:
        """Sign the list of the keys that are valid at a time; what clients sealed to the others still opens."""
        # Newest first: whoever takes the first key of its suite has the longest to use it.
        newest = sorted(self._keys.items(), key=lambda each: (-each[1].valid_until, each[0]))
        entries = [
            SealingKeyEntry(
                key_id=base64url(key_id),
                suite=key.key.suite,
                public_key=base64url(key.key.public_bytes),
                valid_from=key.valid_from,
                valid_until=key.valid_until,
            )
            for key_id, key in newest
            if key.key.suite in self._suites and key.valid_from <= now < key.valid_until
        ]
        entries.sort(key=lambda entry: self._suites.index(entry.suite))
        listing = KeyList(identity_key=self._identity.public_key, keys=tuple(entries))
        self.signed_list = sign(self._identity, listing).canonical()
