"""Notes of where each batch ends, in the key folder: how many reports it holds, and the chain value of the last.

The database cannot show that its newest rows are gone. So where a batch ends is noted after every commit and before its
answer. A note lies in the system's memory at once, where it survives the end of this process; it is synchronised to the
disk every second, before segments are joined and before a batch is closed. After a power cut the notes of the last
second may be missing, and nothing else.
"""

import errno
import os
import threading
import zlib
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from lintra_server.durability.private_files import FILE_MODE, sync_folder
from lintra_service.settings import InvalidSettingsError

CHAIN_BYTES = 28

NAME_BYTES = 32
_FIRST_SLOTS = 32
_HEADER = b"lintra notes 1\n"
_SLOT_BYTES = 128
"""A slot never lies in two sectors of a disk. The first of the file holds the header."""

_place = Struct(f">HIHII{CHAIN_BYTES}s")
_PLACE_BYTES = _place.size + 4
_HIGH, _LOW = 32, 2**32 - 1


_MENDS = "nobody knows whether reports are gone; `lintra server restore` gives up every unreleased batch"


class DamagedNotesError(InvalidSettingsError):
    """The notes are not what this server wrote."""


class ChainNote(NamedTuple):
    """Where a batch ends."""

    total: int  #: reports that it holds
    chain: bytes  #: chain value of its last segment, 28 bytes (see `storage.marks`)
    told_at: int = 0  #: the time unit of its task in which somebody was last told how many they are; 0 if nobody was


class _Slot:
    """Where a batch has its slot, and what is there; `check` is the checksum of its name alone."""

    __slots__ = ("check", "counter", "note", "start")

    def __init__(self, name: bytes, slot: int) -> None:
        self.start = slot * _SLOT_BYTES
        self.check = zlib.crc32(name)
        self.counter = 0
        self.note = ChainNote(0, bytes(CHAIN_BYTES))


class Notes:
    """The file; thread-safe. Each batch has one slot with two places, which are written in turn.

    A place holds a counter and a checksum, so that a note that a crash left half written is not read. Whoever writes a
    note hears of a disk that fails by an `OSError`, and then what was noted before still holds.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Read the file, or make it if there is none.

        `read_only` is only look, also at the file of a process that writes to it meanwhile. Raises DamagedNotesError if
        it is something else.
        """
        self._lock = threading.Lock()
        self._slots: dict[bytes, _Slot] = {}
        self._free: list[int] = []
        self._changed = False
        self._file = os.open(path, os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT, FILE_MODE)
        try:
            if os.fstat(self._file).st_size == 0:
                if read_only:
                    raise DamagedNotesError(f"{path} is empty: {_MENDS}")
                self._extend(_HEADER.ljust(_SLOT_BYTES, b"\0") + bytes(_FIRST_SLOTS * _SLOT_BYTES))
                sync_folder(path.parent)
            self._read(path)
        except BaseException:
            os.close(self._file)
            raise

    def get(self, name: bytes) -> ChainNote | None:
        """Return what was noted of a batch, None if it has no slot."""
        slot = self._slots.get(name)
        return None if slot is None else slot.note

    def put(self, name: bytes, total: int, chain: bytes) -> None:
        """Note where a batch ends now."""
        with self._lock:
            slot = self._slots.get(name)
            if slot is None:
                self._take(name, ChainNote(total, chain))
            else:
                self._put(slot, ChainNote(total, chain, slot.note.told_at))

    def tell(self, name: bytes, told_at: int) -> None:
        """Note when somebody was last told how many reports a batch holds; it must have a slot."""
        with self._lock:
            slot = self._slots[name]
            self._put(slot, slot.note._replace(told_at=told_at))

    def remove(self, name: bytes) -> None:
        """Free the slot of a batch whose keys were destroyed; nothing happens if it has none."""
        with self._lock:
            slot = self._slots.get(name)
            if slot is not None:
                # On the disk first: if it fails the slot is still taken, and no other batch writes into it.
                self._write(bytes(_SLOT_BYTES), slot.start)
                del self._slots[name]
                self._free.append(slot.start // _SLOT_BYTES)
                self._changed = True

    def sync(self) -> None:
        """Make every note durable."""
        if self._changed:
            self._changed = False  # first, so that a note that comes meanwhile is synchronised the next time
            try:
                os.fsync(self._file)
            except OSError:
                self._changed = True
                raise

    @property
    def has_changed(self) -> bool:
        """Return whether there is a note that is not synchronised."""
        return self._changed

    def names(self) -> set[bytes]:
        """Return the names of all batches that have a slot."""
        return set(self._slots)

    def close(self) -> None:
        """Synchronise and close the file; nothing can be noted any more."""
        if self._file < 0:
            return
        try:
            self.sync()
        finally:
            os.close(self._file)
            self._file = -1

    def _take(self, name: bytes, note: ChainNote) -> None:
        """Write the first note of a batch into a free slot."""
        if len(name) != NAME_BYTES:
            raise ValueError(f"a note needs a name of {NAME_BYTES} bytes")
        if not self._free:
            self._grow()
        slot = _Slot(name, self._free[-1])
        self._put(slot, note)
        self._write(name, slot.start)  # last: a slot without a name is free
        self._free.pop()
        self._slots[name] = slot

    def _put(self, slot: _Slot, note: ChainNote) -> None:
        if len(note.chain) != CHAIN_BYTES:
            raise ValueError(f"a note needs a chain value of {CHAIN_BYTES} bytes")
        counter = slot.counter + 1
        body = _encoded(counter, note)
        # Never over the newest note: if this write is torn, that one is whole.
        place = slot.start + NAME_BYTES + counter % 2 * _PLACE_BYTES
        self._write(body + zlib.crc32(body, slot.check).to_bytes(4, "big"), place)
        slot.counter, slot.note = counter, note
        self._changed = True

    def _grow(self) -> None:
        """Make room for as many slots again; the disk's room is taken now, so that no later note lacks it."""
        size = os.fstat(self._file).st_size
        self._extend(bytes(size))
        self._free += reversed(range(size // _SLOT_BYTES, 2 * size // _SLOT_BYTES))

    def _write(self, data: bytes, place: int) -> None:
        """Write bytes over others; what is half written is seen by its checksum."""
        if os.pwrite(self._file, data, place) != len(data):
            raise OSError(errno.EIO, "a note was written in part")

    def _extend(self, data: bytes) -> None:
        """Write bytes behind the last, durably; if they do not fit the file stays as long as it was."""
        size = os.fstat(self._file).st_size
        try:
            while data:
                data = data[os.pwrite(self._file, data, os.fstat(self._file).st_size) :]
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, size)
            raise

    def _read(self, path: Path) -> None:
        data = path.read_bytes()
        if not data.startswith(_HEADER) or len(data) % _SLOT_BYTES:
            raise DamagedNotesError(f"{path} is not a file of notes: {_MENDS}")
        for slot in range(1, len(data) // _SLOT_BYTES):
            raw = data[slot * _SLOT_BYTES : (slot + 1) * _SLOT_BYTES]
            name = raw[:NAME_BYTES]
            if not any(name):
                self._free.append(slot)
                continue
            whole = [
                _decoded(place[:-4])
                for place in (raw[start : start + _PLACE_BYTES] for start in (NAME_BYTES, NAME_BYTES + _PLACE_BYTES))
                if zlib.crc32(name + place[:-4]).to_bytes(4, "big") == place[-4:]
            ]
            if not whole:
                raise DamagedNotesError(f"{path}, slot {slot}: neither of its two notes is whole: {_MENDS}")
            held = self._slots[name] = _Slot(name, slot)
            # The counter stands first, so the largest is the newest.
            held.counter, held.note = max(whole)


def _encoded(counter: int, note: ChainNote) -> bytes:
    """Return a place without its checksum: two numbers of 48 bits, one of 32, and a chain value."""
    total, chain, told_at = note
    return _place.pack(counter >> _HIGH, counter & _LOW, total >> _HIGH, total & _LOW, told_at, chain)


def _decoded(data: bytes) -> tuple[int, ChainNote]:
    counter_high, counter_low, total_high, total_low, told_at, chain = _place.unpack(data)
    return counter_high << _HIGH | counter_low, ChainNote(total_high << _HIGH | total_low, chain, told_at)
