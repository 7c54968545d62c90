"""Exports released numbers and analyses: .npz for programs, JSON for scripts, CSV, and text for people."""

import csv
import io
import json
from collections.abc import Iterator, Sequence

from fastapi.responses import JSONResponse, Response, StreamingResponse

from lintra_analysis.certificate.certificate import ReleaseRecord
from lintra_analysis.certificate.evidence import MEDIA_TYPE, Member, file_bytes, written
from lintra_analysis.estimators.table import Estimate
from lintra_analysis.kinds.decode import read
from lintra_analyzer.service import Service
from lintra_analyzer.web.analyses import promise, summary
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.encoding.canonical import base64url

NPZ = "application/octet-stream"
JSON, CSV, TEXT = "application/json", "text/csv", "text/plain"


def sketch_response(service: Service, record: ReleaseRecord, accept: str) -> Response:
    """Return a release's numbers, in normalised units, in the format that an Accept header asks for."""
    sketch, row_counts = service.archive.read(record)
    name = f"lintra-{record.release_id}"
    wanted = _wanted(accept)
    if JSON not in wanted and CSV not in wanted:
        headers = {"content-disposition": f'attachment; filename="{name}.npz"'}
        return Response(service.archive.bytes_of(record.release_id), media_type=NPZ, headers=headers)
    release = read(service.task(record.task_id), sketch, row_counts)
    columns, values = release.table()
    if JSON in wanted:
        return JSONResponse({"columns": columns, "row_counts": row_counts.tolist(), "values": values.tolist()})
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows([repr(value) for value in row] for row in values.tolist())
    headers = {"content-disposition": f'attachment; filename="{name}.csv"'}
    return Response(text.getvalue(), media_type=CSV, headers=headers)


def cohort_response(record: ReleaseRecord, report_ids: ReportIds) -> Response:
    """Return the identifiers of a release as a `CohortView`, written bit by bit: there may be millions."""

    def pieces() -> Iterator[str]:
        named = json.dumps({"release_id": record.release_id, "cohort_root": record.cohort_root})
        yield f'{named[:-1]}, "report_ids": ['
        before = ""
        for piece in report_ids.rows.pieces():
            yield before + ",".join(f'"{base64url(row.tobytes())}"' for row in piece)
            before = ","
        yield "]}"

    return StreamingResponse(pieces(), media_type=JSON)


def evidence_response(release_id: str, members: Sequence[Member]) -> Response:
    """Return the evidence of a verdict, written bit by bit: a body has some hundred bytes a report."""
    headers = {
        "content-disposition": f'attachment; filename="lintra-{release_id}.evidence.tar"',
        "content-length": str(file_bytes(members)),
    }
    return StreamingResponse(written(members), media_type=MEDIA_TYPE, headers=headers)


def analysis_response(record: ReleaseRecord, estimate: Estimate, accept: str) -> Response | None:
    """Return an analysis as CSV, text or .npz, if an Accept header asks for one that it has before JSON, else None."""
    warnings = summary(record)["warnings"]
    lines = [f"Warning: {warning}.\n" for warning in warnings] if isinstance(warnings, list) else []
    return tabular_response(estimate, accept, promise(record), f"lintra-{record.release_id}", "".join(lines))


def tabular_response(estimate: Estimate, accept: str, promised: str, name: str, warnings: str = "") -> Response | None:
    """Return an estimate as `analysis_response` does.

    `promised` is what a text says about privacy; `name` is that of a file, without its ending. `warnings` are lines
    that end a text.
    """
    numbers = estimate.npz() if NPZ in _wanted(accept) else None
    known = {JSON, CSV, TEXT} if numbers is None else {JSON, CSV, TEXT, NPZ}
    chosen = next((kind for kind in _wanted(accept) if kind in known), JSON)
    if chosen == JSON:
        return None
    if chosen == NPZ:
        headers = estimate.headers() | {"content-disposition": f'attachment; filename="{name}.npz"'}
        return Response(numbers, media_type=NPZ, headers=headers)
    if chosen == CSV:
        return Response(estimate.to_csv(), media_type=CSV, headers=estimate.headers())
    return Response(estimate.summary(promised) + warnings, media_type=TEXT)


def _wanted(accept: str) -> list[str]:
    """Return the media types that an Accept header names, in its order."""
    return [part.partition(";")[0].strip().lower() for part in accept.split(",")]
