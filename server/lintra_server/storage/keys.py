"""The HPKE keys that clients seal their shares to: made in time, offered while active, kept a while longer.

Each is stored under the root key and a secret of its own, which is destroyed with it: uploads that somebody recorded do
not open with an old copy of the database.
"""

from collections.abc import Callable, Iterable

from sqlalchemy import Row, delete, insert, select

from lintra_protocol.canonical import base64url, domain_hash, parse_base64url
from lintra_protocol.errors import OutdatedKeyError, UnavailableError
from lintra_protocol.messages import KeyList, SealingKeyEntry, Signed, sign
from lintra_protocol.randomness import RandomBytes
from lintra_protocol.sealing import SealingKey, SuiteName
from lintra_protocol.signing import SigningKey
from lintra_protocol.wire import KEY_ID_BYTES
from lintra_server.clock import Overdue
from lintra_server.disk.batch_secrets import Secrets
from lintra_server.disk.vault import Vault
from lintra_server.settings import Keys
from lintra_server.storage.database import AnyDatabase, sealing_keys

DAY = 86_400
CACHE_SECONDS = DAY
"""How long clients may remember the list; keys open reports for at least twice as long after they expired."""

_RELOAD_SECONDS = 1


class Keyring:
    """This server's HPKE keys; thread-safe, and safe to use from several processes on one database."""

    def __init__(
        self,
        database: AnyDatabase,
        vault: Vault,
        secrets: Secrets,
        identity: SigningKey,
        suites: tuple[SuiteName, ...],
        lives: Keys,
        random_bytes: RandomBytes,
        now: Callable[[], float],
        running: Callable[[], float],
    ) -> None:
        """Load the keys, and make those that are missing, unless the clock is not to be believed.

        Args:
            database: holds them, encrypted.
            vault: encrypts them, together with a secret for each.
            secrets: where those are kept.
            identity: signs the list.
            suites: which to offer, by preference.
            lives: how long a key lives.
            random_bytes: a cryptographic source.
            now: the clock, in seconds since the epoch; it may raise `UnavailableError`.
            running: counts seconds, and nobody sets it.
        """
        self._database = database
        self._vault = vault
        self._secrets = secrets
        self._running = running
        self._overdue = Overdue(running)
        self._identity = identity
        self._suites = suites
        self._lives = lives
        self._random_bytes = random_bytes
        self._now = now
        self._keys: dict[bytes, SealingKey] = {}
        self._loaded_at = 0.0
        self.signed_list = b""
        try:
            self.maintain()
        except UnavailableError:  # with a wrong clock keys are neither made nor destroyed
            self._load()

    def maintain(self) -> None:
        """Make successors for keys about to expire, destroy those nobody may still use, and sign the list again."""
        now = int(self._now())
        for key_id, secret in self._expired(now):
            if secret is not None:
                self._secrets.destroy(secret)
            with self._database.writing() as connection:
                connection.execute(delete(sealing_keys).where(sealing_keys.c.key_id == key_id))
        for suite in self._suites:
            if not self._has_lasting(suite, now):
                self._make(suite, now)
        self._load()

    def _expired(self, now: int) -> list[tuple[bytes, bytes | None]]:
        """Return the keys that nobody may use any more, and have been so while this process ran for a while."""
        expired = sealing_keys.c.valid_until + self._lives.grace_days * DAY <= now
        query = select(sealing_keys.c.key_id, sealing_keys.c.secret).where(expired)
        with self._database.reading() as connection:
            found = {(row.key_id, row.secret) for row in connection.execute(query)}
        settled = self._overdue.settled(set(found))
        return [key for key in found if key in settled]

    def _has_lasting(self, suite: SuiteName, now: int) -> bool:
        """Return whether a suite has a key that is valid now, will be for a while, and still has its secret."""
        until = now + self._lives.renew_days * DAY
        query = select(sealing_keys.c.secret).where(
            sealing_keys.c.suite == suite, sealing_keys.c.valid_from <= now, sealing_keys.c.valid_until > until
        )
        with self._database.reading() as connection:
            return any(name and self._secrets.get(name) for name in connection.execute(query).scalars())

    def _make(self, suite: SuiteName, now: int) -> None:
        name, secret = self._secrets.new()  # durable before the key exists
        values = self._new_key(suite, now, self._vault.under(secret))
        with self._database.writing() as connection:
            connection.execute(insert(sealing_keys), {**values, "secret": name})

    def find(self, key_id: bytes) -> SealingKey:
        """Return the private key with this identifier.

        Raises:
            OutdatedKeyError: this server does not hold it.
        """
        # Another process on the same database may have made it; but nobody may cause a query per report.
        if key_id not in self._keys and self._running() >= self._loaded_at + _RELOAD_SECONDS:
            self._load()
        try:
            return self._keys[key_id]
        except KeyError:
            raise OutdatedKeyError(f"no key {base64url(key_id)}") from None

    def has(self, key_ids: Iterable[bytes]) -> bool:
        """Return whether the private keys with these identifiers are in memory; waits for nothing."""
        return all(key_id in self._keys for key_id in key_ids)

    def active(self) -> dict[bytes, SealingKey]:
        """Return the keys that the signed list offers, by identifier."""
        offered = Signed[KeyList].from_canonical(self.signed_list).message.keys
        return {key_id: self._keys[key_id] for key_id in (parse_base64url(entry.key_id) for entry in offered)}

    def has_active(self) -> bool:
        """Return whether every suite has a key that clients may use now (see `maintain` for the clock)."""
        now = int(self._now())
        with self._database.reading() as connection:
            active = (sealing_keys.c.valid_from <= now) & (sealing_keys.c.valid_until > now)
            return set(self._suites) <= set(connection.execute(select(sealing_keys.c.suite).where(active)).scalars())

    def _new_key(self, suite: SuiteName, now: int, vault: Vault) -> dict[str, bytes | str | int]:
        key = SealingKey.generate(suite, self._random_bytes)
        key_id = domain_hash("sealing key id", suite.encode(), key.public_bytes)[:KEY_ID_BYTES]
        return {
            "key_id": key_id,
            "suite": suite,
            "wrapped": vault.wrap(key.private_bytes, "sealing key", suite.encode(), key_id),
            "valid_from": now,
            "valid_until": now + self._lives.active_days * DAY,
        }

    def _load(self) -> None:
        self._loaded_at = self._running()
        try:
            now = self._now()
        except UnavailableError:
            now = -1.0  # nothing is offered; what clients sealed before can be opened later
        keys: dict[bytes, SealingKey] = {}
        entries = []
        # Newest first: whoever takes the first key of its suite has the longest to use it.
        query = select(sealing_keys).order_by(sealing_keys.c.valid_until.desc(), sealing_keys.c.key_id)
        with self._database.reading() as connection:
            for row in connection.execute(query):
                key = self._keys.get(row.key_id) or self._opened(row)
                if key is None:
                    continue
                keys[row.key_id] = key
                if row.suite in self._suites and row.valid_from <= now < row.valid_until:
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

    def _opened(self, row: Row[tuple[bytes, str, bytes, bytes, int, int]]) -> SealingKey | None:
        """Return a stored key, or None if its secret was destroyed."""
        secret = self._secrets.get(row.secret) if row.secret else None
        if secret is None:
            return None
        private = self._vault.under(secret).unwrap(row.wrapped, "sealing key", row.suite.encode(), row.key_id)
        return SealingKey(row.suite, private)
