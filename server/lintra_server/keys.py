"""The HPKE keys that clients seal their shares to: made in time, offered while active, kept a while longer."""

from collections.abc import Callable

from sqlalchemy import delete, insert, select

from lintra_protocol.canonical import base64url, domain_hash, parse_base64url
from lintra_protocol.errors import OutdatedKeyError
from lintra_protocol.messages import KeyList, SealingKeyEntry, Signed, sign
from lintra_protocol.randomness import RandomBytes
from lintra_protocol.sealing import SealingKey, SuiteName
from lintra_protocol.signing import SigningKey
from lintra_protocol.wire import KEY_ID_BYTES
from lintra_server.database import Database, sealing_keys
from lintra_server.settings import Keys
from lintra_server.vault import Vault

DAY = 86_400
CACHE_SECONDS = DAY
"""How long clients may remember the list; keys open reports for at least twice as long after they expired."""

_RELOAD_SECONDS = 1


class Keyring:
    """This server's HPKE keys; thread-safe, and safe to use from several processes on one database."""

    def __init__(
        self,
        database: Database,
        vault: Vault,
        identity: SigningKey,
        suites: tuple[SuiteName, ...],
        lives: Keys,
        random_bytes: RandomBytes,
        now: Callable[[], float],
    ) -> None:
        """Load the keys, and make those that are missing.

        Args:
            database: holds them, encrypted.
            vault: encrypts them.
            identity: signs the list.
            suites: which to offer, by preference.
            lives: how long a key lives.
            random_bytes: a cryptographic source.
            now: the clock, in seconds since the epoch.
        """
        self._database = database
        self._vault = vault
        self._identity = identity
        self._suites = suites
        self._lives = lives
        self._random_bytes = random_bytes
        self._now = now
        self._keys: dict[bytes, SealingKey] = {}
        self._loaded_at = 0.0
        self.signed_list = b""
        self.maintain()

    def maintain(self) -> None:
        """Make successors for keys about to expire, destroy those nobody may still use, and sign the list again."""
        now = int(self._now())
        until_renewal = self._lives.renew_days * DAY
        with self._database.writing() as connection:
            connection.execute(
                delete(sealing_keys).where(sealing_keys.c.valid_until + self._lives.grace_days * DAY <= now)
            )
            for suite in self._suites:
                lasting = (sealing_keys.c.suite == suite) & (sealing_keys.c.valid_until > now + until_renewal)
                if connection.execute(select(sealing_keys.c.key_id).where(lasting)).first() is None:
                    connection.execute(insert(sealing_keys), self._new_key(suite, now))
        self._load()

    def find(self, key_id: bytes) -> SealingKey:
        """Return the private key with this identifier.

        Raises:
            OutdatedKeyError: this server does not hold it.
        """
        # Another process on the same database may have made it; but nobody may cause a query per report.
        if key_id not in self._keys and self._now() >= self._loaded_at + _RELOAD_SECONDS:
            self._load()
        try:
            return self._keys[key_id]
        except KeyError:
            raise OutdatedKeyError(f"no key {base64url(key_id)}") from None

    def active(self) -> dict[bytes, SealingKey]:
        """Return the keys that the signed list offers, by identifier."""
        offered = Signed[KeyList].from_canonical(self.signed_list).message.keys
        return {key_id: self._keys[key_id] for key_id in (parse_base64url(entry.key_id) for entry in offered)}

    def has_active(self) -> bool:
        """Return whether every suite has a key that clients may use now."""
        now = int(self._now())
        with self._database.reading() as connection:
            active = (sealing_keys.c.valid_from <= now) & (sealing_keys.c.valid_until > now)
            return set(self._suites) <= set(connection.execute(select(sealing_keys.c.suite).where(active)).scalars())

    def _new_key(self, suite: SuiteName, now: int) -> dict[str, bytes | str | int]:
        key = SealingKey.generate(suite, self._random_bytes)
        key_id = domain_hash("sealing key id", suite.encode(), key.public_bytes)[:KEY_ID_BYTES]
        return {
            "key_id": key_id,
            "suite": suite,
            "wrapped": self._vault.wrap(key.private_bytes, "sealing key", suite.encode(), key_id),
            "valid_from": now,
            "valid_until": now + self._lives.active_days * DAY,
        }

    def _load(self) -> None:
        self._loaded_at = self._now()
        keys: dict[bytes, SealingKey] = {}
        entries = []
        # Newest first: whoever takes the first key of its suite has the longest to use it.
        query = select(sealing_keys).order_by(sealing_keys.c.valid_until.desc(), sealing_keys.c.key_id)
        with self._database.reading() as connection:
            for row in connection.execute(query):
                known = self._keys.get(row.key_id)
                keys[row.key_id] = key = known or self._unwrapped(row.suite, row.key_id, row.wrapped)
                if row.suite in self._suites and row.valid_from <= self._loaded_at < row.valid_until:
                    entries.append(
                        SealingKeyEntry(
                            key_id=base64url(row.key_id),
                            suite=row.suite,
                            public_key=base64url(key.public_bytes),
                            valid_from=row.valid_from,
                            valid_until=row.valid_until,
                        )
                    )
        entries.sort(key=lambda entry: self._suites.index(entry.suite))
        self._keys = keys
        listing = KeyList(identity_key=self._identity.public_key, keys=tuple(entries))
        self.signed_list = sign(self._identity, listing).canonical()

    def _unwrapped(self, suite: SuiteName, key_id: bytes, wrapped: bytes) -> SealingKey:
        return SealingKey(suite, self._vault.unwrap(wrapped, "sealing key", suite.encode(), key_id))
