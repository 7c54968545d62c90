"""The evidence of a verdict in one file: what servers signed about a verified batch, and the bodies that give it.

An ordinary tar archive, which is written and read piece by piece. Its members stand in one order and in one spelling,
and every one of them is a document, a list or a body that something else signs or hashes. So no byte of it can change
unseen.
"""

import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal, TypeVar

from lintra_analysis.certificate.certificate import SignedRecord
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.encoding.canonical import HASH_BYTES
from lintra_protocol.errors import InvalidMessageError, LintraError
from lintra_protocol.messages.documents import Cohort, Inventory, Signed
from lintra_protocol.messages.verification import CheckShare, Verdict
from lintra_protocol.rules.verification import Read, parameters_of
from lintra_protocol.task import Task

MEDIA_TYPE = "application/x-tar"

TASK, RECORD, REPORT_IDS = "task.json", "record.json", "report_ids"
SignedKind = Literal["inventory", "cohort", "check_share", "verdict"]

SignedDocument = Signed[Inventory] | Signed[Cohort] | Signed[CheckShare] | Signed[Verdict]

SIGNED: tuple[SignedKind, ...] = ("inventory", "cohort", "check_share", "verdict")
"""What every server signed, in the order of the members; each is followed by `-` and the server's number."""

# An archive ends with two blocks of zeros.
_BLOCK, _END = tarfile.BLOCKSIZE, bytes(2 * tarfile.BLOCKSIZE)
_MOST_DOCUMENT_BYTES = 1 << 24

T = TypeVar("T")


@dataclass(frozen=True)
class Member:
    """One member of the file before it is written."""

    name: str  #: as below
    size: int  #: its bytes
    pieces: Callable[[], Iterable[bytes]] = field(repr=False)  #: gives them, a few at a time

    @classmethod
    def of(cls, name: str, document: bytes) -> "Member":
        """Return a member that is in memory."""
        return cls(name, len(document), lambda: [document])


def file_bytes(members: Sequence[Member]) -> int:
    """Return the length of the file with these members."""
    return sum(_BLOCK + member.size + _padding(member.size) for member in members) + len(_END)


def written(members: Sequence[Member]) -> Iterator[bytes]:
    """Yield the file with these members, a few bytes at a time.

    Raises ValueError if a member has another length than it said; what was yielded is no file then.
    """
    for member in members:
        yield _header(member.name, member.size)
        left = member.size
        for piece in member.pieces():
            left -= len(piece)
            yield piece
        if left:
            raise ValueError(f"{member.name} has {member.size - left} bytes, not {member.size}")
        yield bytes(_padding(member.size))
    yield _END


@dataclass(frozen=True)
class Evidence:
    """What a file holds: well formed, and nothing of it checked yet."""

    task: Task  #: whose batch it is about
    record: SignedRecord  #: the certificate of the release
    inventories: tuple[Signed[Inventory], ...]  #: of all servers, in server order, like all that follow
    cohorts: tuple[Signed[Cohort], ...]  #: which they froze
    check_shares: tuple[Signed[CheckShare], ...]  #: which they gave out
    verdicts: tuple[Signed[Verdict], ...]  #: which they came to
    report_ids: ReportIds = field(repr=False)
    bodies: tuple[Read, ...] = field(repr=False)  #: of the check shares, each from its beginning; they can be read once

    def signed(self, kind: SignedKind) -> Sequence[SignedDocument]:
        """Return what all servers signed of one kind."""
        match kind:
            case "inventory":
                return self.inventories
            case "cohort":
                return self.cohorts
            case "check_share":
                return self.check_shares
            case "verdict":
                return self.verdicts


@contextmanager
def opened_evidence(path: Path) -> Iterator[Evidence]:
    """Open a file of evidence; memory holds the list of identifiers, 32 bytes a report, and no body.

    Raises:
        InvalidMessageError: a member is missing, in another place or damaged; it is named.
        ChecksMismatchError: reports of the task that it holds are not verified.
        OSError: the file cannot be read.
    """
    with ExitStack() as files:
        reader = _Reader(files.enter_context(path.open("rb")))
        task = reader.document(TASK, Task.from_canonical)
        servers = range(task.num_servers)
        record = reader.document(RECORD, SignedRecord.from_canonical)
        inventories = [reader.document(f"inventory-{n}", Signed[Inventory].from_canonical) for n in servers]
        cohorts = [reader.document(f"cohort-{n}", Signed[Cohort].from_canonical) for n in servers]
        check_shares = [reader.document(f"check_share-{n}", Signed[CheckShare].from_canonical) for n in servers]
        verdicts = [reader.document(f"verdict-{n}", Signed[Verdict].from_canonical) for n in servers]
        # Not checked yet: it says how long bodies must be, and `skip` refuses those of another length.
        count = cohorts[0].message.count
        most = task.max_clients
        listed = reader.document(REPORT_IDS, lambda data: ReportIds.parse(data, most), HASH_BYTES * most)
        bodies = []
        for server in servers:
            start = reader.skip(f"body-{server}", count * parameters_of(task).check_bytes)
            body = files.enter_context(path.open("rb"))
            body.seek(start)
            bodies.append(_limited(body, count * parameters_of(task).check_bytes))
        reader.end()
        signed = tuple(inventories), tuple(cohorts), tuple(check_shares), tuple(verdicts)
        yield Evidence(task, record, *signed, listed, tuple(bodies))


class _Reader:
    """Reads one member after the other."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def document(self, name: str, parse: Callable[[bytes], T], most: int = _MOST_DOCUMENT_BYTES) -> T:
        size = self._begin(name)
        if size > most:
            raise InvalidMessageError(f"{name}: {size:,} bytes, and at most {most:,} make sense")
        data = self._read(name, size)
        self._pad(name, size)
        try:
            return parse(data)
        except LintraError as error:
            raise InvalidMessageError(f"{name}: {error}") from None

    def skip(self, name: str, size: int) -> int:
        """Pass over a member of this size; return where it begins."""
        if (found := self._begin(name)) != size:
            raise InvalidMessageError(f"{name}: {found:,} bytes, and the cohort takes {size:,}")
        start = self._file.tell()
        self._file.seek(start + size)
        self._pad(name, size)
        return start

    def end(self) -> None:
        # One byte more than the end has, so that nothing can follow it.
        if self._file.read(len(_END) + 1) != _END:
            raise InvalidMessageError("the file does not end behind its last member as it should")

    def _begin(self, name: str) -> int:
        header = self._read(name, _BLOCK)
        try:
            size = tarfile.TarInfo.frombuf(header, "ascii", "strict").size
            # Written again and compared, so that no field of a head can hold anything else.
            as_it_should_be = _header(name, size)
        except (tarfile.TarError, ValueError):
            as_it_should_be = b""
        if header != as_it_should_be:
            raise InvalidMessageError(f"{name}: it does not begin where it should, or its head was changed")
        return size

    def _read(self, name: str, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) < size:
            raise InvalidMessageError(f"{name}: the file is cut off")
        return data

    def _pad(self, name: str, size: int) -> None:
        if any(self._read(name, _padding(size))):
            raise InvalidMessageError(f"{name}: something stands behind it")


def _limited(file: BinaryIO, size: int) -> Read:
    """Return what reads the next bytes of a file, so many at most in all."""
    left = size

    def read(wanted: int) -> bytes:
        nonlocal left
        piece = file.read(min(wanted, left))
        left -= len(piece)
        return piece

    return read


def _header(name: str, size: int) -> bytes:
    """Return the head of a member: owner, time and all else are always the same."""
    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(tarfile.GNU_FORMAT, "ascii", "strict")


def _padding(size: int) -> int:
    return -size % _BLOCK
