"""Batches of verified tasks: a second nonce, the check share, the verdict and whom it rejected, and why it ended."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """No batch of an earlier version was checked."""
    for name in ("wrapped_matrix_nonce", "check_share", "verdict", "rejected"):
        op.add_column("batches", sa.Column(name, sa.LargeBinary))
    op.add_column("batches", sa.Column("ended_by", sa.String))
