"""A batch knows which windows were merged into it."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """No batch of an earlier version was merged."""
    op.add_column("batches", sa.Column("first", sa.BigInteger().with_variant(sa.Integer(), "sqlite")))
