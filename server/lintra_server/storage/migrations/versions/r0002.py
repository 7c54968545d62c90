"""Where the journal stands, and which secret protects what: a restored copy is told from the original."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the head of the journal and the names of secrets; no journal yet: see `lintra server init --adopt`."""
    op.create_table(
        "journal",
        sa.Column("one", sa.Integer, primary_key=True),
        sa.Column("length", sa.Integer, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("start", sa.Integer, nullable=False),
        sa.Column("barred_before", sa.Integer, nullable=False),
    )
    op.add_column("sealing_keys", sa.Column("secret", sa.LargeBinary))
    op.add_column("batches", sa.Column("secret", sa.LargeBinary))
    # Its nonce and its time were fixed, but no inventory was made of them, so nobody heard of them.
    op.execute(
        "UPDATE batches SET state = 'open', wrapped_nonce = NULL, closed_at = NULL"
        " WHERE state = 'closed' AND inventory IS NULL"
    )
    op.drop_table("about")
