"""The first schema; databases of that time say so in the table `meta`, not to Alembic."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make all tables."""
    op.create_table("meta", sa.Column("version", sa.Integer, primary_key=True))
    op.create_table(
        "pins", sa.Column("url", sa.String, primary_key=True), sa.Column("identity_key", sa.String, nullable=False)
    )
    op.create_table(
        "tasks",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("task_id", sa.String, nullable=False, unique=True),
        sa.Column("record", sa.LargeBinary, nullable=False),
        sa.Column("specification", sa.LargeBinary, nullable=False),
        sa.Column("request_key", sa.String, unique=True),
        sa.Column("created_at", sa.Integer, nullable=False),
    )
    op.create_table(
        "registrations",
        sa.Column("task_id", sa.String, sa.ForeignKey("tasks.task_id"), primary_key=True),
        sa.Column("server", sa.Integer, primary_key=True),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("problem", sa.String),
    )
    op.create_table(
        "jobs",
        sa.Column("task_id", sa.String, sa.ForeignKey("tasks.task_id"), primary_key=True),
        sa.Column("stage", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("problem", sa.String),
        sa.Column("release_id", sa.String),
    )
    op.create_table(
        "documents",
        sa.Column("task_id", sa.String, sa.ForeignKey("tasks.task_id"), primary_key=True),
        sa.Column("kind", sa.String, primary_key=True),
        sa.Column("server", sa.Integer, primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "releases",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("release_id", sa.String, nullable=False, unique=True),
        sa.Column("task_id", sa.String, sa.ForeignKey("tasks.task_id"), nullable=False, unique=True),
        sa.Column("record", sa.LargeBinary, nullable=False),
    )
