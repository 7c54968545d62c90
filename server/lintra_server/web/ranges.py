"""Lists of identifiers as answers: whole, or one range of them (RFC 9110, section 14), a part at a time."""

import re
from collections.abc import Iterator

from starlette.datastructures import Headers
from starlette.responses import StreamingResponse

from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.encoding.canonical import HASH_BYTES, base64url
from lintra_protocol.http.requests import media_type

_RANGE = re.compile(r"bytes=(\d{1,15})-(\d{1,15})?")


def listed(report_ids: ReportIds, asked: Headers) -> StreamingResponse:
    """Return a list, or the range of it that the headers ask for.

    The list's Merkle root is its entity tag. A range is given if it begins and ends between identifiers, and if it is
    of this list, where `if-range` says so; any other is answered with the whole list, as the standard allows.
    """
    size, tag = HASH_BYTES * len(report_ids), f'"{base64url(report_ids.root)}"'
    headers = {"content-type": media_type("ids"), "accept-ranges": "bytes", "etag": tag}
    found = _range(asked.get("range", ""), size) if asked.get("if-range", tag) == tag else None
    if found is None:
        return StreamingResponse(report_ids.pieces(), headers={**headers, "content-length": str(size)})
    start, stop = found
    headers |= {"content-length": str(stop - start), "content-range": f"bytes {start}-{stop - 1}/{size}"}
    return StreamingResponse(_part(report_ids, start, stop), status_code=206, headers=headers)


def _range(asked: str, size: int) -> tuple[int, int] | None:
    """Return where a range begins and ends, in bytes, if it is one of whole identifiers."""
    match = _RANGE.fullmatch(asked)
    if match is None:
        return None
    start, stop = int(match[1]), min(int(match[2] or size) + 1, size)
    return (start, stop) if start < stop and start % HASH_BYTES == stop % HASH_BYTES == 0 else None


def _part(report_ids: ReportIds, start: int, stop: int) -> Iterator[bytes]:
    return report_ids.pieces(start // HASH_BYTES, stop // HASH_BYTES)
