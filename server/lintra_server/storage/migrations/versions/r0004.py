"""Serials of used tokens lie beside their reports; censuses and counters are one look; tasks name their author."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Give segments the serials of their reports, in the order of the reports."""
    op.drop_index("ix_segments_task", "segments")
    op.rename_table("segments", "segments_before")
    op.create_table(
        "segments",
        sa.Column("segment", sa.Integer, primary_key=True),
        sa.Column("task", sa.Integer, nullable=False, index=True),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("serials", sa.LargeBinary),
        sa.Column("payloads", sa.LargeBinary, nullable=False),
    )
    op.execute("INSERT INTO segments SELECT segment, task, number, NULL, payloads FROM segments_before")
    op.drop_table("segments_before")
    connection = op.get_bind()
    parts: dict[tuple[int, int], bytes] = {}
    for task, number, serial in connection.exec_driver_sql(
        "SELECT s.task, r.segment, s.serial FROM spent_tokens s"
        " JOIN reports r ON r.task = s.task AND r.report_id = s.report_id ORDER BY r.task, r.segment, r.position"
    ):
        parts[task, number] = parts.get((task, number), b"") + serial
    for (task, number), serials in parts.items():
        change = "UPDATE segments SET serials = ? WHERE task = ? AND number = ?"
        connection.exec_driver_sql(change, (serials, task, number))
    op.drop_table("spent_tokens")
    # Censuses were signed without a start number, so nobody could read them any more.
    op.drop_table("censuses")
    op.create_table(
        "looks",
        sa.Column("task", sa.Integer, sa.ForeignKey("tasks.task"), primary_key=True, autoincrement=False),
        sa.Column("told_at", sa.Integer, nullable=False),
        sa.Column("counters", sa.LargeBinary, nullable=False),
        sa.Column("counted_at", sa.Integer),
        sa.Column("reports", sa.Integer, nullable=False),
        sa.Column("segments", sa.Integer, nullable=False),
        sa.Column("census", sa.LargeBinary),
    )
    op.add_column("tasks", sa.Column("author", sa.String, nullable=False, server_default=""))
    for number, definition in connection.exec_driver_sql("SELECT task, definition FROM tasks").all():
        author = json.loads(definition).get("author_key", "") if definition else ""
        connection.exec_driver_sql("UPDATE tasks SET author = ? WHERE task = ?", (author, number))
