"""Tokens with roles, sessions of the console, and whose rows a task is about."""

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the tables; the tasks so far were about everybody, so that what they spend adds up."""
    op.execute("ALTER TABLE tasks ADD COLUMN population VARCHAR NOT NULL DEFAULT 'everybody'")
    op.execute(
        "CREATE TABLE access_tokens (token_hash VARCHAR NOT NULL PRIMARY KEY, name VARCHAR NOT NULL,"
        " role VARCHAR NOT NULL, tasks VARCHAR NOT NULL, populations VARCHAR NOT NULL, created_at INTEGER NOT NULL,"
        " expires_at INTEGER, revoked_at INTEGER)"
    )
    op.execute(
        "CREATE TABLE sessions (session_hash VARCHAR NOT NULL PRIMARY KEY, token_hash VARCHAR NOT NULL,"
        " expires_at INTEGER NOT NULL)"
    )
    op.execute(
        "CREATE TABLE sign_in_codes (code_hash VARCHAR NOT NULL PRIMARY KEY,"
        " token_hash VARCHAR NOT NULL REFERENCES access_tokens (token_hash), expires_at INTEGER NOT NULL)"
    )
