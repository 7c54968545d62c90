"""Shows the progress of a command in place on a terminal; without a terminal it shows nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Said = Callable[[str], None]


@contextmanager
def waiting(text: str, console: Console | None = None) -> Iterator[Said]:
    """Show what is being waited for until the block ends; the function that it gives changes the text.

    `console` is that of the standard error by default; if that is no terminal, nothing is shown.
    """
    shown = console or Console(stderr=True)
    if not shown.is_terminal:
        yield lambda _: None
        return
    with shown.status(text) as status:
        yield status.update


@contextmanager
def counting(text: str, total: int, console: Console | None = None) -> Iterator[tuple[Said, Callable[[int], None]]]:
    """Show a bar of so many parts until the block ends, with a function that changes the text and one that counts.

    `console` is that of the standard error by default; if that is no terminal, nothing is shown.
    """
    shown = console or Console(stderr=True)
    parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*parts, console=shown, transient=True, disable=not shown.is_terminal) as bar:
        work = bar.add_task(text, total=total)
        yield (lambda said: bar.update(work, description=said)), (lambda done: bar.update(work, completed=done))
