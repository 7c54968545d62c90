"""What a frozen cohort lacks of a batch is kept as places in the sorted list: a byte or two, not 32, a report."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the column; batches that were frozen before keep the identifiers themselves."""
    op.add_column("batches", sa.Column("missing", sa.LargeBinary))
