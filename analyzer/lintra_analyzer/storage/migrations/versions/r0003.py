"""How often servers said that they had begun: a server that was set back is noticed across tasks."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the numbers; none was said yet."""
    op.create_table(
        "starts",
        sa.Column("identity_key", sa.String, primary_key=True),
        sa.Column("highest", sa.Integer, nullable=False),
    )
