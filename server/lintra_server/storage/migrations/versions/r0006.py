"""A batch has a number of its own, its task, and its number in that task: a task with windows has one for each."""

from alembic import op

revision = "0006"
down_revision = "0005"

_DOCUMENTS = (
    "state, num_reports, capacity, secret, wrapped_key, wrapped_nonce, closed_at, inventory, inventories, cohort,"
    " excluded, request_hash, aggregate, released_at"
)
_BATCHES = (
    "CREATE TABLE batches (batch INTEGER NOT NULL PRIMARY KEY, task INTEGER NOT NULL REFERENCES tasks (task),"
    " number INTEGER NOT NULL, ends INTEGER NOT NULL, state VARCHAR NOT NULL, num_reports INTEGER NOT NULL,"
    " capacity INTEGER NOT NULL, secret BLOB, wrapped_key BLOB, wrapped_nonce BLOB, closed_at INTEGER, inventory BLOB,"
    " inventories BLOB, cohort BLOB, excluded BLOB, request_hash BLOB, aggregate BLOB, released_at INTEGER,"
    " UNIQUE (task, number))"
)
_LOOKS = (
    "CREATE TABLE looks (batch INTEGER NOT NULL PRIMARY KEY REFERENCES batches (batch), told_at INTEGER NOT NULL,"
    " counters BLOB NOT NULL, counted_at INTEGER, reports INTEGER NOT NULL, census BLOB)"
)


def upgrade() -> None:
    """Every batch keeps the number of its task, under which its segments are stored and its keys wrapped."""
    op.rename_table("looks", "looks_before")
    op.rename_table("batches", "batches_before")
    op.execute(_BATCHES)
    op.execute(
        f"INSERT INTO batches (batch, task, number, ends, {_DOCUMENTS})"  # noqa: S608 - the names above
        f" SELECT task, task, 0, (SELECT ends FROM tasks WHERE tasks.task = batches_before.task), {_DOCUMENTS}"
        " FROM batches_before"
    )
    op.execute(_LOOKS)
    op.execute("INSERT INTO looks SELECT task, told_at, counters, counted_at, reports, census FROM looks_before")
    op.drop_table("looks_before")
    op.drop_table("batches_before")
