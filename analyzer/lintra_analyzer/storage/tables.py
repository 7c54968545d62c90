"""The tables of the analyzer's database, and how SQLite is told to be durable."""

from sqlalchemy import Column, ForeignKey, Index, Integer, LargeBinary, MetaData, String, Table, UniqueConstraint
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

metadata = MetaData()
alembic_version = Table("alembic_version", metadata, Column("version_num", String(32), primary_key=True))
trusted = Table("trusted", metadata, Column("counter", Integer, primary_key=True))
tasks = Table(
    "tasks",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("task_id", String, nullable=False, unique=True),
    Column("record", LargeBinary, nullable=False),
    Column("specification", LargeBinary, nullable=False),
    Column("request_key", String, unique=True),
    Column("created_at", Integer, nullable=False),
    Column("population", String, nullable=False, server_default="everybody"),
)
# Pages of a list are chosen by these, without a look at rows: definitions and records are long.
Index("tasks_listed", tasks.c.number, tasks.c.population, tasks.c.task_id)
registrations = Table(
    "registrations",
    metadata,
    Column("task_id", ForeignKey("tasks.task_id"), primary_key=True),
    Column("server", Integer, primary_key=True),
    Column("state", String, nullable=False),
    Column("problem", String),
)
jobs = Table(
    "jobs",
    metadata,
    Column("task_id", ForeignKey("tasks.task_id"), primary_key=True),
    Column("batch", Integer, primary_key=True),
    Column("stage", String, nullable=False),
    Column("state", String, nullable=False),
    Column("problem", String),
    Column("release_id", String),
)
documents = Table(
    "documents",
    metadata,
    Column("task_id", ForeignKey("tasks.task_id"), primary_key=True),
    Column("batch", Integer, primary_key=True),
    Column("kind", String, primary_key=True),
    Column("server", Integer, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
lists = Table(
    "lists",
    metadata,
    Column("task_id", ForeignKey("tasks.task_id"), primary_key=True),
    Column("batch", Integer, primary_key=True),
    Column("kind", String, primary_key=True),
    Column("server", Integer, primary_key=True),
    Column("root", LargeBinary, nullable=False),
    Column("count", Integer, nullable=False),
)
releases = Table(
    "releases",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("release_id", String, nullable=False, unique=True),
    Column("task_id", ForeignKey("tasks.task_id"), nullable=False),
    Column("batch", Integer, nullable=False),
    Column("record", LargeBinary, nullable=False),
    UniqueConstraint("task_id", "batch"),
)
models = Table(
    "models",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("task_id", ForeignKey("tasks.task_id"), nullable=False, unique=True),
    Column("windows", Integer, nullable=False),
    Column("ended", String),
)
Index("releases_listed", releases.c.number, releases.c.task_id)


def make_durable(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    """Make one connection wait for the disk at every commit, and for other writers a while."""
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=10000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
