"""Whoever edits the analyzer's database, or puts old files back, lets nobody in; without one of the rules he does."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from lintra_analyzer.access import Access
from lintra_analyzer.storage import trusted_file
from lintra_analyzer.storage.access_tokens import AccessToken, Scope
from lintra_analyzer.storage.database import TrustedCounter, open_database
from lintra_analyzer.storage.trusted_file import FILE, CounterNote, Trusted, TrustedFile, reset
from lintra_analyzer.storage.users import Users
from lintra_protocol.errors import LintraError, UnavailableError
from lintra_service.bearer_tokens import token_hash
from lintra_service.settings import InvalidSettingsError
from support.analyzer_world import NOW, seeded

MINE = "lintra_a-token-that-the-editor-made"
OLD_TABLES = """
CREATE TABLE access_tokens (token_hash VARCHAR PRIMARY KEY, name VARCHAR, role VARCHAR, tasks VARCHAR,
 populations VARCHAR, created_at INTEGER, expires_at INTEGER, revoked_at INTEGER);
CREATE TABLE sessions (session_hash VARCHAR PRIMARY KEY, token_hash VARCHAR, expires_at INTEGER);
CREATE TABLE sign_in_codes (code_hash VARCHAR PRIMARY KEY, token_hash VARCHAR, expires_at INTEGER);
CREATE TABLE pins (url VARCHAR PRIMARY KEY, identity_key VARCHAR);
CREATE TABLE starts (identity_key VARCHAR PRIMARY KEY, highest INTEGER);
"""


class Believing(TrustedFile):
    """A file without a MAC."""

    def _require_authentic(self, mac: bytes, body: bytes) -> None:
        pass


class Forgetting(TrustedFile):
    """A process that remembers no counter."""

    def _require_newest(self, state: Trusted) -> None:
        pass


class Unnoted(TrustedFile):
    """A start that does not look at the database's note."""

    def _require_noted(self, state: Trusted, noted: int) -> None:
        pass


class Importing(TrustedFile):
    """A start that takes tokens over from the database, as a migration might."""

    def __init__(self, folder: Path, note: CounterNote) -> None:
        super().__init__(folder, note)
        assert isinstance(note, TrustedCounter)
        with note._engine.connect() as connection, suppress(Exception):
            rows = connection.exec_driver_sql("SELECT token_hash, name, role FROM access_tokens").all()
            for each, name, role in rows:
                Users(self).add(AccessToken(each, name, role, Scope(), NOW))


class Renewing(TrustedFile):
    """A start that makes a new file wherever there is none."""

    def __init__(self, folder: Path, note: CounterNote) -> None:
        if not (folder / FILE).exists():
            reset(folder, note)
        super().__init__(folder, note)


@dataclass
class World:
    """An analyzer's folder, with copies of all of its files from before some tokens were taken away."""

    folder: Path
    kind: type[TrustedFile] = TrustedFile
    secrets: dict[str, str] = field(default_factory=dict)
    starts: int = 0

    def __post_init__(self) -> None:
        self.start()
        self.viewer = self.access.add("Vi", "viewer", Scope(), None)
        lost, revoked = self.access.add("Lo", "operator", Scope(), None)
        session = self.access.sign_in(self.viewer[0]).secret
        code = self.access.sign_in_code()
        self.file.change(lambda old: (replace(old, pins={"http://a.test": "the true key"}), None))
        self.stop()
        shutil.copytree(self.folder, self.old)
        self.start()
        self.access.revoke(revoked.token_id)
        self.access.sign_out(session)
        self.access.sign_in_by_code(code)
        self.secrets = {"token": lost, "session": session, "code": code}

    @property
    def old(self) -> Path:
        return self.folder.with_name("old")

    @property
    def database(self) -> Path:
        return self.folder / "analyzer.sqlite"

    @property
    def trusted(self) -> Path:
        return self.folder / "keys" / FILE

    def start(self) -> None:
        self.engine = open_database(self.database)
        self.file = self.kind(self.folder / "keys", TrustedCounter(self.engine))
        self.users = Users(self.file)
        self.starts += 1
        self.access = Access([], self.users, lambda: NOW, seeded(f"edited, start {self.starts}"))

    def stop(self) -> None:
        self.file.close()
        self.engine.dispose()

    def edit(self, script: str) -> None:
        with closing(sqlite3.connect(self.database)) as connection:
            connection.executescript(script)
            connection.commit()

    def gains(self) -> list[str]:
        """Return what the editor can do that nobody granted."""
        found = []
        for what, role in ((MINE, "viewer"), (self.secrets["token"], "viewer"), (self.viewer[0], "analyst")):
            with suppress(LintraError):
                self.access.holder(f"Bearer {what}").require(role)  # type: ignore[arg-type]
                found.append(what)
        with suppress(LintraError):
            self.access.holder(None, self.secrets["session"])
            found.append("session")
        with suppress(LintraError):
            self.access.sign_in_by_code(self.secrets["code"])
            found.append("code")
        with suppress(LintraError):
            if self.file.state().pins != {"http://a.test": "the true key"}:
                found.append("pin")
        return found


def inserted(world: World) -> None:
    world.edit(OLD_TABLES)
    values = (token_hash(MINE), "me", "operator", "[]", "[]", NOW)
    with closing(sqlite3.connect(world.database)) as connection:
        connection.execute("INSERT INTO access_tokens VALUES (?, ?, ?, ?, ?, ?, NULL, NULL)", values)
        connection.commit()


def old_database(world: World) -> None:
    for suffix in ("-wal", "-shm"):
        world.database.with_name(f"{world.database.name}{suffix}").unlink(missing_ok=True)
    shutil.copy(world.old / world.database.name, world.database)


def lowered(world: World) -> None:
    world.edit("UPDATE trusted SET counter = 1")


def deleted(world: World) -> None:
    world.edit("DELETE FROM trusted")


def triggered(world: World) -> None:
    world.edit("CREATE TRIGGER t BEFORE INSERT ON trusted BEGIN SELECT RAISE(ABORT, 'no'); END")


def old_file(world: World) -> None:
    shutil.copy(world.old / "keys" / FILE, world.trusted)


def rewritten(change: Callable[[dict[str, object]], None]) -> Callable[[World], None]:
    def attack(world: World) -> None:
        mac, _, body = world.trusted.read_bytes().partition(b"\n")
        document = json.loads(body)
        change(document)
        document["counter"] += 1
        world.trusted.write_bytes(mac + b"\n" + json.dumps(document, separators=(",", ":")).encode())

    return attack


def _promote(document: dict[str, object]) -> None:
    tokens = document["tokens"]
    assert isinstance(tokens, dict)
    for token in tokens.values():
        token.update(role="operator", revoked_at=None)


def _insert(document: dict[str, object]) -> None:
    tokens = document["tokens"]
    assert isinstance(tokens, dict)
    tokens[token_hash(MINE)] = {**next(iter(tokens.values())), "token_hash": token_hash(MINE), "role": "operator"}


def _repin(document: dict[str, object]) -> None:
    document["pins"] = {"http://a.test": "another key"}


def no_file(world: World) -> None:
    world.trusted.unlink()


def another_file(world: World) -> None:
    """Put a file there that another analyzer wrote, whose only token is the editor's."""
    other = world.folder.with_name("other")
    engine = open_database(other / "a.sqlite")
    file = TrustedFile(other / "keys", TrustedCounter(engine))
    for _ in range(20):
        Users(file).add(AccessToken(token_hash(MINE), "me", "operator", Scope(), NOW))
    file.close()
    engine.dispose()
    shutil.copy(other / "keys" / FILE, world.trusted)


OF_DATABASE = [inserted, old_database, lowered, deleted, triggered]
OF_FILE = [
    old_file, no_file, another_file, rewritten(_promote), rewritten(_insert), rewritten(_repin)
]  # fmt: skip
EVERY = [*OF_DATABASE, *OF_FILE]


def world_of(folder: Path, kind: type[TrustedFile] = TrustedFile) -> World:
    return World(folder / "analyzer", kind)


def attacked_live(world: World, attack: Callable[[World], None]) -> list[str]:
    attack(world)
    return world.gains()


def attacked_between(world: World, attack: Callable[[World], None]) -> list[str]:
    world.stop()
    attack(world)
    with suppress(InvalidSettingsError):
        world.start()
        return world.gains()
    return []


@pytest.mark.parametrize("attack", EVERY)
@pytest.mark.parametrize("how", [attacked_live, attacked_between])
def test_no_edit_lets_anybody_in_while_the_analyzer_runs_or_between_two_starts(
    tmp_path: Path, how: Callable[[World, Callable[[World], None]], list[str]], attack: Callable[[World], None]
) -> None:
    assert how(world_of(tmp_path), attack) == []


@pytest.mark.parametrize("attack", OF_FILE)
def test_an_edited_file_is_refused_in_words_and_not_believed_again_before_it_is_reset(
    tmp_path: Path, attack: Callable[[World], None]
) -> None:
    world = world_of(tmp_path)
    attack(world)
    with pytest.raises(UnavailableError, match="whom to trust"):
        world.access.holder(f"Bearer {world.viewer[0]}")
    with pytest.raises(UnavailableError, match="whom to trust"):
        world.access.add("Ada", "viewer", Scope(), None)
    new = reset(world.trusted.parent, TrustedCounter(world.engine))
    assert not new.tokens
    assert world.gains() == ([] if new.pins else ["pin"])  # a running process takes the new file, and what it lost
    world.access.add("Ada", "viewer", Scope(), None)


@pytest.mark.parametrize(
    ("kind", "how", "attack"),
    [
        (Importing, attacked_between, inserted),
        (Believing, attacked_live, rewritten(_promote)),
        (Believing, attacked_between, another_file),
        (Forgetting, attacked_live, old_file),
        (Unnoted, attacked_between, old_file),
        (Renewing, attacked_between, no_file),
    ],
)
def test_each_rule_taken_out_finds_its_attack(
    tmp_path: Path,
    kind: type[TrustedFile],
    how: Callable[[World, Callable[[World], None]], list[str]],
    attack: Callable[[World], None],
) -> None:
    assert how(world_of(tmp_path, kind), attack) != []


def test_a_revocation_that_the_database_does_not_note_is_said_to_have_failed_and_holds(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    triggered(world)
    with pytest.raises(UnavailableError, match="refuses to note"):
        world.access.revoke(world.viewer[1].token_id)
    with pytest.raises(LintraError):
        world.access.holder(f"Bearer {world.viewer[0]}")


@pytest.mark.parametrize("step", ["before the rename", "before the note"])
def test_a_crash_at_any_step_of_a_change_leaves_a_file_that_is_whole(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(tmp_path)
    before = world.file.state()

    class Crash(BaseException):
        pass

    def crash(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        if step == "before the rename":
            patch.setattr(Path, "replace", crash)
        else:
            patch.setattr(TrustedCounter, "raise_to", crash)
        with pytest.raises(Crash):
            world.access.add("Ada", "viewer", Scope(), None)
    world.stop()
    world.start()
    after = world.file.state()
    changes = int(step == "before the note")
    assert (after.counter - before.counter, len(after.tokens) - len(before.tokens)) == (changes, changes)
    assert trusted_file.read_trusted(world.trusted.parent) == after


def test_what_two_processes_change_at_once_is_all_kept(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    beside = Users(TrustedFile(world.trusted.parent, TrustedCounter(world.engine)))
    for number in range(20):
        each = world.users if number % 2 else beside
        each.add(AccessToken(f"{number}", "x", "viewer", Scope(), NOW))
        assert world.users.find(f"{number}") == beside.find(f"{number}") is not None
