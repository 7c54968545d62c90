"""A release that was downloaded: numbers, signed record and task as files, checked against each other and opened."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from lintra_analysis.certificate.certificate import SignedRecord, definition_hash, numbers_in
from lintra_analysis.kinds.decode import read, rows_of_a_report
from lintra_analysis.releases.release import Release
from lintra_protocol.errors import InvalidMessageError, InvalidReleaseError
from lintra_protocol.task import Task

RECORD, TASK = ".json", ".task.json"
"""How the files beside the numbers end, whose own name ends in .npz."""


def open_release(
    numbers: str | Path,
    record: str | Path | None = None,
    task: str | Path | None = None,
    *,
    analyzer_key: str | None = None,
    earlier: Iterable[str | Path] = (),
) -> Release:
    """Open a downloaded release, after checking that its files belong together and are what the analyzer signed.

    `AnalyzerClient.download_release` writes the three files; they are all that an analysis needs.

    >>> from lintra_analysis import open_release
    >>> release = open_release("flights.npz")
    >>> [column.name for column in release.columns]
    ['(intercept)', 'hour', 'distance', 'delay']

    Args:
        numbers: the .npz file.
        record: the signed record as JSON; by default beside the numbers, as `<name>.json`.
        task: the task document as JSON; by default beside the numbers, as `<name>.task.json`.
        analyzer_key: public key that must have signed, from a source that you trust; without it the key that the record
            itself names, which shows that nobody changed the files but not who made them.
        earlier: .npz files of the releases that this one builds on, such as the first of two rounds.

    Raises:
        InvalidReleaseError: the numbers are not those of the record.
        InvalidMessageError: a file is no record or no task, or the task is another's.
        UnauthorizedError: the record was signed by another key.
        OSError: a file cannot be read.
    """
    path = Path(numbers)
    signed = SignedRecord.from_value(_fields(record or path.with_suffix(RECORD), ("record", "signature")))
    document = _document(task or path.with_suffix(TASK))
    definition = Task.from_value(document.get("definition", document))
    signed.verified(analyzer_key or signed.record.analyzer_key)
    releases = {task_of(path): open_release(path) for path in earlier}
    return opened(signed, definition, path.read_bytes(), releases.get)


def opened(signed: SignedRecord, task: Task, numbers: bytes, earlier: Callable[[str], Release | None]) -> Release:
    """Return a release as estimators read it, after checking that all parts belong together.

    `signed` is the record; its signature is the caller's to check. `numbers` are the bytes of the .npz file. `earlier`
    gives the release of an earlier task by that task's identifier, or None. Raises InvalidReleaseError if the numbers
    are not those of the record; InvalidMessageError if the task is another's.
    """
    record = signed.record
    if task.task_id != record.task_id or definition_hash(task) != record.definition:
        raise InvalidMessageError(f"the task is {task.task_id}, the release is of {record.task_id}")
    sketch, row_counts = numbers_in(record, numbers)
    noise = record.noise
    reports = record.num_clients * rows_of_a_report(task)
    stated = (reports, noise.fewest_reports, noise.most_reports)
    if (int(row_counts.sum()), int(row_counts.min()), int(row_counts.max())) != stated:
        raise InvalidReleaseError(f"the row counts are not those of release {record.release_id}")
    return read(task, sketch, row_counts, earlier)


def task_of(numbers: str | Path) -> str:
    """Return the identifier of the task that a downloaded release is of, as the record beside the numbers names it."""
    record = _fields(Path(numbers).with_suffix(RECORD), ("record", "signature"))
    return SignedRecord.from_value(record).record.task_id


def _fields(path: str | Path, names: tuple[str, ...]) -> dict[str, object]:
    document = _document(path)
    if missing := [name for name in names if name not in document]:
        raise InvalidReleaseError(f"{path}: a signed record has the field {missing[0]!r}")
    return {name: document[name] for name in names}


def _document(path: str | Path) -> dict[str, object]:
    """Return a JSON object from a file."""
    try:
        document = json.loads(Path(path).read_text("utf-8"))
    except ValueError:
        raise InvalidReleaseError(f"{path} is not JSON") from None
    if not isinstance(document, dict):
        raise InvalidReleaseError(f"{path} is not a JSON object")
    return document
