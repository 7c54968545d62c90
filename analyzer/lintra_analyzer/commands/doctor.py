"""Checks an analyzer's files and database, also while it runs, without changing them, and names the repairs.

Whatever a disk did to a file, it is a finding and never a traceback.
"""

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from lintra_analysis.certificate.certificate import numbers_in
from lintra_analyzer.settings import Settings
from lintra_analyzer.storage.database import REVISION
from lintra_analyzer.storage.keys import load_keys
from lintra_analyzer.storage.readable import record_in, task_in
from lintra_analyzer.storage.rows import StoredTask, job_of, server_state_of
from lintra_analyzer.storage.store import DATABASE
from lintra_analyzer.storage.trusted_file import FILE, Trusted, read_trusted
from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.errors import LintraError
from lintra_service.findings import HealthFinding
from lintra_service.settings import InvalidSettingsError

FREE_BYTES = 1 << 30
"""Less free space than this is worth a word."""

NOTHING = "nothing"
OTHER_VERSION = "use the version of Lintra that wrote it, or put your newest copy of the database back"
COPY_COST = "what was stored after the copy was made"


def examine(settings: Settings, config: Path) -> Iterator[HealthFinding]:
    """Yield what is wrong, each with the command that mends it; stop where nothing more can be said.

    `config` says where they stand, for commands that name the file.
    """
    if not settings.data_dir.is_dir():
        yield HealthFinding(
            "trouble",
            f"{settings.data_dir} is missing: either nothing was started yet, or its volume is not mounted",
            f"mount it, or, for a new analyzer: lintra analyzer run --config {config}",
            "nothing if it is mounted; a new analyzer knows no tasks and releases",
        )
        return
    yield from _space(settings)
    yield from _keys(settings, config)
    trusted, found = _trusted(settings, config)
    yield from found
    yield from _advice(settings, trusted, config)
    yield from _database(settings, trusted, config)


def _space(settings: Settings) -> Iterator[HealthFinding]:
    for folder in {settings.data_dir, settings.key_folder}:
        if not folder.is_dir():
            continue
        free = shutil.disk_usage(folder).free
        said = f"{folder} has {free / 2**30:.1f} GiB of free space"
        if free < settings.min_free_bytes:
            need = f"{settings.min_free_bytes / 2**30:.1f} GiB"
            yield HealthFinding(
                "trouble", f"{said}, and min_free_bytes asks for {need}", "make room on its volume", NOTHING
            )
        elif free < FREE_BYTES:
            yield HealthFinding("advice", said, "make room on its volume", NOTHING)


def _keys(settings: Settings, config: Path) -> Iterator[HealthFinding]:
    folder = settings.key_folder
    if not folder.is_dir() or not any(folder.glob("*.key")):
        if not settings.create_keys:
            yield HealthFinding(
                "trouble",
                f"{folder} holds no keys",
                f"put your copy of the keys back to {folder}; for a new analyzer, set create_keys = true in {config}",
                "nothing with the copy; with new keys, no task that names the old ones is ever released",
            )
        return
    try:
        load_keys(folder, create=False, random_bytes=system_randomness)
    except InvalidSettingsError as error:
        mode = "mode" in str(error)
        yield HealthFinding(
            "trouble",
            str(error),
            f"chmod 600 {folder}/*.key" if mode else f"put your copy of that file back to {folder}",
            NOTHING if mode else "nothing; without a copy no task that names the key is ever released",
        )


def _trusted(settings: Settings, config: Path) -> tuple[Trusted | None, list[HealthFinding]]:
    path = settings.key_folder / FILE
    noted = _noted(settings)
    if not path.exists() and not noted:
        return None, []
    try:
        trusted, wrong = read_trusted(settings.key_folder), ""
        if trusted.counter < noted:
            wrong = f"{path} is an older copy: its counter is {trusted.counter}, and the database notes {noted}"
    except InvalidSettingsError as error:
        trusted, wrong = None, str(error)
    if not wrong:
        return trusted, []
    cost = "every token but those of the settings, and every session; keys of servers are kept if the file is intact"
    return trusted, [HealthFinding("trouble", wrong, f"lintra analyzer access reset --config {config}", cost)]


def _noted(settings: Settings) -> int:
    try:
        with closing(_opened(settings.data_dir / DATABASE)) as connection:
            return int(connection.execute("SELECT coalesce(max(counter), 0) FROM trusted").fetchone()[0])
    except (sqlite3.Error, ValueError, TypeError):
        return 0


def _advice(settings: Settings, trusted: Trusted | None, config: Path) -> Iterator[HealthFinding]:
    pinned = {} if trusted is None else trusted.pins
    for server in settings.servers:
        if server.identity_key is None and server.url in pinned:
            yield HealthFinding(
                "advice",
                f"the key of {server.url} is the one that answered first; compare it with what its operator says",
                f'identity_key = "{pinned[server.url]}" below that url in {config}',
                "a restart",
            )
    if settings.key_folder.is_relative_to(settings.data_dir):
        yield HealthFinding(
            "advice",
            f"{settings.key_folder} is inside data_dir: whoever puts an old copy of data_dir back makes tokens valid "
            "that were revoked since",
            f"stop the analyzer, move the folder to another volume, and set key_dir in {config}",
            "a restart",
        )
    aside = sorted(settings.data_dir.glob(f"{DATABASE}.before-*")) + sorted(settings.key_folder.glob("*.replaced-*"))
    if aside:
        named = " ".join(map(str, aside))
        yield HealthFinding(
            "advice", "old copies are left that nothing needs", f"rm {named}", "the way back to these copies"
        )


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)
    connection.text_factory = lambda data: data.decode("utf-8", errors="replace")
    return connection


def _database(settings: Settings, trusted: Trusted | None, config: Path) -> Iterator[HealthFinding]:
    path = settings.data_dir / DATABASE
    put_back = f"stop the analyzer, and cp YOUR-COPY {path}"
    if not path.exists() or not path.stat().st_size:
        if trusted is not None:
            what = "is missing" if not path.exists() else "is empty"
            yield HealthFinding("trouble", f"{path} {what}, and it was there before", put_back, COPY_COST)
        return
    try:
        with closing(_opened(path)) as connection:
            complaints = [" ".join(str(row[0]).split()) for row in connection.execute("PRAGMA integrity_check(3)")]
            if complaints != ["ok"]:
                yield HealthFinding("trouble", f"{path} is damaged: {'; '.join(complaints)}", put_back, COPY_COST)
                return
            revision = connection.execute("SELECT version_num FROM alembic_version").fetchone()
            if revision is None or revision[0] != REVISION:
                yield _version(path, "" if revision is None else str(revision[0]), config)
                return
            yield from _rows(connection, settings)
    except (sqlite3.Error, OverflowError) as error:
        yield HealthFinding("trouble", f"{path} is damaged: {error}", put_back, COPY_COST)


def _version(path: Path, revision: str, config: Path) -> HealthFinding:
    if revision.isdigit() and revision < REVISION:
        what = f"{path} is of schema {revision}, and this version needs {REVISION}"
        cost = "a moment; a copy is put aside first"
        return HealthFinding("advice", what, f"lintra analyzer run --config {config} brings it up to date", cost)
    what = f"{path} is of schema {revision!r}, which this version does not know"
    return HealthFinding("trouble", what, OTHER_VERSION, NOTHING)


def _rows(connection: sqlite3.Connection, settings: Settings) -> Iterator[HealthFinding]:
    tasks = "SELECT task_id, record, specification, created_at, population FROM tasks ORDER BY number"
    for row in connection.execute(tasks):
        try:
            task_in(StoredTask(*row))
        except (LintraError, TypeError, AttributeError) as error:
            yield _unreadable("tasks", str(row[0]), error, "the task can be neither shown nor released until then")
    for release_id, record in connection.execute("SELECT release_id, record FROM releases ORDER BY number"):
        yield from _release(str(release_id), record, settings)
    for row in connection.execute("SELECT task_id, server, state, problem FROM registrations"):
        said = server_state_of(row[1], str(row[2]), row[3])
        yield from _said("registrations", f"task {row[0]}, server {said.server}", said.problem)
    for row in connection.execute("SELECT task_id, stage, state, problem, release_id, batch FROM jobs"):
        job = job_of(*row)
        yield from _said("jobs", f"task {job.task_id}, batch {job.batch}", job.problem)


def _release(release_id: str, record: object, settings: Settings) -> Iterator[HealthFinding]:
    if not isinstance(record, bytes):
        yield _unreadable("releases", release_id, TypeError("no bytes"), "the release cannot be opened until then")
        return
    try:
        signed = record_in(release_id, record)
    except LintraError as error:
        yield _unreadable("releases", release_id, error, "the release cannot be opened until then")
        return
    path = settings.data_dir / "releases" / f"{release_id}.npz"
    try:
        numbers_in(signed.record, path.read_bytes())
    except (LintraError, OSError) as error:
        what = error.detail if isinstance(error, LintraError) else f"{path}: {error.strerror}"
        cost = "nothing; without a copy the numbers of this release are gone for good"
        yield HealthFinding("trouble", what, f"cp YOUR-COPY/{path.name} {path}", cost)


def _unreadable(table: str, name: str, error: Exception, cost: str) -> HealthFinding:
    why = error.detail.partition(";")[0] if isinstance(error, LintraError) else f"{name} cannot be read ({error})"
    return HealthFinding("trouble", f"table {table}: {why}", OTHER_VERSION, cost)


def _said(table: str, where: str, problem: dict[str, str | int] | None) -> Sequence[HealthFinding]:
    detail = "" if problem is None else str(problem.get("detail", ""))
    if "what is stored of it cannot be read" not in detail:
        return ()
    why = detail.partition(";")[0]
    return (
        HealthFinding("trouble", f"table {table}: {where}: {why}", OTHER_VERSION, "this part stands still until then"),
    )
