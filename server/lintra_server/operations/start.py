"""Checks the two folders at a start and decides whether the server may begin (docs/how-to/deploying.md has the table).

Crashes alone always lead to a server that begins. Anything else, a copy, a loss, a second process, leads to a refusal
that changes nothing and names the command that comes next.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import structlog
from sqlalchemy import select, update

from lintra_server.durability.disk_reserve import is_full
from lintra_server.durability.journal import (
    EMPTY,
    NOT_AWAITED,
    BatchId,
    Halt,
    Head,
    Journal,
    JournalEntry,
    JournalState,
)
from lintra_server.durability.key_files import KeyFiles
from lintra_server.durability.notes import ChainNote
from lintra_server.storage.batch_states import FINAL_STATES, BatchRow, cut
from lintra_server.storage.database import REVISION, tasks
from lintra_server.storage.history import History
from lintra_server.storage.server_resources import NotStartedError, ServerResources
from lintra_server.storage.tasks import TOKEN_KEY
from lintra_server.storage.transition_log import KEPT_STATES, Step, Stepper
from lintra_service.settings import InvalidSettingsError

log = structlog.get_logger()

BY_A_START = NOT_AWAITED | frozenset[JournalState]({"started"})
"""What a start may find that neither the database nor the witness knows: it changed no batch."""

_RESTORE = "nothing was changed; run `lintra server restore`"
_LOST = "nothing was changed; run `lintra server restore --journal-lost`"


def begin(parts: ServerResources, halt: Halt) -> Stepper:
    """Compare journal, database, witness and notes; finish a step that a crash interrupted; begin a new start number.

    Raises NotStartedError if they do not fit together.
    """
    stepper = Stepper(
        parts.states, parts.journal, parts.folder.files, parts.witness, halt,
        lambda error: is_full(error) and parts.reserve.use(),
    )  # fmt: skip
    in_flight = compare(parts)
    if not parts.history.revision:
        raise NotStartedError(
            "the key folder is of a version before 0.1.0, which was never published: make a new server"
        )
    learn(parts, in_flight)
    if unknown_notes(parts.history, {name: note for name in parts.notes.names() if (note := parts.notes.get(name))}):
        raise NotStartedError(f"the journal lacks lines: there are notes of batches that it does not know: {_LOST}")
    if parts.history.revision != REVISION:
        parts.history.record("migrated", BatchId(b"", 0), {"revision": REVISION})
    _require_keys(parts)
    if in_flight is not None:
        step, line = in_flight
        stepper.resume(step, line)
        log.warning("finished a step that was interrupted", state=step.state)
    head = parts.journal.head
    parts.states.catch_up(head)
    if parts.witness is not None:
        parts.witness.advance(lambda seen: parts.journal.lacks_little(seen, head, BY_A_START), head)
    start = stepper.start = parts.journal.last_start + 1
    stepper.perform(Step(start, "started"))
    parts.folder.renew_journal_key(parts.vault)
    parts.states.reopen()
    for task_id in parts.store.left_of_cut():
        cut(parts.store, parts.states, task_id)
    parts.store.chains.load([place for place, batch in parts.history.batches.items() if batch.state == "open"])
    # What is wrong is logged, and stops that batch alone.
    parts.store.check_ends()
    tidy(parts)
    return stepper


def learn(parts: ServerResources, in_flight: tuple[Step, JournalEntry] | None = None) -> None:
    """Learn of all that the journal says, but of a step that the database lacks, and which keys were destroyed."""
    lines = parts.journal.lines
    parts.history.learn(line for line in lines if in_flight is None or line.number != in_flight[1].number)
    learn_destroyed(parts.history, parts.batch_keys, parts.notes.names())
    if in_flight is not None and in_flight[0].state == "closed":
        places = (parts.history.place(batch) for batch in in_flight[1].of_all)
        parts.history.closing.update(place for place in places if place is not None)


def learn_destroyed(history: History, keys: KeyFiles, noted: AbstractSet[bytes]) -> None:
    """Learn which batches' keys were destroyed, and of which of these the shares were deleted, too: no note is left."""
    there = keys.names()
    for batch in history.batches.values():
        batch.is_destroyed = batch.batch.name not in there or (batch.is_final and not keys.has(batch.batch.name))
        batch.is_emptied = batch.is_destroyed and batch.batch.name not in noted


def unknown_notes(history: History, notes: Mapping[bytes, ChainNote]) -> set[bytes]:
    """Return the names of batches that held reports once, and that the journal does not know: it lost lines.

    A note without reports may be that of a batch before whose line a crash came.
    """
    known = {batch.batch.name for batch in history.batches.values()}
    return {name for name, note in notes.items() if note.total and name not in known}


def compare(parts: ServerResources) -> tuple[Step, JournalEntry] | None:
    """Return the step that only the database lacks, with its journal line; None if nothing lacks anything.

    Raises NotStartedError if the folders do not fit together.
    """
    journal, standing = parts.journal, parts.states.standing()
    if standing is None:
        raise NotStartedError(
            f"the database belongs to no journal, as an old backup does, or one whose rows were deleted: {_RESTORE}"
        )
    if not journal.has(standing.head):
        raise NotStartedError(f"the journal lacks lines that the database has, or is another server's: {_LOST}")
    lacking = [line for line in journal.since(standing.head) if line.state not in BY_A_START]
    seen = parts.witness.read() if parts.witness is not None else None
    if seen is not None:
        before = journal.head_at(lacking[-1].number - 1) if lacking else None
        _require_witnessed(journal, seen, [head for head in (journal.head, before) if head is not None])
    if not lacking:
        return None
    step = parts.folder.files.read(lacking[-1])
    if len(lacking) > 1 or step is None:
        raise NotStartedError(
            f"the database lacks the journal's last {len(lacking)} steps: it is an old copy; {_RESTORE}"
        )
    return step, lacking[-1]


def tidy(parts: ServerResources) -> None:
    """Destroy step files and keys that are not needed any more: folders that fit together need few."""
    journal, files = parts.journal, parts.folder.files
    for number in files.numbers():
        if number > journal.head.length or journal.lines[number - 1].state not in KEPT_STATES:
            files.remove(number)
    needed = {history.name for history in parts.history.batches.values() if not history.is_destroyed}
    destroyed = parts.batch_keys.destroy_all_but(needed)
    if destroyed:
        log.info("destroyed keys that nothing needs", count=destroyed)


def without_keys(parts: ServerResources) -> list[BatchRow]:
    """Return the batches whose shares could still be released, but whose keys are gone."""
    return [row for row in parts.states.rows() if row.fate.state not in FINAL_STATES and row.is_destroyed]


def _require_witnessed(journal: Journal, seen: Head, allowed: Sequence[Head]) -> None:
    if seen == EMPTY:
        raise NotStartedError(
            "the witness remembers nothing. If it is new, and this server is the original, run "
            "`lintra server witness`; if it was lost, make sure first that neither folder was set back"
        )
    if not any(journal.lacks_little(seen, head, BY_A_START) for head in allowed):
        raise NotStartedError(
            "the witness knows another journal: this is a copy of a server, or both folders were set back. "
            "If the other one is still running, stop here; else " + _LOST
        )


def _require_keys(parts: ServerResources) -> None:
    if gone := without_keys(parts):
        raise NotStartedError(f"the keys of {len(gone)} unreleased batches are missing from the key folder: {_RESTORE}")


def renew_keys(parts: ServerResources) -> int:
    """Wrap whatever is under a later root key of the list under the first one; return how much there was to do.

    Afterwards the later ones can be taken off the list.
    """
    parts.folder.renew_journal_key(parts.vault)
    if not parts.vault.is_changing:
        return 0  # there may be thousands of files, and all are under the only key
    done = sum(_renewed(parts, history.batch) for history in parts.history.batches.values() if not history.is_destroyed)
    done += sum(parts.store.stream_memory.renew(history.batch) for history in parts.history.batches.values())
    done += sum(parts.sealing_keys.renew(name, name) for name in parts.sealing_keys.names())
    places = {task.place: task_id for task_id, task in parts.history.tasks.items()}
    with parts.database.writing() as connection:
        query = select(tasks.c.task, tasks.c.wrapped_token_key).where(tasks.c.wrapped_token_key.is_not(None))
        for place, wrapped in connection.execute(query).all():
            try:
                renewed = parts.vault.renewed(wrapped, TOKEN_KEY, places[place]) if place in places else None
            except InvalidSettingsError:
                continue  # it was changed; whoever needs it is told
            if renewed is not None:
                connection.execute(update(tasks).where(tasks.c.task == place).values(wrapped_token_key=renewed))
                done += 1
    return done


def _renewed(parts: ServerResources, batch: BatchId) -> bool:
    try:
        return parts.batch_keys.renew(batch.name, *batch.bound)
    except InvalidSettingsError:
        return False  # it was changed; whoever needs it is told
