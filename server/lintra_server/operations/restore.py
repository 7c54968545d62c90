"""Makes a server of a database that is an old copy, or of a key folder that lost its journal: by giving batches up.

What the journal says was released or given up stays so for ever. Of the rest nobody can know, unless the journal is
known to be whole: a witness says so, or the operator, who knows that the key folder was never copied. Tasks that begin
before a restore are not registered afterwards, since they may have been released in the part that is lost.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path

from sqlalchemy.exc import DatabaseError

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_server.clock import Clock
from lintra_server.durability.encryption_at_rest import Vault
from lintra_server.durability.journal import EMPTY, NOT_AWAITED, BatchId, Head, Journal, JournalEntry
from lintra_server.durability.notes import DamagedNotesError
from lintra_server.durability.private_files import sync_file, sync_folder, write_new
from lintra_server.operations.inspection import read_journal, read_notes
from lintra_server.operations.manifests import MANIFEST_FILE, DoctoredBackupError, Manifest, copied
from lintra_server.operations.start import learn
from lintra_server.settings import Settings
from lintra_server.storage.batch_states import FINAL_STATES, BatchRow, StoredBatchState, standing_in
from lintra_server.storage.database import REVISION
from lintra_server.storage.history import History
from lintra_server.storage.key_folder import KeyFolder
from lintra_server.storage.read_only import ReadOnlyDatabase
from lintra_server.storage.server_resources import (
    NotStartedError,
    ServerResources,
    database_path,
    open_vault,
    parts_with,
)
from lintra_server.storage.transition_log import Step


@dataclass(frozen=True)
class Restored:
    """What a restore did."""

    kept: int  #: open or closed batches that go on
    abandoned: int  #: batches that were given up
    released: int  #: releases whose bytes were stored again
    lost: list[str]  #: what the database lacks of batches that go on, in words; they wait until the loss is accepted
    barred_before: int  #: tasks that take reports earlier, in seconds since the epoch, are not registered


@dataclass
class _Decision:
    kept: list[BatchRow] = field(default_factory=list)
    abandon: list[BatchRow] = field(default_factory=list)
    release: list[Step] = field(default_factory=list)


def restore(
    settings: Settings,
    random_bytes: RandomBytes,
    folder: KeyFolder,
    clock: Clock,
    *,
    journal_lost: bool = False,
    never_copied: bool = False,
) -> Restored:
    """Make the folders fit together again.

    `settings` says where the folders are. `journal_lost` says to begin a new journal; every batch is given up.
    `never_copied` says that the operator knows that the key folder is the original and was never set back.

    Raises:
        NotStartedError: the journal is not whole, so it would have to be called lost.
        InvalidSettingsError: a key does not fit.
        UnavailableError: the clock is not to be believed.
    """
    now = clock.now()
    if not settings.has_identity_key() or not settings.has_storage_root_key():
        raise NotStartedError("bring back the identity key and the storage root key first, from their own backup")
    vault = open_vault(settings, random_bytes)
    if journal_lost:
        return _begin_anew(settings, random_bytes, folder, clock, vault)
    folder.put_damaged_notes_aside()
    parts = parts_with(settings, random_bytes, folder, vault, _journal(folder, vault))
    try:
        journal, seen = parts.journal, _witnessed(parts) if parts.witness is not None else None
        standing = parts.states.standing()
        if standing is not None and not journal.has(standing.head):
            raise NotStartedError(_NOT_ITS_JOURNAL)
        learn(parts)
        from_line = standing.head.length if standing else 0
        decision = _decide(parts, from_line, never_copied or seen is not None)
        barred = _barred(parts, now)
        _carry_out(parts, decision, barred, seen)
        lost = parts.store.check_ends()
        folder.note_clock(clock.seen())
    finally:
        parts.close_but_folder()
    return Restored(len(decision.kept), len(decision.abandon), len(decision.release), lost, barred)


def _begin_anew(
    settings: Settings, random_bytes: RandomBytes, folder: KeyFolder, clock: Clock, vault: Vault
) -> Restored:
    """Begin a new journal with a new database: without the old journal nobody can vouch for what the old one says.

    All keys of batches are destroyed. The old database and the old journal stay beside the new ones.
    """
    now, given_up = clock.now(), folder.batch_keys(vault).destroy_all_but(())
    folder.stream_memory(vault).forget_all()
    if settings.database_url is None:
        put_aside(settings)
    folder.new_notes().close()
    parts = parts_with(settings, random_bytes, folder, vault, folder.new_journal(vault, random_bytes))
    try:
        parts.database.clear()
        barred = _barred(parts, now)
        _carry_out(parts, _Decision(), barred, None)
        folder.note_clock(clock.seen())
    finally:
        parts.close_but_folder()
    return Restored(0, given_up, 0, [], barred)


def _barred(parts: ServerResources, now: float) -> int:
    seen = parts.folder.last_seen()
    return int(max(now, seen.clock if seen else 0, parts.history.barred_before)) + 1


_NOT_ITS_JOURNAL = (
    "the database is not an older state of this journal: the key folder lost lines, or the two belong to different "
    "servers. If they belong together, run `lintra server restore --journal-lost`"
)


_POSTGRES = (
    "the database is PostgreSQL's: put its backup in place with PostgreSQL's own commands (docs/how-to/deploying.md)"
)


_NO_MANIFEST = (
    "has no manifest, so nobody can tell whether somebody changed it. Take another backup; or, if it is the only one, "
    "add --without-manifest: then journal and notes alone judge it, and what does not fit is lost batch by batch"
)


def put_database(settings: Settings, backup: Path, *, without_manifest: bool = False) -> Path | None:
    """Put the database of a backup in place; return where the one that was there went, if there was one.

    `settings` says where the folders are; `without_manifest` says to let journal and notes alone judge it.

    Raises:
        NotStartedError: there is no database in the backup, or no manifest.
        DoctoredBackupError: file, manifest, journal and notes do not fit together; nothing was put in place.
        InvalidSettingsError: the key folder is not what it was.
    """
    if settings.database_url is not None:
        raise NotStartedError(f"{_POSTGRES}, then run `lintra server restore` without --from")
    source = backup / database_path(settings).name
    if not source.is_file():
        raise NotStartedError(f"{source} is missing: {backup} is not a folder that `lintra server backup` wrote")
    manifest = backup / MANIFEST_FILE
    if not without_manifest and not manifest.is_file():
        raise NotStartedError(f"{backup} {_NO_MANIFEST}")
    # What is compared is what is put in place: the backup may change meanwhile.
    incoming = database_path(settings).with_name(f"{source.name}.incoming")
    incoming.unlink(missing_ok=True)
    write_new(incoming, b"")
    try:
        digest = copied(source, incoming)
        sync_file(incoming)
        _judge(settings, incoming, digest, None if without_manifest else manifest.read_bytes())
        aside = put_aside(settings)
        incoming.rename(database_path(settings))
        sync_folder(settings.data_dir)
    finally:
        for suffix in ("", "-wal", "-shm"):
            incoming.with_name(incoming.name + suffix).unlink(missing_ok=True)
    return aside


def _judge(settings: Settings, database: Path, digest: bytes, manifest: bytes | None) -> None:
    """Compare a copy of a database with the key folder, and with its manifest if there is one."""
    vault = open_vault(settings, _no_key)
    journal = read_journal(settings, vault)
    if manifest is not None:
        history = History(journal)
        history.learn(journal.lines)
        try:
            notes = read_notes(settings)
        except (DamagedNotesError, FileNotFoundError):
            notes = {}  # every open batch will be given up
        public_key = settings.signing_key(_no_key).public_key
        Manifest.opened(manifest, journal, public_key).require(digest, journal, history, notes)
    copy = ReadOnlyDatabase(f"sqlite:///{database.absolute()}")
    try:
        with copy.reading() as connection:
            standing = standing_in(connection)
    except DatabaseError:
        raise DoctoredBackupError(
            f"{database.name.removesuffix('.incoming')} is no database that can be read"
        ) from None
    finally:
        copy.close()
    if standing is None or not journal.has(standing.head):
        raise DoctoredBackupError("the journal of the key folder never stood where this copy does")


def _no_key(_: int) -> bytes:
    raise NotStartedError("a key is missing: bring it back from its own backup first")


def put_aside(settings: Settings) -> Path | None:
    """Rename the database file, if there is one; return its new name."""
    target, aside = database_path(settings), None
    if target.exists():
        number = 1
        while (old := target.with_name(f"{target.name}.replaced-{number}")).exists():
            number += 1
        for suffix in (
            "-wal",
            "-shm",
            "",
        ):  # the log first: without it the main file is an older state, not a newer one
            if (part := target.with_name(target.name + suffix)).exists():
                part.rename(old.with_name(old.name + suffix))
        aside = old
    return aside


def _journal(folder: KeyFolder, vault: Vault) -> Journal:
    if not folder.has_journal:
        raise NotStartedError("there is no journal: run `lintra server restore --journal-lost`")
    return folder.open_journal(vault)


def _witnessed(parts: ServerResources) -> Head:
    journal = parts.journal
    seen = parts.witness.read() if parts.witness is not None else journal.head
    # A crash may have come between the last step's line and the witness, or within another restore.
    lacking = [line for line in journal.since(seen) if line.state not in NOT_AWAITED and not _is_of_restore(line)]
    if seen == EMPTY or not journal.has(seen) or len(lacking) > 1:
        raise NotStartedError(
            "the witness knows another journal, so this one is not whole. Make sure that no other copy of this server "
            "runs; then run `lintra server restore --journal-lost`"
        )
    return seen


def _is_of_restore(line: JournalEntry) -> bool:
    return line.state == "restored" or (line.state == "abandoned" and not line.step)


def _decide(parts: ServerResources, from_line: int, trusted: bool) -> _Decision:
    """Say what becomes of every batch that is not finished, and which releases are stored again."""
    decision, journal = _Decision(), parts.journal
    missing = {batch for line in journal.lines[from_line:] if line.state not in NOT_AWAITED for batch in line.of_all}
    rows = {BatchId(row.task_id, row.number): row for row in parts.states.rows()}
    for batch, row in rows.items():
        if row.into is not None:
            continue  # what was merged goes the way of the batch that it is in
        members = [row, *(other for other in rows.values() if other.into is not None and other.into.batch == row.batch)]
        if row.state in FINAL_STATES:
            line = parts.history.batches[row.batch].line
            step = parts.folder.files.read(line) if line is not None and line.state == "released" else None
            if step is not None:
                decision.release.append(step)
        elif trusted and batch not in missing and all(_goes_on(parts, each) for each in members):
            decision.kept.append(row)
        else:
            decision.abandon += members
    return decision


def _goes_on(parts: ServerResources, row: BatchRow) -> bool:
    """Return whether a batch has its keys, and a note of where it ends: without one nobody knows what is missing."""
    return not row.is_destroyed and parts.notes.get(BatchId(row.task_id, row.number).name) is not None


def _carry_out(parts: ServerResources, decision: _Decision, barred: int, seen: Head | None) -> None:
    journal = parts.journal
    start = journal.last_start + 1
    lines = [JournalEntry(0, start, "abandoned", row.task_id, batch=row.number) for row in decision.abandon]
    lines.append(JournalEntry(0, start, "restored", facts={"barred_before": barred}))
    if parts.history.revision != REVISION:
        lines.append(JournalEntry(0, start, "migrated", facts={"revision": REVISION}))
    numbered = [replace(line, number=journal.head.length + place) for place, line in enumerate(lines, 1)]
    journal.append(*numbered)
    parts.history.learn(numbered)
    if parts.witness is not None:
        if seen is None:
            parts.witness.reset(journal.head)
        elif not parts.witness.advance(lambda head: head == seen, journal.head):
            raise NotStartedError("the witness moved on by itself: another copy of this server runs")
    parts.states.establish(StoredBatchState(journal.head, start), release=decision.release)
    for row in decision.abandon:
        parts.store.forget_key(row.batch)
        parts.states.mark_destroyed(row.batch)
        parts.store.delete_shares(row.batch)
    parts.database.forget_log()
