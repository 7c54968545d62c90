"""Tokens: the key that checks those of a task, and which were used; and censuses of open batches."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add what the tasks of before do not need: they are open, and nobody counted them."""
    op.add_column("tasks", sa.Column("wrapped_token_key", sa.LargeBinary))
    op.create_table(
        "spent_tokens",
        sa.Column("task", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("window", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("serial", sa.LargeBinary, primary_key=True),
        sa.Column("report_id", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "censuses",
        sa.Column("task", sa.Integer, sa.ForeignKey("tasks.task"), primary_key=True, autoincrement=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("segments", sa.Integer, nullable=False),
    )
