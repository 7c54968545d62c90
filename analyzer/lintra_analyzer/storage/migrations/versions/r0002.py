"""The version stands where Alembic looks for it."""

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Drop the table that said the version before."""
    op.drop_table("meta")
