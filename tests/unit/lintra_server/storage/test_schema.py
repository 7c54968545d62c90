"""What acts on a database beside the server, and what is too long, is named and never obeyed."""

import resource
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from lintra_protocol.errors import UnavailableError
from lintra_server.storage import schema
from lintra_server.storage.chains import raw_rows
from lintra_server.storage.database import AnyDatabase, Database, batches, tasks
from lintra_server.storage.postgres import PostgresDatabase
from lintra_server.storage.read_only import ReadOnlyDatabase
from lintra_service.settings import InvalidSettingsError
from support import postgres
from support.stores import add, empty

ACTS = {
    "sqlite": {
        "trigger": (
            "CREATE TRIGGER evil BEFORE INSERT ON segments BEGIN DELETE FROM segments; END",
            'trigger evil on table segments, .*DROP TRIGGER "evil"',
        ),
        "view": ("ALTER TABLE looks RENAME TO kept; CREATE VIEW looks AS SELECT * FROM kept", "table kept|view looks"),
        "index": ("CREATE INDEX evil ON segments (abs(key))", 'index evil on table segments, .*DROP INDEX "evil"'),
        "table": ("CREATE TABLE evil (a)", 'table evil, .*DROP TABLE "evil"'),
        "column": ("ALTER TABLE looks ADD COLUMN evil", "table looks has other columns"),
        "missing": ("DROP TABLE looks", "looks is missing: `lintra server restore`"),
        "name": ('CREATE TABLE "evil\n\x1b[2J" (a)', r"table evil\?\?\[2J, "),
    },
    "postgres": {
        "trigger": (
            """CREATE FUNCTION evil() RETURNS trigger AS 'BEGIN RETURN NULL; END' LANGUAGE plpgsql;
            CREATE TRIGGER evil BEFORE INSERT ON segments FOR EACH ROW EXECUTE FUNCTION evil()""",
            'trigger evil on table segments, .*DROP TRIGGER "evil" ON "segments"',
        ),
        "view": ("ALTER TABLE looks RENAME TO kept; CREATE VIEW looks AS SELECT * FROM kept", 'DROP VIEW "looks"'),
        "index": ("CREATE INDEX evil ON segments (abs(key))", "index evil on table segments, .*DROP INDEX evil"),
        "row security": (
            "ALTER TABLE segments ENABLE ROW LEVEL SECURITY",
            "row security segments, .*DISABLE ROW LEVEL",
        ),
        "policy": ("CREATE POLICY evil ON looks USING (false)", 'DROP POLICY "evil" ON "looks"'),
        "rule": ("CREATE RULE evil AS ON INSERT TO segments DO INSTEAD NOTHING", 'DROP RULE "evil" ON "segments"'),
        "inheritance": ("CREATE TABLE evil () INHERITS (batches)", "inheritance batches"),
        "constraint": ("ALTER TABLE segments ADD CONSTRAINT evil CHECK (key > -1)", 'DROP CONSTRAINT "evil"'),
        "default": ("ALTER TABLE batches ALTER state SET DEFAULT 'open'", 'ALTER "state" DROP DEFAULT'),
        "unlogged": ("ALTER TABLE looks SET UNLOGGED", 'ALTER TABLE "looks" SET LOGGED'),
        "column": ("ALTER TABLE looks ADD evil bytea", "table looks has other columns"),
        "missing": ("DROP TABLE looks", "table looks has other columns"),
    },
}
CASES = [(kind, name) for kind, acts in ACTS.items() for name in acts]


class Place:
    """A database that somebody else can change, too."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.path = kind, folder / "a.sqlite"
        self.url = postgres.fresh("schema") if kind == "postgres" else ""

    def open(self) -> AnyDatabase:
        return PostgresDatabase(self.url) if self.kind == "postgres" else Database(self.path)

    def run(self, script: str) -> None:
        if self.kind == "postgres":
            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute(script.encode())
        else:
            with closing(sqlite3.connect(self.path)) as connection:
                connection.executescript(script)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


@pytest.mark.parametrize(("kind", "name"), CASES, ids=[f"{kind}-{name}" for kind, name in CASES])
def test_whatever_acts_beside_the_server_is_named_with_a_command_at_the_start_and_before_every_change(
    tmp_path: Path, kind: str, name: str
) -> None:
    place, (script, said) = Place(kind, tmp_path), ACTS[kind][name]
    database, halts = place.open(), list[str]()
    database.halt = halts.append
    with database.writing() as connection:
        connection.execute(tasks.insert(), {"task": 1, "task_id": bytes(32), "definition": b"{}"})
    place.run(script)
    with pytest.raises(UnavailableError), database.writing() as connection:
        connection.execute(tasks.delete())
    assert len(halts) == 1
    assert "run `lintra server doctor` next" in halts[0]
    database.close()
    with pytest.raises(InvalidSettingsError, match=said):
        place.open()


def test_a_running_server_finds_by_itself_what_was_put_beside_it(place: Place) -> None:
    database, halts = place.open(), list[str]()
    database.halt = halts.append
    database._compare()
    assert halts == []
    place.run(ACTS[place.kind]["trigger"][0])
    with pytest.raises(UnavailableError):
        database._compare()
    assert "trigger evil" in halts[0]
    database.close()


def test_a_trigger_in_a_database_of_another_version_does_not_run(place: Place) -> None:
    database = place.open()
    with database.writing() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0000'")
    database.close()
    place.run(ACTS[place.kind]["trigger"][0])
    with pytest.raises(InvalidSettingsError, match="trigger evil"):
        place.open()


def test_connections_to_sqlite_trust_nothing_of_the_file_but_its_rows(tmp_path: Path) -> None:
    database = Database(tmp_path / "a.sqlite")
    reader = ReadOnlyDatabase(database.url)
    for each in (database, reader):
        with each.reading() as connection:
            found = [
                connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("trusted_schema", "cell_size_check")
            ]
            assert found == [0, 1]
            raw = connection.connection.driver_connection
            if sys.version_info >= (3, 12):
                assert raw.getconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE)
    reader.close()
    database.close()


def test_a_role_that_looks_into_another_schema_first_is_not_followed(tmp_path: Path) -> None:
    place = Place("postgres", tmp_path)
    place.open().close()
    place.run(
        "DROP SCHEMA IF EXISTS evil CASCADE; CREATE SCHEMA evil; "
        "CREATE VIEW evil.alembic_version AS SELECT '0099' AS version_num; "
        "ALTER ROLE postgres SET search_path = evil, public"
    )
    try:
        with psycopg.connect(place.url) as connection:
            assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("0099",)]
        database = place.open()
        database.check()
        reader = ReadOnlyDatabase(database.url)
        with reader.reading() as connection:
            assert connection.exec_driver_sql("SHOW search_path").scalar() == "public,pg_temp"
        reader.close()
        database.close()
    finally:
        place.run("ALTER ROLE postgres RESET search_path; DROP SCHEMA evil CASCADE")


# --- values ----------------------------------------------------------------------------------------------------------

HUGE = 80_000_000


@contextmanager
def little_memory() -> Iterator[None]:
    """Let this process have 40 MB more than it has now."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + HUGE // 2, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells and bounds what a process has")
def test_a_value_larger_than_memory_is_not_read_and_counts_as_changed(tmp_path: Path) -> None:
    with empty("sqlite", tmp_path) as stored:
        store = stored.open()
        add(store, 1, 2)
        with closing(sqlite3.connect(tmp_path / "a.sqlite")) as connection, connection:
            connection.execute(f"UPDATE segments SET ids = zeroblob({HUGE})")
            connection.execute(f"UPDATE tasks SET definition = zeroblob({HUGE})")
            connection.execute(f"UPDATE batches SET inventory = zeroblob({HUGE})")
        with little_memory(), store.database.reading() as connection:
            with pytest.raises(MemoryError):
                connection.exec_driver_sql("SELECT ids FROM segments").all()  # type: ignore[attr-defined]
            assert [row.ids for row in raw_rows(connection, 1)] == [b""]
            with pytest.raises(UnavailableError, match="gone"):
                store.held(1)
            with pytest.raises(UnavailableError, match="definition"):
                store.task(bytes(32))
            assert store.columns(1, "inventory") == {"inventory": None}


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_value_is_read_up_to_its_bound_and_whatever_its_kind(tmp_path: Path, kind: str) -> None:
    place = Place(kind, tmp_path)
    database = place.open()
    read = schema.bounded(batches.c.inventory, 5), schema.bounded(batches.c.state, 6)
    query = batches.select().with_only_columns(*read)
    for value, state, found in ((b"12345", "frozen", (b"12345", "frozen")), (b"123456", "released", (None, None))):
        with database.writing() as connection:
            connection.execute(batches.delete())
            row = {"batch": 1, "task": 1, "number": 0, "num_reports": 0, "state": state, "inventory": value}
            connection.execute(batches.insert(), row)
        with database.reading() as connection:
            assert tuple(connection.execute(query).one()) == found
    database.close()
