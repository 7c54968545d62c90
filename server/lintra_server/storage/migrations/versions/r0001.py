"""The first schema; databases of that time say so in the table `about`, not to Alembic."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make all tables."""
    op.create_table("about", sa.Column("schema_version", sa.Integer, primary_key=True))
    op.create_table(
        "sealing_keys",
        sa.Column("key_id", sa.LargeBinary, primary_key=True),
        sa.Column("suite", sa.String, nullable=False),
        sa.Column("wrapped", sa.LargeBinary, nullable=False),
        sa.Column("valid_from", sa.Integer, nullable=False),
        sa.Column("valid_until", sa.Integer, nullable=False),
    )
    op.create_table(
        "tasks",
        sa.Column("task", sa.Integer, primary_key=True),
        sa.Column("task_id", sa.LargeBinary, nullable=False, unique=True),
        sa.Column("definition", sa.LargeBinary, nullable=False),
        sa.Column("server", sa.Integer, nullable=False),
        sa.Column("ends", sa.Integer, nullable=False),
        sa.Column("retention", sa.Integer, nullable=False),
    )
    op.create_table(
        "batches",
        sa.Column("task", sa.Integer, sa.ForeignKey("tasks.task"), primary_key=True, autoincrement=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("num_reports", sa.Integer, nullable=False),
        sa.Column("capacity", sa.Integer, nullable=False),
        sa.Column("segments", sa.Integer, nullable=False),
        sa.Column("wrapped_key", sa.LargeBinary),
        sa.Column("wrapped_nonce", sa.LargeBinary),
        sa.Column("closed_at", sa.Integer),
        sa.Column("inventory", sa.LargeBinary),
        sa.Column("inventories", sa.LargeBinary),
        sa.Column("cohort", sa.LargeBinary),
        sa.Column("excluded", sa.LargeBinary),
        sa.Column("request_hash", sa.LargeBinary),
        sa.Column("aggregate", sa.LargeBinary),
        sa.Column("released_at", sa.Integer),
    )
    op.create_table(
        "reports",
        sa.Column("task", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("report_id", sa.LargeBinary, primary_key=True),
        sa.Column("segment", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "segments",
        sa.Column("segment", sa.Integer, primary_key=True),
        sa.Column("task", sa.Integer, nullable=False, index=True),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("payloads", sa.LargeBinary, nullable=False),
    )
