"""Lines of the lists that `lintra analyzer` prints: tasks, releases and windows, from what the REST interface says."""

from datetime import UTC, datetime
from typing import Any


def task_line(task: dict[str, Any]) -> str:
    """Describe a task."""
    if "unreadable" in task:
        return f"{task['task_id']}  unreadable: {task['unreadable']}"
    state = "" if task["registered"] else ", not registered with every server"
    return (
        f"{task['task_id']}  until {_moment(task['not_after_seconds'])}  {task['mechanism']}, at least "
        f"{task['min_clients']} clients, epsilon {_short(task['epsilon'])} at delta {_short(task['delta'])}{state}  "
        f"{task['purpose']}"
    )


def release_line(release: dict[str, Any]) -> str:
    """Describe a release."""
    if "unreadable" in release:
        return f"{release['release_id']}  unreadable: {release['unreadable']}"
    return (
        f"{release['release_id']}  {_moment(release['released_at'])}  {release['mechanism']}, "
        f"{release['num_clients']} clients, epsilon {_short(release['epsilon'])} at delta {_short(release['delta'])}"
    )


def window_line(window: dict[str, Any]) -> str:
    """Describe a window, and what became of it."""
    what = f"{window['num_clients']} clients, {window['release_id']}" if window["release_id"] else ""
    if window["problem"] is not None:
        what = window["problem"]["detail"] or window["problem"]["title"]
    when = f"{_moment(window['begins_seconds'])} to {_moment(window['ends_seconds'])}"
    return f"{window['window']:5}  {when}  {window['state']}  {what}".rstrip()


def _moment(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}Z"


def _short(real: str) -> str:
    return f"{float(real):.6g}"
