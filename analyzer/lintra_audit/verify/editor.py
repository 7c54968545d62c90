"""Somebody who may write to the databases of servers, and has no key of theirs."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing

from lintra_audit.verify.actors import Actors
from lintra_audit.verify.attack_result import AttackResult
from lintra_audit.verify.client_attacks import NUM_HONEST, SPECIFICATION, Servers
from lintra_audit.verify.malicious_reports import honest_reports
from lintra_audit.verify.processes import ServerFolder
from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import UnavailableError
from lintra_server.batches.registry import MOST_HELD

DELETED = 8
LOOSER = "9"
"""Both epsilons that a task is given."""

Said = tuple[str, bool]


def editor(servers: Servers, kept: str | None = None) -> AttackResult:
    """Let somebody delete the reports of his choice, and loosen the promise of a task."""
    with servers(2, kept) as places:
        said, worked = _all_edits(places)
    with servers(2, "database") as places:
        broken, shown = _all_edits(places)
    return AttackResult(
        "editor", "editor", "somebody deletes acknowledged reports from a database, and loosens a promise in another",
        "database", said, not any(worked), broken, all(shown),
    )  # fmt: skip


def _all_edits(places: Sequence[ServerFolder]) -> tuple[str, list[bool]]:
    exchange = Actors.begin(places, SPECIFICATION)
    reports = honest_reports(exchange.task, NUM_HONEST + DELETED)
    for server in range(2):
        for some in (reports[:NUM_HONEST], reports[NUM_HONEST:]):
            exchange.upload(server, some)
    found = [_deleted(exchange, places[0]), _loosened(exchange, places[1])]
    return "; ".join(said for said, _ in found), [worked for _, worked in found]


def _deleted(exchange: Actors, place: ServerFolder) -> Said:
    _write(place, "DELETE FROM segments WHERE key = (SELECT max(key) FROM segments)")

    def inventory() -> Said:
        listed = exchange.inventory(0).message
        worked = listed.count == NUM_HONEST and listed.lost == 0
        return f"{NUM_HONEST + DELETED} reports were acknowledged, the inventory lists {listed.count}", worked

    return _unless_refused("reports", inventory)


def _loosened(exchange: Actors, place: ServerFolder) -> Said:
    task = exchange.task
    weaker = {"epsilon": LOOSER} | ({"epsilon_alone": LOOSER} if task.claim.epsilon_alone else {})
    loose = task.model_copy(update={"claim": task.claim.model_copy(update=weaker)})
    # As long as the true one: of another length it would not even be read.
    _write(place, "UPDATE tasks SET definition = ? WHERE task_id = ?", loose.canonical(), task.id_bytes)
    for _ in range(MOST_HELD):  # until the server forgets the task, and reads it again
        exchange.register(1, task.model_copy(update={"salt": base64url(system_randomness(32))}))

    def promise() -> Said:
        epsilon = exchange.served(1).message.definition.claim.epsilon
        said = f"the task is served with epsilon {epsilon}, its author asked for {task.claim.epsilon}"
        return said, epsilon == LOOSER

    return _unless_refused("promise", promise)


def _unless_refused(what: str, look: Callable[[], Said]) -> Said:
    try:
        return look()
    except UnavailableError as error:
        return f"{what}: refused ({error.token})", False


def _write(place: ServerFolder, statement: str, *values: object) -> None:
    """Write to the database of a server that runs; raise ValueError if nobody runs it."""
    if place.folder is None:
        raise ValueError("a server that the audit plays has no database")
    path = place.folder / "data" / "lintra.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as database:
        database.execute(statement, values)
