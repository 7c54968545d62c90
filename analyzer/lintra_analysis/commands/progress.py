"""Shows the progress of a command in place on a terminal; without a terminal it shows nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

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
