"""Reads and checks a row of the database; a row that cannot be read is refused with an explanation.

A row may be of another version, damaged, or edited. Its identifier is the hash of its document, so what is read under
an identifier is what was stored under it.
"""

import json

from lintra_analysis.certificate.certificate import SignedRecord
from lintra_analyzer.storage.rows import StoredTask
from lintra_protocol.encoding.canonical import base64url, canonical_json, domain_hash
from lintra_protocol.errors import InternalError, InvalidReleaseError, LintraError
from lintra_protocol.messages.documents import Signed, TaskRecord
from lintra_protocol.task import Task

ADVICE = "run `lintra analyzer doctor` on its machine; it says what to do"


def task_in(stored: StoredTask) -> Task:
    """Return the task of a row; raise InternalError if the row cannot be read, or holds another task."""
    try:
        task = Signed[TaskRecord].from_canonical(stored.record).message.definition
        is_it = task.task_id == stored.task_id
    except (LintraError, ValueError) as error:
        raise InternalError(f"task {stored.task_id} cannot be read ({_why(error)}); {ADVICE}") from None
    if not is_it:
        raise InternalError(f"task {stored.task_id} cannot be read (its row holds another task); {ADVICE}")
    return task


def purpose_in(stored: StoredTask) -> str:
    """Return what the task of a row is for; of a row that cannot be read, that. Nothing else of it is looked at."""
    try:
        definition = json.loads(stored.record)["message"]["definition"]
        if base64url(domain_hash("task", canonical_json(definition))) == stored.task_id:
            return str(definition["purpose"])
    except (ValueError, LookupError, TypeError, LintraError):
        pass
    return f"task {stored.task_id} cannot be read; {ADVICE}"


def record_in(release_id: str, data: bytes) -> SignedRecord:
    """Return the signed record in a release's row.

    Raises InvalidReleaseError if the row cannot be read, or holds another record.
    """
    try:
        signed = SignedRecord.from_canonical(data)
        is_it = signed.record.release_id == release_id
    except (LintraError, ValueError) as error:
        raise InvalidReleaseError(f"release {release_id} cannot be read ({_why(error)}); {ADVICE}") from None
    if not is_it:
        raise InvalidReleaseError(f"release {release_id} cannot be read (its row holds another record); {ADVICE}")
    return signed


def _why(error: Exception) -> str:
    return (error.detail if isinstance(error, LintraError) else str(error)) or "damaged"
