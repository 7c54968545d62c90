"""The tables of version 0.1.0, the first that was published: `database` makes them in an empty database."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Nothing comes before it."""
