"""One row for each commit: identifiers lie beside the payloads of their segment; the table of reports goes."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_SPAN = 1 << 32
_OLD = (
    "SELECT r.task, r.segment, r.report_id, s.serials, s.payloads FROM reports r"
    " LEFT JOIN segments_before s ON s.task = r.task AND s.number = r.segment AND r.position = 0"
    " ORDER BY r.task, r.segment, r.position"
)


def upgrade() -> None:
    """Give segments their reports' identifiers in order, and a number that counts them.

    Segments keep their numbers, so their payloads open as before. Those of scrubbed batches are gone: their identifiers
    make segments without payloads.
    """
    op.drop_index("ix_segments_task", "segments")
    op.rename_table("segments", "segments_before")
    op.create_index("places", "segments_before", ["task", "number"])
    op.create_table(
        "segments",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("ids", sa.LargeBinary, nullable=False),
        sa.Column("serials", sa.LargeBinary),
        sa.Column("payloads", sa.LargeBinary),
    )
    connection = op.get_bind()
    totals: dict[int, int] = {}
    row: tuple[int, list[bytes], bytes | None, bytes | None] | None = None
    for task, number, report_id, serials, payloads in connection.exec_driver_sql(_OLD):
        if row is None or row[0] != task * _SPAN + number:
            _write(connection, row, totals)
            row = (task * _SPAN + number, [], serials, payloads)
        row[1].append(report_id)
    _write(connection, row, totals)
    for task, count in connection.exec_driver_sql("SELECT task, num_reports FROM batches").all():
        # A batch that was cut has no segments; its count stays where it is.
        if totals.get(task, count) != count:
            raise ValueError(f"batch {task} says {count} reports and holds {totals[task]}: lintra server doctor")
    op.execute("UPDATE batches SET num_reports = 0 WHERE task IN (SELECT key / 4294967296 FROM segments)")
    op.drop_table("segments_before")
    op.drop_table("reports")
    op.drop_column("batches", "segments")
    op.drop_column("looks", "segments")


def _write(
    connection: sa.Connection, row: tuple[int, list[bytes], bytes | None, bytes | None] | None, totals: dict[int, int]
) -> None:
    if row is None:
        return
    key, ids, serials, payloads = row
    totals[key // _SPAN] = totals.get(key // _SPAN, 0) + len(ids)
    values = (key, totals[key // _SPAN], b"".join(ids), serials, payloads)
    connection.exec_driver_sql("INSERT INTO segments VALUES (?, ?, ?, ?, ?)", values)
