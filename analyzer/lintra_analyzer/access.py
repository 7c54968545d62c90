"""Access control: tokens of the settings, tokens with roles, and sessions of the console.

A session is bound to its token: whoever holds it may do what the token may at that moment, so that a token that is
revoked or has expired ends its sessions at once.
"""

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lintra_analyzer.storage.access_tokens import ROLES, AccessToken, Role, Scope
from lintra_analyzer.storage.users import Users
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import ForbiddenError, InvalidMessageError, UnauthorizedError, UnknownResourceError
from lintra_service.bearer_tokens import bearer_of, new_token, token_hash

SESSION_SECONDS = 12 * 3600
"""A session ends after a working day, however often it is used."""

CODE_SECONDS = 15 * 60
"""How long a sign-in link may wait for its use."""

MOST_NAME = 200
"""Characters in the name of a token or of a population."""

LINK = "sign-in link"
"""The name of the tokens behind such links, whose secrets nobody knows: at their end they are forgotten."""

_SECRET_BYTES = 32


@dataclass(frozen=True)
class Holder:
    """Somebody who was let in.

    `name` is that of the token, for people; `role` is what the holder may do.
    """

    token_hash: str = field(repr=False)
    name: str
    role: Role
    scope: Scope

    def may(self, role: Role) -> bool:
        """Return whether the holder may do what a role may."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def require(self, role: Role) -> None:
        """Check that the holder may do what a role may.

        Raises ForbiddenError if the holder may not, or holds a part and asks for what concerns all.
        """
        if not self.may(role):
            raise ForbiddenError(f"this needs the role {role}; the token {self.name!r} is that of a {self.role}")
        if role == "operator" and not self.scope.is_everything:
            raise ForbiddenError("an operator whose token is for some tasks only gives and takes no tokens")


@dataclass(frozen=True)
class ConsoleSession:
    """A new session of the console: what the browser keeps, and until when."""

    secret: str = field(repr=False)
    expires_at: int


class Access:
    """Lets people in; what a request shows is looked up anew each time."""

    def __init__(
        self, fixed_hashes: Sequence[str], users: Users, now: Callable[[], int], random_bytes: RandomBytes
    ) -> None:
        """Know the tokens of the settings, by their hashes, and those of the trusted file.

        `fixed_hashes` are those of tokens that the settings name: operators without end.
        """
        self._fixed = tuple(fixed_hashes)
        self._users = users
        self._now = now
        self._random_bytes = random_bytes

    @property
    def lets_nobody_in(self) -> bool:
        """Return whether no token is valid."""
        now = self._now()
        return not self._fixed and not any(token.is_valid(now) for token in self._users.all())

    # --- holders ---------------------------------------------------------------------------------------------------

    def holder(self, authorization: str | None, session: str | None = None) -> Holder:
        """Return who shows an Authorization header, or, without one, the secret of a session.

        Raises UnauthorizedError if neither is shown, or it is not known or not valid any more.
        """
        if authorization is None and session is not None:
            found = self._users.token_of_session(_hash(session), self._now())
            if found is None:
                raise UnauthorizedError("the session is over; sign in again")
            return self._holder_of(found)
        return self._holder_of(token_hash(bearer_of(authorization)))

    def _holder_of(self, found: str) -> Holder:
        # All hashes are compared, whichever fits.
        if sum(hmac.compare_digest(found, known) for known in self._fixed):
            return Holder(found, "settings", "operator", Scope())
        token = self._users.find(found)
        if token is None:
            raise UnauthorizedError("the token is unknown: sign in with another, or ask an operator for one")
        if not token.is_valid(self._now()):
            raise UnauthorizedError(
                "the token was revoked" if token.revoked_at is not None else "the token has expired"
            )
        return Holder(found, token.name, token.role, token.scope)

    # --- sessions --------------------------------------------------------------------------------------------------

    def sign_in(self, token: str) -> ConsoleSession:
        """Begin a session for whoever shows a token."""
        return self._session_of(token_hash(token.strip()))

    def sign_in_by_code(self, code: str) -> ConsoleSession:
        """Begin a session for whoever shows the code of a sign-in link, which is used up.

        Raises UnauthorizedError if it is unknown, was used before, or waited for too long.
        """
        found = self._users.use_code(_hash(code), self._now())
        if found is None:
            raise UnauthorizedError("the link was used before, or is too old; make another one, or give a token")
        return self._session_of(found)

    def _session_of(self, found: str) -> ConsoleSession:
        self._holder_of(found)
        secret, now = base64url(self._random_bytes(_SECRET_BYTES)), self._now()
        self._users.begin_session(_hash(secret), found, now + SESSION_SECONDS, now)
        return ConsoleSession(secret, now + SESSION_SECONDS)

    def sign_out(self, session: str) -> None:
        """End a session."""
        self._users.end_session(_hash(session))

    # --- tokens ----------------------------------------------------------------------------------------------------

    def tokens(self) -> list[AccessToken]:
        """Return all tokens but those of the settings and of sign-in links that are over, the newest first."""
        now = self._now()
        return [token for token in self._users.all() if token.name != LINK or token.is_valid(now)]

    def add(self, name: str, role: Role, scope: Scope, seconds: int | None) -> tuple[str, AccessToken]:
        """Make a token; it is returned this once, and only its hash is kept.

        `role` is what its holder may do. `scope` says with what the token may be used; an operator's is everything.
        `seconds` says how long it is valid; None for ever. Raises InvalidMessageError if there is no
        name or no time, or an operator would get only a part.
        """
        name = name.strip()
        if not name.isprintable() or not 0 < len(name) <= MOST_NAME:
            raise InvalidMessageError(f"a token needs a name of 1 to {MOST_NAME} printable characters")
        if role == "operator" and not scope.is_everything:
            raise InvalidMessageError(
                "an operator's token is for everything: whoever makes tokens could make any other"
            )
        if seconds is not None and seconds < 1:
            raise InvalidMessageError("a token is valid for a positive time, or for ever")
        secret, now = new_token(self._random_bytes), self._now()
        made = AccessToken(token_hash(secret), name, role, scope, now, None if seconds is None else now + seconds)
        self._users.add(made)
        return secret, made

    def revoke(self, token_id: str) -> AccessToken:
        """Revoke a token; its sessions end with it. Raises UnknownResourceError if there is none of this name."""
        revoked = self._users.revoke(token_id, self._now())
        if revoked is None:
            raise UnknownResourceError(f"no token {token_id}")
        return revoked

    def sign_in_code(self, role: Role = "operator") -> str:
        """Make a code that signs somebody in once, soon, for one session."""
        self._users.forget(LINK, self._now())
        _, made = self.add(LINK, role, Scope(), CODE_SECONDS + SESSION_SECONDS)
        code = base64url(self._random_bytes(_SECRET_BYTES))
        self._users.add_code(_hash(code), made.token_hash, self._now() + CODE_SECONDS)
        return code


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
