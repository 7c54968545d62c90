"""The record of a token: whose it is, what its holder may do, with what, and until when."""

from dataclasses import dataclass, field
from typing import Literal, get_args

Role = Literal["viewer", "analyst", "operator"]
"""A viewer looks, an analyst makes tasks and releases too, an operator gives and takes tokens besides."""

ROLES: tuple[Role, ...] = get_args(Role)
"""From the one that may least; each may do what those before it may."""

TOKEN_ID_DIGITS = 12
"""The first hexadecimal digits of a token's hash name it: they are no secret, and tell nothing of the token."""


@dataclass(frozen=True)
class Scope:
    """What somebody may see: all, or the tasks named and those of the populations named.

    `tasks` are identifiers of tasks. `populations` are names of populations; new tasks can be made for these.
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
    """What is kept of a token: all but the token."""

    token_hash: str = field(repr=False)  #: SHA-256 in hexadecimal
    name: str
    role: Role  #: what its holder may do
    scope: Scope
    created_at: int  #: seconds since the epoch
    expires_at: int | None = None  #: from when on it is refused; None for never
    revoked_at: int | None = None  #: when it was revoked, if it was

    @property
    def token_id(self) -> str:
        """Return what names the token to people."""
        return self.token_hash[:TOKEN_ID_DIGITS]

    def is_valid(self, now: int) -> bool:
        """Return whether its holder is let in."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)
