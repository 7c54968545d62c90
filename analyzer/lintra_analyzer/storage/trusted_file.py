"""The file of whom the analyzer trusts, in its key folder: its users with their sessions, and its servers.

Whoever edits the database does not reach this file. It carries a MAC under a key of its own, so that a changed or torn
file is noticed. A counter in it rises with every change. The process remembers the largest counter that it saw, and
the database notes it too, so that an older copy of the file is refused, while the analyzer runs and at its start: a
token that was revoked does not come back. The database's note can only make the analyzer refuse, never believe.

The file is written whole, made durable, and renamed. Several processes share it: the analyzer and the commands beside
it. Who changes it holds a lock; who reads it looks whether it is still the file that was read last.
"""

import fcntl
import hashlib
import hmac
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError
from sqlalchemy.exc import SQLAlchemyError

from lintra_analyzer.storage.access_tokens import AccessToken
from lintra_protocol.crypto.randomness import RandomBytes, system_randomness
from lintra_protocol.encoding.canonical import base64url, framed
from lintra_protocol.errors import UnavailableError
from lintra_service.secrets import read_secret, write_secret
from lintra_service.settings import InvalidSettingsError

T = TypeVar("T")

FILE, KEY_FILE, LOCK_FILE = "trusted.json", "trusted.key", "trusted.lock"
KEY_BYTES = 32

MOST_BYTES = 64 << 20
"""A longer file is none of ours."""

RESET = "lintra analyzer access reset --config FILE"
"""What mends the file; `lintra analyzer doctor` says what it costs."""

_MAC_DIGITS = 64


@dataclass(frozen=True)
class Ticket:
    """What stands for a token until a moment: a session of the console, or a code that signs in once.

    `expires_at` says from when on it is refused, in seconds since the epoch.
    """

    token_hash: str = field(repr=False)
    expires_at: int


@dataclass(frozen=True)
class Trusted:
    """What the file holds."""

    counter: int = 0  #: how often it was changed
    tokens: Mapping[str, AccessToken] = field(default_factory=dict, repr=False)  #: by their hashes
    sessions: Mapping[str, Ticket] = field(default_factory=dict, repr=False)  #: by the hashes of their secrets
    codes: Mapping[str, Ticket] = field(default_factory=dict, repr=False)  #: that sign in once, by their hashes
    #: the identity key of a server when it was first met, by its address
    pins: Mapping[str, str] = field(default_factory=dict)
    #: the largest number of starts that a server ever said, by its identity key
    starts: Mapping[str, int] = field(default_factory=dict)


_FORM = TypeAdapter(Trusted)


class CounterNote(Protocol):
    """Where the largest counter is kept outside of the key folder."""

    def highest(self) -> int:
        """Return the largest counter that was noted; 0 if none was."""

    def raise_to(self, counter: int) -> None:
        """Note a counter, unless a larger one is noted."""


class TrustedFile:
    """The file, as one process sees it; thread-safe."""

    def __init__(self, folder: Path, note: CounterNote, random_bytes: RandomBytes = system_randomness) -> None:
        """Read the file, or make it where nothing was ever noted of one.

        `folder` is that of the keys; it is made if need be. `note` says where its counter is kept besides.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._path = folder / FILE
        self._note = note
        self._thread = threading.RLock()
        self._held = -1  # the open file that was read last: as long as it is open, no other gets its number
        self._seen: tuple[int, ...] = ()
        self._state = Trusted()
        with self._locked():
            noted = note.highest()
            # A file that was noted and is missing was taken away: none is made in its place.
            if not self._path.exists() and not noted:
                read_secret(folder / KEY_FILE, KEY_BYTES, create=True, random_bytes=random_bytes)
                write_trusted(folder, self._mac_key(), encoded(Trusted(counter=1)))
            state = self._read()
            self._require_noted(state, noted)
            note.raise_to(state.counter)

    def close(self) -> None:
        """Let go of the file."""
        with self._thread:
            if self._held >= 0:
                os.close(self._held)
            self._held, self._seen = -1, ()

    def state(self) -> Trusted:
        """Return what the file holds now; another process may just have changed it.

        Raises UnavailableError if it was taken away, damaged, or replaced by an older copy.
        """
        try:
            if _identity(self._path.stat()) == self._seen:
                return self._state
            return self._read()
        except (OSError, InvalidSettingsError) as error:
            raise UnavailableError(f"whom to trust cannot be read: {_said(error)}") from None

    def change(self, step: Callable[[Trusted], tuple[Trusted, T]]) -> T:
        """Change what the file holds, durably; what `step` returns unchanged is not written.

        `step` leads from what the file holds to what it shall hold, and what is returned. Raises UnavailableError if it
        was taken away, damaged, or replaced by an older copy, or cannot be written.
        """
        try:
            with self._locked():
                before = self._read()
                after, result = step(before)
                if after is not before:
                    new = replace(after, counter=before.counter + 1)
                    write_trusted(self._folder, self._mac_key(), encoded(new))
                    # The file first. After a crash in between the note is behind, and only one that is ahead refuses.
                    self._note.raise_to(self._read().counter)
                return result
        except (OSError, SQLAlchemyError, InvalidSettingsError) as error:
            raise UnavailableError(f"whom to trust cannot be written: {_said(error)}") from None

    # --- rules -----------------------------------------------------------------------------------------------------

    def _require_authentic(self, mac: bytes, body: bytes) -> None:
        if not hmac.compare_digest(mac, _mac(self._mac_key(), body)):
            raise InvalidSettingsError(f"{self._path} was changed or is damaged: its MAC is wrong; run `{RESET}`")

    def _require_newest(self, state: Trusted) -> None:
        if state.counter < self._state.counter:
            raise InvalidSettingsError(
                f"{self._path} is an older copy: its counter is {state.counter}, and {self._state.counter} was seen; "
                f"put the newest one back, or run `{RESET}`"
            )

    def _require_noted(self, state: Trusted, noted: int) -> None:
        if state.counter < noted:
            raise InvalidSettingsError(
                f"{self._path} is an older copy: its counter is {state.counter}, and the database notes {noted}; "
                f"put the newest one back, or run `{RESET}`"
            )

    # --- the file --------------------------------------------------------------------------------------------------

    def _mac_key(self) -> bytes:
        return read_secret(self._folder / KEY_FILE, KEY_BYTES, create=False, random_bytes=system_randomness)[0]

    def _read(self) -> Trusted:
        with self._thread:
            try:
                descriptor = os.open(self._path, os.O_RDONLY)
            except FileNotFoundError:
                raise InvalidSettingsError(
                    f"{self._path} is missing; put the newest one back, or run `{RESET}`"
                ) from None
            try:
                seen = os.fstat(descriptor)
                mac, body = _parts(_all_of(descriptor, seen.st_size))
                # Nothing of the body is parsed before its MAC is right.
                self._require_authentic(mac, body)
                state = _parsed(body, self._path)
                self._require_newest(state)
            except BaseException:
                os.close(descriptor)
                raise
            if self._held >= 0:
                os.close(self._held)
            self._held, self._state, self._seen = descriptor, state, _identity(seen)
            return state

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._thread, locked(self._folder):
            yield


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock that every writer of the file in a folder takes."""
    descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        # Closing the file gives the lock back, and so does the end of the process.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def read_trusted(folder: Path) -> Trusted:
    """Return what the file of a folder holds, and change nothing.

    Raises InvalidSettingsError if the file or its key is missing, malformed, or does not fit the other.
    """
    key = read_secret(folder / KEY_FILE, KEY_BYTES, create=False, random_bytes=system_randomness)[0]
    path = folder / FILE
    try:
        with path.open("rb") as file:
            mac, body = _parts(file.read(MOST_BYTES))
    except OSError as error:
        raise InvalidSettingsError(f"{path}: {error.strerror}") from None
    if not hmac.compare_digest(mac, _mac(key, body)):
        raise InvalidSettingsError(f"{path} was changed or is damaged: its MAC is wrong")
    return _parsed(body, path)


def reset(folder: Path, note: CounterNote, random_bytes: RandomBytes = system_randomness) -> Trusted:
    """Put the file aside, whatever it is, and write a new one without users; return it.

    What an intact file says of servers is kept: it never lets anybody in. A key that cannot be read is put aside too.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(folder):
        try:
            old = read_trusted(folder)
        except InvalidSettingsError:
            old = Trusted()
        new = Trusted(max(old.counter, note.highest()) + 1, pins=old.pins, starts=old.starts)
        try:
            key = read_secret(folder / KEY_FILE, KEY_BYTES, create=True, random_bytes=random_bytes)[0]
        except InvalidSettingsError:
            _put_aside(folder / KEY_FILE, new.counter)
            key = random_bytes(KEY_BYTES)
            write_secret(folder / KEY_FILE, base64url(key))
        _put_aside(folder / FILE, new.counter)
        write_trusted(folder, key, encoded(new))
        note.raise_to(new.counter)
    return new


def _put_aside(path: Path, number: int) -> None:
    if path.exists():
        path.replace(path.with_name(f"{path.name}.replaced-{number}"))


def encoded(state: Trusted) -> bytes:
    """Return the body of the file."""
    return _FORM.dump_json(state)


def write_trusted(folder: Path, key: bytes, body: bytes) -> None:
    """Write the file of a folder, whole and durably; whoever does this holds the lock."""
    temporary = folder / f"{FILE}.partial"
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(_mac(key, body).hex().encode() + b"\n" + body)
        file.flush()
        os.fsync(file.fileno())
    # The new name is durable only once the folder is.
    temporary.replace(folder / FILE)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _mac(key: bytes, body: bytes) -> bytes:
    return hmac.digest(key, framed("trusted", body), hashlib.sha256)


def _all_of(descriptor: int, size: int) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return file.read(min(size, MOST_BYTES))


def _parts(data: bytes) -> tuple[bytes, bytes]:
    """Return the MAC that a file states, empty if it states none, and its body."""
    digits, _, body = data.partition(b"\n")
    try:
        return (bytes.fromhex(digits.decode("ascii")) if len(digits) == _MAC_DIGITS else b""), body
    except ValueError:
        return b"", body


def _parsed(body: bytes, path: Path) -> Trusted:
    try:
        state = _FORM.validate_json(body)
    except ValidationError:
        state = None
    # What this version would leave out when it writes the file again is not its to read.
    if state is None or encoded(state) != body:
        raise InvalidSettingsError(f"{path} was written by another version of this software: use that one")
    return state


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _said(error: Exception) -> str:
    if isinstance(error, SQLAlchemyError):
        return "the database refuses to note its counter"
    return str(error.strerror if isinstance(error, OSError) else error)
