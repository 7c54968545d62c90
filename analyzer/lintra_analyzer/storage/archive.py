"""Releases as files: the numbers as .npz that any NumPy opens, without pickle, and the record beside them as JSON.

A file is written under a temporary name, made durable, then renamed: under its own name it is always whole.
"""

import io
import os
from pathlib import Path

import numpy as np

from lintra_analysis.certificate.certificate import ReleaseRecord, SignedRecord, numbers_in
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import InvalidReleaseError


class Archive:
    """The folder that holds the numbers of all releases."""

    def __init__(self, folder: Path) -> None:
        """Use a folder, which is made if need be."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def write(self, signed: SignedRecord, sketch: IntArray, row_counts: IntArray, values: FloatArray) -> None:
        """Store a release.

        `signed` is the record, whose identifier names the files. `sketch` is the released integers, shape `(m, w/c)`,
        in ring units; `row_counts` has shape `(m,)`. `values` are the same release decoded, in normalised units and in
        the mechanism's own shape.
        """
        buffer = io.BytesIO()
        np.savez(buffer, sketch=sketch, row_counts=row_counts, values=values)
        release_id = signed.record.release_id
        self._write(f"{release_id}.npz", buffer.getvalue())
        self._write(f"{release_id}.json", signed.canonical())

    def bytes_of(self, release_id: str) -> bytes:
        """Return the .npz file of a release; raise InvalidReleaseError if the file is gone."""
        try:
            return (self._folder / f"{release_id}.npz").read_bytes()
        except FileNotFoundError:
            raise InvalidReleaseError(f"the numbers of release {release_id} are missing from the archive") from None

    def read(self, record: ReleaseRecord) -> tuple[IntArray, IntArray]:
        """Return a release's integers, shape `(m, w/c)`, and row counts, shape `(m,)`."""
        return numbers_in(record, self.bytes_of(record.release_id))

    def _write(self, name: str, data: bytes) -> None:
        temporary = self._folder / f".{name}.partial"
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._folder / name)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
