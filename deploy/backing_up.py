"""The timer beside one server: a backup of its database, again and again, and the oldest ones removed.

python backing_up.py --config server.toml --folder /backup [--hours 24] [--keep 14] [--once]

It reads the data folder only. The key folder is never backed up, so this must not be able to see it. A backup that
fails is said on the standard error and tried again after a minute; nothing is removed then.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

RETRY_SECONDS = 60.0
STAMP = "%Y-%m-%dT%H-%M-%SZ"


def names(folder: Path) -> list[Path]:
    """Return the whole backups in a folder, the oldest first."""
    return sorted(each for each in folder.iterdir() if each.is_dir() and each.name.endswith("Z"))


def due_in(folder: Path, hours: float, now: float) -> float:
    """Return in how many seconds the next backup is due; 0 if it is due now."""
    there = names(folder)
    if not there:
        return 0.0
    return max(0.0, there[-1].stat().st_mtime + hours * 3600 - now)


def back_up(config: Path, folder: Path, keep: int, now: float, run: Callable[[list[str]], int]) -> bool:
    """Make one backup, then remove all but the newest `keep`; return whether it was made."""
    unfinished = folder / "unfinished"
    if unfinished.exists():
        shutil.rmtree(unfinished)
    if run(["lintra", "server", "backup", "--config", str(config), str(unfinished)]) != 0:
        print("no backup was made; it is tried again", file=sys.stderr, flush=True)
        return False
    unfinished.rename(folder / time.strftime(STAMP, time.gmtime(now)))
    for old in names(folder)[:-keep]:
        shutil.rmtree(old)
    return True


def main() -> None:
    """Back up once, or until somebody asks to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--keep", type=int, default=14)
    parser.add_argument("--once", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    while True:
        wait = 0.0 if options.once else due_in(options.folder, options.hours, time.time())
        if wait == 0.0:
            made = back_up(options.config, options.folder, options.keep, time.time(), subprocess.call)
            if options.once:
                sys.exit(not made)
            wait = options.hours * 3600 if made else RETRY_SECONDS
        time.sleep(wait)


if __name__ == "__main__":
    main()
