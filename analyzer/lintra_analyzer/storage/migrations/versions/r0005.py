"""Lists of identifiers are files; the database names them by their roots. What it held itself is moved afterwards."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the table that names lists."""
    op.execute(
        "CREATE TABLE lists (task_id VARCHAR NOT NULL REFERENCES tasks (task_id), batch INTEGER NOT NULL,"
        " kind VARCHAR NOT NULL, server INTEGER NOT NULL, root BLOB NOT NULL, count INTEGER NOT NULL,"
        " PRIMARY KEY (task_id, batch, kind, server))"
    )
