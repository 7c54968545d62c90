"""What a start finds in the two folders, and whether the server may begin (docs/how-to/deploying.md has the table).

Crashes alone always lead to a server that begins. Anything else, a copy, a loss, a second process, leads to a refusal
that changes nothing and names the command that comes next.
"""

import structlog

from lintra_protocol.canonical import base64url
from lintra_protocol.messages import Inventory, Signed
from lintra_server.disk.journal import EMPTY, Halt, Head
from lintra_server.disk.reserve import is_full
from lintra_server.storage.parts import NotStartedError, Parts
from lintra_server.storage.states import FINAL_STATES
from lintra_server.storage.steps import KEPT_STATES, Step, Stepper

log = structlog.get_logger()

_RESTORE = "nothing was changed; run `lintra server restore`"
_LOST = "nothing was changed; run `lintra server restore --journal-lost`"


def begin(parts: Parts, halt: Halt) -> Stepper:
    """Compare journal, database, witness and notes; finish a step that a crash interrupted; begin a new start number.

    Raises:
        NotStartedError: they do not fit together.
        UnavailableError: the witness cannot be reached, or the disk does not take the first step.
    """
    stepper = Stepper(
        parts.states, parts.journal, parts.folder.files, parts.witness, halt,
        lambda error: is_full(error) and parts.reserve.use(),
    )  # fmt: skip
    in_flight = compare(parts)
    _require_all_commits(parts)
    if in_flight is not None:
        step, before = in_flight
        stepper.resume(step, before)
        log.warning("finished a step that was interrupted", state=step.state)
    _require_secrets(parts)
    standing = parts.states.standing()
    start = max(parts.journal.last_start, standing.start if standing else 0) + 1
    stepper.start = start
    stepper.perform(Step(start, "started"))
    parts.folder.renew_journal_key(parts.vault)
    parts.states.reopen()
    tidy(parts)
    return stepper


def compare(parts: Parts) -> tuple[Step, Head] | None:
    """Return the step that only the database lacks, with the head it starts from; None if nothing lacks anything.

    Raises:
        NotStartedError: the folders do not fit together.
        WitnessError: the witness cannot be read.
    """
    journal, standing = parts.journal, parts.states.standing()
    if standing is None:
        raise NotStartedError(
            "the database belongs to no journal, as one of an earlier version or an old backup does. If it is the "
            "database that ran last, never a copy, and the key folder is new, run `lintra server init --adopt`; else "
            "`lintra server restore --journal-lost`"
        )
    seen = parts.witness.read() if parts.witness is not None else None
    if standing.head == journal.head:
        _require_witnessed(seen, (journal.head,))
        return None
    if not journal.has(standing.head):
        raise NotStartedError(f"the journal lacks lines that the database has, or is another server's: {_LOST}")
    _require_witnessed(seen, (journal.head, journal.head_at(journal.head.length - 1)))
    line, *others = journal.since(standing.head)
    step = None if others else parts.folder.files.read(line)
    if step is None or not fits(parts, step):
        lost = len(others) + 1
        raise NotStartedError(f"the database lacks the journal's last {lost} lines: it is an old copy; {_RESTORE}")
    return step, standing.head


def fits(parts: Parts, step: Step) -> bool:
    """Return whether a step was computed from this very database: the batch's state and list of reports are its."""
    if not parts.states.may(step):
        return False
    inventory = step.values.get("inventory")
    if step.state != "closed" or not isinstance(inventory, bytes):
        return True
    task = parts.store.number(step.task_id)
    listed = Signed[Inventory].from_canonical(inventory).message
    if task is None or listed.first != step.first:
        return False
    members = parts.store.batch_numbers(task, step.batch if step.first is None else step.first, step.batch)
    return bool(members) and listed.root == base64url(parts.store.report_ids(*members).root)


def lost_commits(parts: Parts) -> int | None:
    """Return how many noted reports and tasks the database lacks; None if there is no note."""
    noted = parts.folder.noted()
    return None if noted is None else max(noted.commits - parts.store.commits(), 0)


def tidy(parts: Parts) -> None:
    """Destroy step files and secrets that are not needed any more: folders that fit together need few."""
    journal, files = parts.journal, parts.folder.files
    for number in files.numbers():
        if number > journal.head.length or journal.lines[number - 1].state not in KEPT_STATES:
            files.remove(number)
    destroyed = parts.folder.secrets.destroy_all_but(parts.states.secrets())
    if destroyed:
        log.info("destroyed secrets that nothing needs", count=destroyed)


def without_secret(parts: Parts) -> list[int]:
    """Return the batches whose shares could still be released, but whose secret is gone."""
    return [
        row.batch
        for row in parts.states.rows()
        if row.fate.state not in FINAL_STATES and (row.secret is None or parts.folder.secrets.get(row.secret) is None)
    ]


def _require_witnessed(seen: Head | None, allowed: tuple[Head | None, ...]) -> None:
    if seen == EMPTY:
        raise NotStartedError(
            "the witness remembers nothing. If it is new, and this server is the original, run "
            "`lintra server witness`; if it was lost, make sure first that neither folder was set back"
        )
    if seen is not None and seen not in allowed:
        raise NotStartedError(
            "the witness knows another journal: this is a copy of a server, or both folders were set back. "
            "If the other one is still running, stop here; else " + _LOST
        )


def _require_all_commits(parts: Parts) -> None:
    lost = lost_commits(parts)
    if lost is None:
        raise NotStartedError(f"the note of what was stored last is missing from the key folder: {_RESTORE}")
    if lost:
        raise NotStartedError(f"the database lacks {lost} acknowledged reports or tasks: it is an old copy; {_RESTORE}")


def _require_secrets(parts: Parts) -> None:
    if gone := without_secret(parts):
        raise NotStartedError(
            f"the secrets of {len(gone)} unreleased batches are missing from the key folder: {_RESTORE}"
        )
