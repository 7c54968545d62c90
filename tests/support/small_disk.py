"""Small file systems that a test fills."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BLOCK = 4096


class NotMountedError(RuntimeError):
    """A file system could not be mounted."""


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Path]:
    """Mount a file system of some size (as `8m`) in a folder of mode 0700.

    Raises:
        NotMountedError: this process may not.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(folder)], check=False, capture_output=True
    )
    if mount.returncode:
        raise NotMountedError("mounting a file system needs an administrator")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path, left: int = 0) -> Path:
    """Take every block that is free, but for some bytes; return the file that has them."""
    path = folder / "somebody else's"
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, BLOCK, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
        file.truncate(max(0, file.tell() - left))
    return path
