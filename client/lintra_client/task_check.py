"""Checks a task before anything about a row leaves this machine.

Nothing in a task is trusted: all servers must give the same task, it must hash to the identifier that the user was
given, and its privacy is computed again here from its parameters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from lintra_protocol.crypto.sealing import HYBRID, PUBLIC_KEY_BYTES
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.errors import (
    InvalidMessageError,
    InvalidTaskError,
    PolicyRefusedError,
    TaskConflictError,
    UnauthorizedError,
    UnavailableError,
)
from lintra_protocol.messages.documents import KeyList, Signed, TaskRecord
from lintra_protocol.privacy.limits import MAX_DELTA, Ceiling
from lintra_protocol.report.wire import KEY_ID_BYTES
from lintra_protocol.task import Task
from lintra_protocol.trust import not_verified, trust_in_words

CLOCK_SKEW = 300
"""Seconds by which this machine's clock may be off when the validity of a server's key is judged."""


MAX_RETENTION = 30 * 86_400
"""Seconds after a release for which a task may keep shares, unless the client's owner says otherwise."""

Servers = Sequence[str] | Mapping[str, str]
"""The servers' URLs as the task has them, in any order; or a mapping from these to where each is reached."""


@dataclass(frozen=True)
class ClientPolicy:
    """What this client's owner accepts; by default every valid task that promises its delta in earnest.

    Attributes:
        max_epsilon: largest epsilon, at `delta` and not at the delta that the author chose.
        max_delta: largest promised delta.
        delta: at which epsilon is compared; a millionth if not given, or one over the smallest cohort if that is less.
        min_servers: fewest servers.
        min_clients: fewest reports that a release may consist of.
        require_hybrid: refuse tasks whose reports are sealed without the post-quantum part.
        authors: public keys of the authors whose tasks are accepted; None accepts all.
        max_retention: longest time, in seconds after the release, for which servers may keep shares.
        max_epsilon_alone: largest epsilon, likewise, if everybody else is invented; three times `max_epsilon` if not
            given.
        trust_enrolment: take tasks, too, of which nothing bounds what is seen if everybody else is invented.
        require_verified: refuse tasks whose reports carry no proof of their length.
        max_retention_of_rows: the same for tasks whose noise the servers add. Their shares add up to rows without
            noise, which any later intruder into all servers would find.
    """

    max_epsilon: float | None = None
    max_delta: float = float(MAX_DELTA)
    delta: float | None = None
    min_servers: int = 2
    min_clients: int = 2
    require_hybrid: bool = False
    authors: frozenset[str] | None = None
    max_retention: int = MAX_RETENTION
    max_retention_of_rows: int = 0
    max_epsilon_alone: float | None = None
    trust_enrolment: bool = False
    require_verified: bool = False

    @property
    def ceiling(self) -> Ceiling:
        """Return what is accepted of a promise."""
        limits = self.max_epsilon, self.max_delta, self.delta, self.max_epsilon_alone
        most, largest, delta, alone = map(_decimal, limits)
        return Ceiling(most, largest or MAX_DELTA, delta, alone)

    def require(self, task: Task) -> None:
        """Check a task against the policy.

        Raises:
            PolicyRefusedError: it is not allowed; the detail says why.
        """
        for claim, worst in task.promises():
            self.ceiling.require(claim, worst)
        self._require_alone(task)
        if self.require_verified and task.verified is None:
            raise PolicyRefusedError(not_verified(task))
        if task.num_servers < self.min_servers:
            raise PolicyRefusedError(
                f"the task has {task.num_servers} servers, fewer than your min_servers {self.min_servers}"
            )
        if task.claim.min_clients < self.min_clients:
            smallest = task.claim.min_clients
            raise PolicyRefusedError(
                f"the task may release {smallest} reports, fewer than your min_clients {self.min_clients}"
            )
        if self.require_hybrid and task.suite != HYBRID:
            raise PolicyRefusedError(
                f"the task's suite {task.suite} has no post-quantum part, and your require_hybrid asks for one"
            )
        if self.authors is not None and task.author_key not in self.authors:
            raise PolicyRefusedError(f"author {task.author_key} is not one of those allowed here")
        self._require_retention(task)

    def _require_alone(self, task: Task) -> None:
        alone = task.judged_alone()
        if alone is not None:
            self.ceiling.require_alone(task.claim, alone)
        elif not self.trust_enrolment:
            raise PolicyRefusedError(
                f"{trust_in_words(task)[1]} Use --trust-enrolment (trust_enrolment in Python) if you trust whoever "
                "enrols the others, or ask for a task with noise 'both'"
            )

    def _require_retention(self, task: Task) -> None:
        asked = f"the task keeps shares for {task.retention} s after the release"
        if task.noise == "servers" and task.retention > self.max_retention_of_rows:
            raise PolicyRefusedError(
                f"{asked}, and since the servers add its noise they are rows without noise; "
                f"max_retention_of_rows is {self.max_retention_of_rows} s here"
            )
        if task.noise != "servers" and task.retention > self.max_retention:
            raise PolicyRefusedError(f"{asked}; max_retention is {self.max_retention} s here")


@dataclass(frozen=True)
class ServerKey:
    """A server's verified HPKE key; `valid_until` in seconds since the epoch."""

    key_id: bytes
    public_key: bytes
    valid_until: int


def _decimal(number: float | None) -> Fraction | None:
    """Return the decimal that is meant, not the float's exact value: a limit of 1e-6 is a millionth."""
    return None if number is None else Fraction(repr(float(number)))


def agreed_task(
    task_id: str, names: Sequence[str], bodies: Sequence[bytes], policy: ClientPolicy
) -> tuple[Task, list[int]]:
    """Check what the servers say that a task is.

    `task_id` is the identifier that the user was given; `names` are the servers' URLs as the user knows them. `bodies`
    are what each of them answered, in the same order.

    Returns:
        The task, and for each of `names` the index of that server in the task.

    Raises:
        InvalidMessageError: malformed, or the definition of another task.
        UnauthorizedError: a record is not signed by a server of the task.
        TaskConflictError: the servers differ, or are not the ones the user named.
        LintraError: the task is invalid, its promise is false (`FalseClaimError`), or policy refuses it.
    """
    records = [Signed[TaskRecord].from_canonical(body) for body in bodies]
    definitions = [record.message.definition for record in records]
    task = definitions[0]
    # A report may leave only if
    #   (1) all servers returned the same definition;
    for name, definition in zip(names, definitions, strict=True):
        if definition.canonical() != task.canonical():
            raise TaskConflictError(f"{name} holds another definition than {names[0]}")
    #   (2) it is the one that the user was given the identifier of;
    if task.task_id != task_id:
        raise InvalidMessageError(f"the servers returned task {task.task_id}, asked for was {task_id}")
    #   (3) each answer is signed by a different server of the task, and all of them answered;
    indices = [_signer(name, record) for name, record in zip(names, records, strict=True)]
    if sorted(indices) != list(range(task.num_servers)):
        raise TaskConflictError(f"the task has {task.num_servers} servers; answers came from servers {indices}")
    #   (4) these are the servers that the user named;
    for name, index in zip(names, indices, strict=True):
        if task.servers[index].url != name:
            raise TaskConflictError(f"{name} signed as server {index}, which the task has at {task.servers[index].url}")
    #   (5) the task is consistent and its promise, computed anew, holds;
    task.check()
    #   (6) the user's own policy agrees.
    policy.require(task)
    return task, indices


def sealing_key(task: Task, server: int, body: bytes, now: float) -> ServerKey:
    """Choose the first key of the task's suite that is valid now from a server's signed list.

    Raises:
        InvalidMessageError: malformed, or another server's list.
        UnauthorizedError: not signed by this server's identity key.
        UnavailableError: no key of the suite is valid now.
    """
    identity_key = task.servers[server].identity_key
    keys = Signed[KeyList].from_canonical(body).verified(identity_key)
    if keys.identity_key != identity_key:
        raise InvalidMessageError(f"server {server} returned the keys of {keys.identity_key}")
    for entry in keys.keys:
        if entry.suite == task.suite and entry.valid_from - CLOCK_SKEW <= now < entry.valid_until + CLOCK_SKEW:
            public_key = parse_base64url(entry.public_key, PUBLIC_KEY_BYTES[task.suite])
            return ServerKey(parse_base64url(entry.key_id, KEY_ID_BYTES), public_key, entry.valid_until)
    raise UnavailableError(f"server {server} has no {task.suite} key that is valid now; check this machine's clock")


def addresses_of(servers: Servers) -> dict[str, str]:
    """Return where each server is reached, by the URL that the task knows it by.

    Raises ValueError if a URL cannot be one, or a server is named twice.
    """
    if isinstance(servers, str):
        raise ValueError("servers is a list of URLs, got one string")
    names = [server_url(name) for name in servers]
    require_distinct(names)
    addresses = map(server_url, servers.values()) if isinstance(servers, Mapping) else names
    return dict(zip(names, addresses, strict=True))


def require_distinct(names: Sequence[str]) -> None:
    """Refuse, with ValueError, a list of servers that names one twice or has fewer than two."""
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError(f"name each of the task's servers once, at least two; got {', '.join(names) or 'none'}")


def _signer(name: str, record: Signed[TaskRecord]) -> int:
    for index, entry in enumerate(record.message.definition.servers):
        try:
            record.verified(entry.identity_key)
        except UnauthorizedError:
            continue
        except InvalidMessageError as error:
            raise InvalidTaskError(f"server {index}: {error.detail}") from None
        return index
    raise UnauthorizedError(f"{name} did not sign the definition with the key of any of the task's servers")


def server_url(text: str) -> str:
    """Return a server's URL without a slash at its end; raise ValueError if it cannot be one."""
    url = text.rstrip("/")
    if not url.startswith(("https://", "http://")):
        raise ValueError(f"a server's URL begins with https:// or http://, got {text!r}")
    return url


def task_identifier(text: str) -> str:
    """Return a task's identifier; raise ValueError if it cannot be one."""
    try:
        parse_base64url(text, 32)
    except InvalidMessageError as error:
        raise ValueError(f"{text!r} is not a task identifier: {error.detail}") from None
    return text
