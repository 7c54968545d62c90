"""The manifest of a backup: the hash of its file, the place of the journal, and the end of each batch.

It is authenticated under the journal's key and signed, so that a copy which somebody changed is not put in place.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lintra_protocol.crypto.signing import SigningKey, verify
from lintra_protocol.encoding.canonical import (
    HASH_BYTES,
    JsonValue,
    base64url,
    canonical_json,
    parse_base64url,
    parse_canonical_json,
)
from lintra_protocol.errors import InvalidMessageError, UnauthorizedError
from lintra_server.durability.journal import BatchId, Head, Journal
from lintra_server.durability.notes import CHAIN_BYTES, ChainNote
from lintra_server.storage.history import History
from lintra_service.settings import InvalidSettingsError

MANIFEST_FILE = "manifest.json"
_LABEL = "backup"
_PIECE = 1 << 20


class DoctoredBackupError(InvalidSettingsError):
    """A backup is not what this server wrote, or does not fit its key folder; nothing was put in place."""


@dataclass(frozen=True)
class Manifest:
    """What a backup holds.

    `head` says where the journal stood, as the copy has it. `ends` are the total and chain value of each batch whose
    keys were not destroyed, in the copy.
    """

    sha256: bytes
    head: Head
    ends: Mapping[BatchId, tuple[int, bytes]]

    def sealed(self, journal: Journal, identity: SigningKey) -> bytes:
        """Return the bytes of the manifest's file."""
        body: JsonValue = {
            "version": 1,
            "sha256": base64url(self.sha256),
            "journal": {"length": self.head.length, "digest": base64url(self.head.digest)},
            "batches": [
                {"task": base64url(batch.task_id), "batch": batch.number, "total": total, "chain": base64url(chain)}
                for batch, (total, chain) in sorted(self.ends.items())
            ],
        }
        encoded = canonical_json(body)
        mac, signature = journal.mac(_LABEL, encoded), identity.sign(_LABEL, encoded)
        return canonical_json({"manifest": body, "mac": base64url(mac), "signature": signature}) + b"\n"

    @classmethod
    def opened(cls, data: bytes, journal: Journal, public_key: str) -> "Manifest":
        """Read what `sealed` wrote; raise DoctoredBackupError if this server did not write it."""
        try:
            match parse_canonical_json(data.rstrip(b"\n")):
                case {"manifest": dict(body), "mac": str(mac), "signature": str(signature)}:
                    encoded = canonical_json(body)
                    if hmac.compare_digest(parse_base64url(mac), journal.mac(_LABEL, encoded)):
                        verify(public_key, signature, _LABEL, encoded)
                        return cls._parsed(body)
        except (InvalidMessageError, UnauthorizedError):
            pass
        raise DoctoredBackupError("its manifest is not one that this server wrote, or was changed")

    @classmethod
    def _parsed(cls, body: Mapping[str, JsonValue]) -> "Manifest":
        match body:
            case {
                "version": 1,
                "sha256": str(sha256),
                "journal": {"length": int(length), "digest": str(digest)},
                "batches": list(batches),
            }:
                head = Head(length, parse_base64url(digest, HASH_BYTES))
                return cls(parse_base64url(sha256, HASH_BYTES), head, dict(map(_end, batches)))
        raise InvalidMessageError("a manifest of another version")

    def require(self, sha256: bytes, journal: Journal, history: History, notes: Mapping[bytes, ChainNote]) -> None:
        """Compare a backup's file, its manifest, the journal and the notes.

        `sha256` is that of the file that would be put in place; `notes` says where batches ended last. Raises
        DoctoredBackupError if they do not fit.
        """
        if sha256 != self.sha256:
            raise DoctoredBackupError("its database is not the file that its manifest describes: it was changed")
        if not journal.has(self.head):
            raise DoctoredBackupError(
                f"it was made at line {self.head.length} of a journal, and the key folder's journal never stood there: "
                "it is another server's, or the key folder lost lines"
            )
        for batch, (total, chain) in self.ends.items():
            note, place = notes.get(batch.name), history.place(batch)
            lost = 0 if place is None else history.batches[place].lost
            if note is not None and note.total == total and note.chain != chain and not lost:
                raise DoctoredBackupError(f"of {batch} it holds other reports than the key folder noted")


def copied(source: Path, target: Path) -> bytes:
    """Copy a file to an empty one and return the SHA-256 of what was copied."""
    digest = hashlib.sha256()
    with source.open("rb") as read, target.open("r+b") as written:
        while piece := read.read(_PIECE):
            digest.update(piece)
            written.write(piece)
    return digest.digest()


def sha256_of(path: Path) -> bytes:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _end(entry: JsonValue) -> tuple[BatchId, tuple[int, bytes]]:
    match entry:
        case {"task": str(task), "batch": int(number), "total": int(total), "chain": str(chain)}:
            return BatchId(parse_base64url(task, HASH_BYTES), number), (total, parse_base64url(chain, CHAIN_BYTES))
    raise InvalidMessageError("a batch of a manifest has a task, a number, a total and a chain value")
