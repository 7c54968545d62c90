"""Jobs, documents and releases belong to a batch of a task: a task with windows has one for each."""

from alembic import op

revision = "0004"
down_revision = "0003"

_JOBS = (
    "CREATE TABLE jobs (task_id VARCHAR NOT NULL REFERENCES tasks (task_id), batch INTEGER NOT NULL,"
    " stage VARCHAR NOT NULL, state VARCHAR NOT NULL, problem VARCHAR, release_id VARCHAR,"
    " PRIMARY KEY (task_id, batch))"
)
_DOCUMENTS = (
    "CREATE TABLE documents (task_id VARCHAR NOT NULL REFERENCES tasks (task_id), batch INTEGER NOT NULL,"
    " kind VARCHAR NOT NULL, server INTEGER NOT NULL, body BLOB NOT NULL,"
    " PRIMARY KEY (task_id, batch, kind, server))"
)
_RELEASES = (
    "CREATE TABLE releases (number INTEGER NOT NULL PRIMARY KEY, release_id VARCHAR NOT NULL UNIQUE,"
    " task_id VARCHAR NOT NULL REFERENCES tasks (task_id), batch INTEGER NOT NULL, record BLOB NOT NULL,"
    " UNIQUE (task_id, batch))"
)
_COPIES = {
    "jobs": (_JOBS, "INSERT INTO jobs SELECT task_id, 0, stage, state, problem, release_id FROM jobs_before"),
    "documents": (_DOCUMENTS, "INSERT INTO documents SELECT task_id, 0, kind, server, body FROM documents_before"),
    "releases": (_RELEASES, "INSERT INTO releases SELECT number, release_id, task_id, 0, record FROM releases_before"),
}


def upgrade() -> None:
    """Give everything that was done for a task to its only batch, 0."""
    for table, (made, copied) in _COPIES.items():
        op.rename_table(table, f"{table}_before")
        op.execute(made)
        op.execute(copied)
        op.drop_table(f"{table}_before")
