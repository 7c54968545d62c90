"""Processes by their numbers, as Linux tells of them."""

from pathlib import Path


def children(process: int) -> list[int]:
    """Return the processes that any thread of a process started."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return [int(each) for thread in threads for each in (thread / "children").read_text().split()]


def is_running(process: int) -> bool:
    """Return whether a process is there, and no more than its name is."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
