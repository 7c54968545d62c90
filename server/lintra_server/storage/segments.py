"""How the new reports of one commit are written: payloads and serials in segments, places in narrow rows."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, bindparam, insert, select

from lintra_server.disk.vault import DataKey
from lintra_server.storage.database import reports, segments

MAX_SEGMENT_BYTES = 1 << 20
"""Payload bytes in a segment, unless one payload alone is larger; bounds the memory of a release."""

_IDS_PER_QUERY = 512

# Built once: building a statement costs more than running it.
_ADD_SEGMENT, _ADD_REPORTS = insert(segments), insert(reports)
_KNOWN = select(reports.c.report_id).where(
    reports.c.task == bindparam("task"), reports.c.report_id.in_(bindparam("ids", expanding=True))
)


def known(connection: Connection, task: int, report_ids: Sequence[bytes]) -> set[bytes]:
    """Return those of some identifiers whose reports are stored."""
    found: set[bytes] = set()
    for start in range(0, len(report_ids), _IDS_PER_QUERY):
        ids = report_ids[start : start + _IDS_PER_QUERY]
        found.update(connection.execute(_KNOWN, {"task": task, "ids": ids}).scalars())
    return found


def write_segments(
    connection: Connection, task: int, first: int, new: Mapping[bytes, bytes], serials: Sequence[bytes], key: DataKey
) -> int:
    """Write payloads, their tokens' serials and their places; return how many segments that took."""
    report_ids = list(new)
    # All payloads of a task have one length.
    per_segment = max(1, MAX_SEGMENT_BYTES // len(new[report_ids[0]]))
    number = first
    for start in range(0, len(report_ids), per_segment):
        ids = report_ids[start : start + per_segment]
        encrypted = key.encrypt(b"".join([new[report_id] for report_id in ids]), number)
        used = b"".join(serials[start : start + per_segment]) or None
        connection.execute(_ADD_SEGMENT, {"task": task, "number": number, "serials": used, "payloads": encrypted})
        connection.execute(
            _ADD_REPORTS,
            [
                {"task": task, "report_id": report_id, "segment": number, "position": position}
                for position, report_id in enumerate(ids)
            ],
        )
        number += 1
    return number - first
