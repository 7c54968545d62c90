"""How lists of tasks, releases and windows describe one entry: its name first, then what is said of it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any


def task_line(task: dict[str, Any]) -> tuple[str, ...]:
    """Describe a task, its identifier first."""
    if "unreadable" in task:
        return task["task_id"], f"unreadable: {task['unreadable']}"
    state = "" if task["registered"] else ", not registered with every server"
    promise = f"epsilon {_short(task['epsilon'])} at delta {_short(task['delta'])}"
    what = f"{task['mechanism']}, at least {task['min_clients']} clients, {promise}{state}"
    return task["task_id"], f"until {moment(task['not_after_seconds'])}", what, task["purpose"]


def release_line(release: dict[str, Any]) -> tuple[str, ...]:
    """Describe a release, its identifier first."""
    if "unreadable" in release:
        return release["release_id"], f"unreadable: {release['unreadable']}"
    promise = f"epsilon {_short(release['epsilon'])} at delta {_short(release['delta'])}"
    what = f"{release['mechanism']}, {release['num_clients']} clients, {promise}"
    return release["release_id"], moment(release["released_at"]), what


def window_line(window: dict[str, Any]) -> tuple[str, ...]:
    """Describe a window, its number first, and what became of it."""
    what = f"{window['num_clients']} clients, {window['release_id']}" if window["release_id"] else ""
    if window["problem"] is not None:
        what = window["problem"]["detail"] or window["problem"]["title"]
    when = f"{moment(window['begins_seconds'])} to {moment(window['ends_seconds'])}"
    return f"{window['window']:5}", when, window["state"], what


def census_lines(found: dict[str, Any]) -> Iterator[str]:
    """Say what the console's page of a census says."""
    yield f"{found['anywhere']:,} reports are at some server, {found['common']:,} of them at all."
    for server in found["servers"]:
        held = f"{server['reports']:,} reports, {server['missing']:,} missing"
        yield f"server {server['server']}: {held}, counted {moment(server['counted_at_seconds'])}"
        if server["start"] < server["highest_start"]:
            yield (
                f"server {server['server']} says that it began {server['start']} times, and said "
                f"{server['highest_start']} before: it was set back, or this census is from before its last start"
            )
    yield found["gate"]
    yield "What was sent since is not among these numbers, so the gate may open sooner."


def moment(seconds: int) -> str:
    """Return a time to the minute, in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}Z"


def _short(real: str) -> str:
    return f"{float(real):.6g}"
