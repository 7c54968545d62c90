"""Makes a server of a database that is an old copy, or of a key folder that lost its journal: by giving batches up.

What the journal says was released or given up stays so for ever. Of the rest nobody can know, unless the journal is
known to be whole: a witness says so, or the operator, who knows that the key folder was never copied. Tasks that begin
before a restore are not registered afterwards, since they may have been released in the part that is lost.
"""

from dataclasses import dataclass, field
from pathlib import Path

from lintra_protocol.randomness import RandomBytes
from lintra_server.clock import Clock
from lintra_server.disk.folders import write_new
from lintra_server.disk.journal import FINAL_LINES, DamagedJournalError, Head, Journal, Line
from lintra_server.disk.vault import Vault
from lintra_server.settings import Settings
from lintra_server.storage.key_folder import KeyFolder, Noted
from lintra_server.storage.parts import NotStartedError, Parts, database_path, open_vault, parts_with
from lintra_server.storage.states import FINAL_STATES, BatchRow, Standing
from lintra_server.storage.steps import Step


@dataclass(frozen=True)
class Restored:
    """What a restore did.

    Attributes:
        kept: open or closed batches that go on.
        abandoned: batches that were given up.
        released: releases whose bytes were stored again.
        entered: tasks that only the journal knew.
        lost: acknowledged reports and tasks that the database lacks.
        barred_before: tasks that take reports earlier, in seconds since the epoch, are not registered.
    """

    kept: int
    abandoned: int
    released: int
    entered: int
    lost: int
    barred_before: int


@dataclass
class _Decision:
    kept: list[BatchRow] = field(default_factory=list)
    abandon: list[BatchRow] = field(default_factory=list)
    release: list[Step] = field(default_factory=list)
    enter: list[tuple[bytes, int]] = field(default_factory=list)


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

    Args:
        settings: where the folders are.
        random_bytes: a cryptographic source.
        folder: the key folder, locked.
        clock: says what is barred.
        journal_lost: begin a new journal; every unreleased batch is given up.
        never_copied: the operator knows that the key folder is the original and was never set back.

    Raises:
        NotStartedError: the journal is not whole, so it would have to be called lost.
        InvalidSettingsError: a key does not fit.
        UnavailableError: the clock is not to be believed.
    """
    now = clock.now()
    if not settings.has_identity_key() or not settings.has_storage_root_key():
        raise NotStartedError("bring back the identity key and the storage root key first, from their own backup")
    vault = open_vault(settings, random_bytes)
    known = _journal(folder, vault, journal_lost)
    journal = folder.new_journal(vault, random_bytes) if known is None or journal_lost else known
    parts = parts_with(settings, random_bytes, folder, vault, journal)
    try:
        witnessed = not journal_lost and parts.witness is not None
        seen = _witnessed(parts) if witnessed else None
        standing = parts.states.standing()
        if not journal_lost and standing is not None and not journal.has(standing.head):
            raise NotStartedError(_NOT_ITS_JOURNAL)
        if not journal_lost and standing is None and parts.states.rows():
            raise NotStartedError(_NOT_ITS_JOURNAL)
        lost = _lost(parts)
        trusted = not journal_lost and (never_copied or seen is not None)
        from_line = standing.head.length if standing and not journal_lost else 0
        decision = _decide(parts, known or journal, from_line, trusted)
        noted = folder.noted()
        barred = int(max(now, noted.seen.clock if noted else 0, standing.barred_before if standing else 0)) + 1
        _carry_out(parts, decision, barred, seen)
        folder.note(Noted(clock.seen(), parts.store.recount()))
    finally:
        parts.journal.close()
        if known is not None:
            known.close()
        parts.database.close()
    return Restored(len(decision.kept), len(decision.abandon), len(decision.release), len(decision.enter), lost, barred)


_NOT_ITS_JOURNAL = (
    "the database is not an older state of this journal: the key folder lost lines, or the two belong to different "
    "servers. If they belong together, run `lintra server restore --journal-lost`"
)


_POSTGRES = (
    "the database is PostgreSQL's: put its backup in place with PostgreSQL's own commands (docs/how-to/deploying.md)"
)


def put_database(settings: Settings, backup: Path) -> Path | None:
    """Put the database of a backup in place; return where the one that was there went, if there was one.

    Raises:
        NotStartedError: there is no database in the backup.
    """
    if settings.database_url is not None:
        raise NotStartedError(f"{_POSTGRES}, then run `lintra server restore` without --from")
    source, target = backup / database_path(settings).name, database_path(settings)
    if not source.is_file():
        raise NotStartedError(f"{source} is missing: {backup} is not a folder that `lintra server backup` wrote")
    aside = None
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
    write_new(target, source.read_bytes())
    return aside


def _journal(folder: KeyFolder, vault: Vault, journal_lost: bool) -> Journal | None:
    if not folder.has_journal:
        if not journal_lost:
            raise NotStartedError("there is no journal: run `lintra server restore --journal-lost`")
        return None
    try:
        return folder.open_journal(vault)
    except DamagedJournalError as error:
        if not journal_lost:
            raise NotStartedError(f"{error}: run `lintra server restore --journal-lost`") from None
        return None


def _witnessed(parts: Parts) -> Head:
    journal = parts.journal
    seen = parts.witness.read() if parts.witness is not None else journal.head
    if seen not in (journal.head, journal.head_at(journal.head.length - 1)):
        raise NotStartedError(
            "the witness knows another journal, so this one is not whole. Make sure that no other copy of this server "
            "runs; then run `lintra server restore --journal-lost`"
        )
    return seen


def _lost(parts: Parts) -> int:
    noted = parts.folder.noted()
    return max(noted.commits - parts.store.commits(), 0) if noted else 0


def _decide(parts: Parts, journal: Journal, from_line: int, trusted: bool) -> _Decision:
    """Say what becomes of every batch; `journal` is the one that knows most, even if it is lost."""
    decision = _Decision()
    last = {batch: journal.of(*batch) for line in journal.lines if line.task_id for batch in line.of_all}
    missing = {batch for line in journal.lines[from_line:] for batch in line.of_all}
    rows = {(row.task_id, row.number): row for row in parts.states.rows()}
    for batch, row in rows.items():
        if row.state in FINAL_STATES or row.into is not None:
            continue  # what was merged goes the way of the batch that it is in
        line = last.get(batch)
        whole = trusted and batch not in missing and (line is None or line.state not in FINAL_LINES)
        members = [row, *(other for other in rows.values() if other.into is row)]
        # A line of another batch says that this one was merged into it: alone nothing of it ever leaves.
        step = _release(parts, line) if line is None or line.of == batch else None
        if step is not None:
            decision.release.append(step)
        elif whole and all(_has_secret(parts, each) for each in members):
            decision.kept.append(row)
        else:
            decision.abandon += members
    for batch, line in last.items():
        if batch not in rows:
            decision.enter.append(batch)
            step = _release(parts, line) if line is not None and line.of == batch else None
            if step is not None:
                decision.release.append(step)
    return decision


def _has_secret(parts: Parts, row: BatchRow) -> bool:
    return row.secret is not None and parts.folder.secrets.get(row.secret) is not None


def _release(parts: Parts, line: Line | None) -> Step | None:
    """Return the release of a batch if that is the journal's last word on it and its bytes are still there."""
    return parts.folder.files.read(line) if line is not None and line.state == "released" else None


def _carry_out(parts: Parts, decision: _Decision, barred: int, seen: Head | None) -> None:
    standing, journal = parts.states.standing(), parts.journal
    start = max(journal.last_start, standing.start if standing else 0) + 1
    for row in decision.abandon:
        journal.append(Line(journal.head.length + 1, start, "abandoned", row.task_id, batch=row.number))
    journal.append(Line(journal.head.length + 1, start, "restored"))
    if parts.witness is not None:
        if seen is None:
            parts.witness.reset(journal.head)
        elif not parts.witness.advance(seen, journal.head):
            raise NotStartedError("the witness moved on by itself: another copy of this server runs")
    parts.states.establish(
        Standing(journal.head, start, barred),
        abandon=[row.batch for row in decision.abandon],
        release=decision.release,
        enter=decision.enter,
    )
    for row in decision.abandon:
        parts.store.forget_key(row.batch)
        parts.states.mark_destroyed(row.batch)
        parts.store.delete_shares(row.batch)
    parts.database.forget_log()
