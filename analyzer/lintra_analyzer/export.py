"""The released numbers in three dresses: .npz for programs, JSON for scripts, CSV for spreadsheets."""

import csv
import io

from fastapi.responses import JSONResponse, Response

from lintra_analyzer.certificate import ReleaseRecord
from lintra_analyzer.reconstruct import as_release
from lintra_analyzer.service import Service
from lintra_protocol.ring import FloatArray

NPZ = "application/octet-stream"


def sketch_response(service: Service, record: ReleaseRecord, accept: str) -> Response:
    """Return a release's numbers, in normalised units, in the format that an Accept header asks for.

    Raises:
        InvalidReleaseError: the archived numbers are not those of the record.
    """
    sketch, row_counts = service.archive.read(record)
    name = f"lintra-{record.release_id}"
    wanted = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    if "application/json" not in wanted and "text/csv" not in wanted:
        headers = {"content-disposition": f'attachment; filename="{name}.npz"'}
        return Response(service.archive.bytes_of(record.release_id), media_type=NPZ, headers=headers)
    release = as_release(service.task(record.task_id), sketch, row_counts)
    columns = [column.name for column in release.columns]
    values: FloatArray = release.values.reshape(-1, len(columns))
    if "application/json" in wanted:
        return JSONResponse({"columns": columns, "row_counts": row_counts.tolist(), "values": values.tolist()})
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows([repr(value) for value in row] for row in values.tolist())
    headers = {"content-disposition": f'attachment; filename="{name}.csv"'}
    return Response(text.getvalue(), media_type="text/csv", headers=headers)
