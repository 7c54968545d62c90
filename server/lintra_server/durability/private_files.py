"""Files that only their owner can read, written so that a power cut leaves the old one or the new one, never half."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from lintra_service.settings import InvalidSettingsError

FILE_MODE, FOLDER_MODE = 0o600, 0o700
_OTHERS = 0o077


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner can enter, and make its name durable; nothing happens if there is one."""
    if not folder.exists():
        folder.mkdir(mode=FOLDER_MODE, parents=True)
        sync_folder(folder.parent)


def require_private(folder: Path) -> None:
    """Refuse a folder that anybody else could enter, or that holds a file anybody else could read.

    Raises InvalidSettingsError if there is one; it holds the commands that put it right.
    """
    wrong = [path for path in (folder, *_below(folder)) if stat.S_IMODE(path.lstat().st_mode) & _OTHERS]
    if wrong:
        commands = [f"chmod {'700' if path.is_dir() else '600'} {path}" for path in wrong[:5]]
        more = f"; and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise InvalidSettingsError(
            f"others can get at {wrong[0]}; folders need mode 0700 and files 0600: {'; '.join(commands)}{more}"
        )


def _below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_symlink():
            continue
        if path.is_dir():
            # A volume's own folder belongs to the system, and holds nothing of this server's.
            if path.name == "lost+found":
                continue
            yield path
            yield from _below(path)
        else:
            yield path


def write_new(path: Path, data: bytes) -> None:
    """Write a file that does not exist yet, and make both it and its name durable."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)
    except OSError:
        # Half a file under its name would be taken for a whole one.
        path.unlink(missing_ok=True)
        raise


def replace(path: Path, data: bytes) -> None:
    """Write a file in the place of an older one; afterwards it is durable, and it was whole at every moment."""
    temporary = path.with_name(f"{path.name}.partial")
    # A crash may have left one, which nobody reads.
    temporary.unlink(missing_ok=True)
    write_new(temporary, data)
    temporary.replace(path)
    sync_folder(path.parent)


def destroy(path: Path) -> None:
    """Overwrite a file, make that durable, and remove it; nothing happens if there is none.

    A disk that remaps blocks, as flash does, may keep the old ones: encrypt the volume.
    """
    try:
        with path.open("r+b") as file:
            # In place and first: after a crash in between the name leads to zeros.
            file.write(bytes(os.fstat(file.fileno()).st_size))
            file.flush()
            os.fsync(file.fileno())
    except FileNotFoundError:
        return
    path.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Make what was written to a file durable, and its name."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(path.parent)
