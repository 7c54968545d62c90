"""Who may ask, and who is signed in: rows about tokens, sessions and sign-in codes, of which only hashes are kept.

Nothing here is remembered between two questions, so that what one process revokes is refused by all at once.
"""

import json
from dataclasses import dataclass, field
from typing import Literal, get_args

from sqlalchemy import Engine, delete, insert, select, update

from lintra_analyzer.storage import tables

Role = Literal["viewer", "analyst", "operator"]
"""A viewer looks, an analyst makes tasks and releases too, an operator gives and takes tokens besides."""

ROLES: tuple[Role, ...] = get_args(Role)
"""From the one that may least; each may do what those before it may."""

TOKEN_ID_DIGITS = 12
"""The first hexadecimal digits of a token's hash name it: they are no secret, and tell nothing of the token."""

_TOKENS, _SESSIONS, _CODES = tables.access_tokens, tables.sessions, tables.sign_in_codes


@dataclass(frozen=True)
class Scope:
    """What somebody may see: all, or the tasks named and those of the populations named.

    Attributes:
        tasks: identifiers of tasks.
        populations: names of populations; new tasks can be made for these.
    """

    tasks: tuple[str, ...] = ()
    populations: tuple[str, ...] = ()

    @property
    def is_everything(self) -> bool:
        """Return whether nothing is left out."""
        return not self.tasks and not self.populations

    def holds(self, task_id: str, population: str) -> bool:
        """Return whether a task is in it."""
        return self.is_everything or task_id in self.tasks or population in self.populations

    def takes_new(self, population: str) -> bool:
        """Return whether a new task for a population would be in it."""
        return self.is_everything or population in self.populations


@dataclass(frozen=True)
class AccessToken:
    """What is kept of a token: all but the token.

    Attributes:
        token_hash: SHA-256 in hexadecimal.
        name: whose it is, or what for.
        role: what its holder may do.
        scope: with what.
        created_at: seconds since the epoch.
        expires_at: from when on it is refused; None for never.
        revoked_at: when it was revoked, if it was.
    """

    token_hash: str = field(repr=False)
    name: str
    role: Role
    scope: Scope
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None

    @property
    def token_id(self) -> str:
        """Return what names the token to people."""
        return self.token_hash[:TOKEN_ID_DIGITS]

    def is_valid(self, now: int) -> bool:
        """Return whether its holder is let in."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class AccessTokens:
    """Tokens, sessions and sign-in codes in the analyzer's database; thread-safe, and every method one transaction."""

    def __init__(self, engine: Engine) -> None:
        """Keep them in a database that has its tables."""
        self._engine = engine

    def add(self, token: AccessToken) -> None:
        """Keep a new token."""
        values = {
            **{name: getattr(token, name) for name in _PLAIN},
            "tasks": json.dumps(token.scope.tasks),
            "populations": json.dumps(token.scope.populations),
        }
        with self._engine.begin() as connection:
            connection.execute(insert(_TOKENS).values(**values))

    def find(self, token_hash: str) -> AccessToken | None:
        """Return the token with a hash, valid or not, or None."""
        with self._engine.connect() as connection:
            row = connection.execute(_select.where(_TOKENS.c.token_hash == token_hash)).one_or_none()
        return None if row is None else _token(*row)

    def all(self) -> list[AccessToken]:
        """Return all tokens, the newest first."""
        newest_first = _select.order_by(_TOKENS.c.created_at.desc(), _TOKENS.c.token_hash)
        with self._engine.connect() as connection:
            return [_token(*row) for row in connection.execute(newest_first)]

    def revoke(self, token_id: str, now: int) -> AccessToken | None:
        """Revoke a token, end its sessions, and return it; None if there is none. The first time counts."""
        mine = _TOKENS.c.token_hash.startswith(token_id, autoescape=True)
        with self._engine.begin() as connection:
            found = connection.execute(_select.where(mine)).all()
            if len(token_id) != TOKEN_ID_DIGITS or len(found) != 1:
                return None
            token = _token(*found[0])
            revoked = update(_TOKENS).where(_TOKENS.c.token_hash == token.token_hash, _TOKENS.c.revoked_at.is_(None))
            connection.execute(revoked.values(revoked_at=now))
            for table in (_SESSIONS, _CODES):
                connection.execute(delete(table).where(table.c.token_hash == token.token_hash))
        return token

    def forget(self, name: str, now: int) -> None:
        """Forget the tokens of a name that were revoked or have expired, with what is left of their sessions."""
        over = _TOKENS.c.revoked_at.is_not(None) | (_TOKENS.c.expires_at <= now)
        ended = select(_TOKENS.c.token_hash).where(_TOKENS.c.name == name, over)
        with self._engine.begin() as connection:
            for table in (_SESSIONS, _CODES, _TOKENS):
                connection.execute(delete(table).where(table.c.token_hash.in_(ended)))

    def begin_session(self, session_hash: str, token_hash: str, expires_at: int, now: int) -> None:
        """Keep a session of a token, and forget those that are over."""
        with self._engine.begin() as connection:
            connection.execute(delete(_SESSIONS).where(_SESSIONS.c.expires_at <= now))
            connection.execute(
                insert(_SESSIONS).values(session_hash=session_hash, token_hash=token_hash, expires_at=expires_at)
            )

    def token_of_session(self, session_hash: str, now: int) -> str | None:
        """Return the hash of the token that a session is of, or None if it is over or unknown."""
        running = (_SESSIONS.c.session_hash == session_hash) & (_SESSIONS.c.expires_at > now)
        with self._engine.connect() as connection:
            return connection.scalar(select(_SESSIONS.c.token_hash).where(running))

    def end_session(self, session_hash: str) -> None:
        """Forget a session."""
        with self._engine.begin() as connection:
            connection.execute(delete(_SESSIONS).where(_SESSIONS.c.session_hash == session_hash))

    def add_code(self, code_hash: str, token_hash: str, expires_at: int) -> None:
        """Keep a code that signs in once, as the holder of a token."""
        with self._engine.begin() as connection:
            connection.execute(insert(_CODES).values(code_hash=code_hash, token_hash=token_hash, expires_at=expires_at))

    def use_code(self, code_hash: str, now: int) -> str | None:
        """Return the hash of the token that a code is for, and forget the code; None if it is unknown or over."""
        with self._engine.begin() as connection:
            connection.execute(delete(_CODES).where(_CODES.c.expires_at <= now))
            used = delete(_CODES).where(_CODES.c.code_hash == code_hash).returning(_CODES.c.token_hash)
            return connection.scalar(used)


_PLAIN = ("token_hash", "name", "role", "created_at", "expires_at", "revoked_at")
_select = select(*(_TOKENS.c[name] for name in (*_PLAIN, "tasks", "populations")))


def _token(
    token_hash: str, name: str, role: Role, created_at: int, expires_at: int | None, revoked_at: int | None,
    tasks: str, populations: str,
) -> AccessToken:  # fmt: skip
    scope = Scope(tuple(json.loads(tasks)), tuple(json.loads(populations)))
    return AccessToken(token_hash, name, role, scope, created_at, expires_at, revoked_at)
