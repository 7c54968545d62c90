"""The users and their sign-ins: tokens, sessions and sign-in codes, of which only hashes are kept.

They stand in the trusted file, which is read anew whenever it changed: what one process revokes is refused by all.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from lintra_analyzer.storage.access_tokens import TOKEN_ID_DIGITS, AccessToken
from lintra_analyzer.storage.trusted_file import Ticket, Trusted, TrustedFile

MOST_SESSIONS = 200
"""Of one token: the file is written whole at every sign-in. Who signs in once more ends the session that ends first."""


class Users:
    """Tokens, sessions and sign-in codes; thread-safe. Every method that changes something is durable."""

    def __init__(self, file: TrustedFile) -> None:
        """Keep them in the trusted file."""
        self._file = file

    def add(self, token: AccessToken) -> None:
        """Keep a new token."""
        self._change(lambda old: replace(old, tokens={**old.tokens, token.token_hash: token}))

    def find(self, token_hash: str) -> AccessToken | None:
        """Return the token with a hash, valid or not, or None."""
        return self._file.state().tokens.get(token_hash)

    def all(self) -> list[AccessToken]:
        """Return all tokens, the newest first."""
        return sorted(self._file.state().tokens.values(), key=lambda token: (-token.created_at, token.token_hash))

    def revoke(self, token_id: str, now: int) -> AccessToken | None:
        """Revoke a token, end its sessions, and return it; None if there is none. The first time counts."""

        def step(old: Trusted) -> tuple[Trusted, AccessToken | None]:
            mine = [token for token in old.tokens.values() if token.token_id == token_id]
            if len(token_id) != TOKEN_ID_DIGITS or len(mine) != 1:
                return old, None
            found = mine[0].token_hash
            revoked = replace(mine[0], revoked_at=now if mine[0].revoked_at is None else mine[0].revoked_at)
            rest = _without(old, lambda token_hash: token_hash == found)
            return replace(rest, tokens={**old.tokens, found: revoked}), mine[0]

        return self._file.change(step)

    def forget(self, name: str, now: int) -> None:
        """Forget the tokens of a name that were revoked or have expired, with what is left of their sessions."""

        def step(old: Trusted) -> Trusted:
            over = {key for key, token in old.tokens.items() if token.name == name and not token.is_valid(now)}
            kept = {key: token for key, token in old.tokens.items() if key not in over}
            return replace(_without(old, over.__contains__), tokens=kept) if over else old

        self._change(step)

    def begin_session(self, session_hash: str, token_hash: str, expires_at: int, now: int) -> None:
        """Keep a session of a token, and forget those that are over."""

        def step(old: Trusted) -> Trusted:
            kept = _running(old.sessions, now)
            mine = sorted((ticket.expires_at, key) for key, ticket in kept.items() if ticket.token_hash == token_hash)
            for _, key in mine[: max(len(mine) - MOST_SESSIONS + 1, 0)]:
                del kept[key]
            return replace(old, sessions={**kept, session_hash: Ticket(token_hash, expires_at)})

        self._change(step)

    def token_of_session(self, session_hash: str, now: int) -> str | None:
        """Return the hash of the token that a session is of, or None if it is over or unknown."""
        ticket = self._file.state().sessions.get(session_hash)
        return ticket.token_hash if ticket is not None and ticket.expires_at > now else None

    def end_session(self, session_hash: str) -> None:
        """Forget a session."""
        self._change(
            lambda old: replace(old, sessions={key: one for key, one in old.sessions.items() if key != session_hash})
        )

    def add_code(self, code_hash: str, token_hash: str, expires_at: int) -> None:
        """Keep a code that signs in once, as the holder of a token."""
        self._change(lambda old: replace(old, codes={**old.codes, code_hash: Ticket(token_hash, expires_at)}))

    def use_code(self, code_hash: str, now: int) -> str | None:
        """Return the hash of the token that a code is for, and forget the code; None if it is unknown or over."""

        def step(old: Trusted) -> tuple[Trusted, str | None]:
            kept = _running(old.codes, now)
            used = kept.pop(code_hash, None)
            if len(kept) == len(old.codes):
                return old, None
            return replace(old, codes=kept), None if used is None else used.token_hash

        return self._file.change(step)

    def _change(self, step: Callable[[Trusted], Trusted]) -> None:
        self._file.change(lambda old: (step(old), None))


def _running(tickets: Mapping[str, Ticket], now: int) -> dict[str, Ticket]:
    return {key: ticket for key, ticket in tickets.items() if ticket.expires_at > now}


def _without(old: Trusted, ended: Callable[[str], bool]) -> Trusted:
    """Return what is left without the sessions and codes of some tokens."""
    return replace(
        old,
        sessions={key: one for key, one in old.sessions.items() if not ended(one.token_hash)},
        codes={key: one for key, one in old.codes.items() if not ended(one.token_hash)},
    )
