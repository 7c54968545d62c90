"""Processes by their numbers, as Linux tells of them."""

from contextlib import suppress
from pathlib import Path


def children(process: int) -> list[int]:
    """Return the processes that any thread of a process started; none if it, or the thread, ended meanwhile."""
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                found += map(int, (thread / "children").read_text().split())
    return found


def is_running(process: int) -> bool:
    """Return whether a process is there, and no more than its name is."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
