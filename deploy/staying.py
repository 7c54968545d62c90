"""Keep a demonstration's services up when it is over, for somebody with a browser."""

import argparse
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import TextIO

from rich.console import Console
from services import Service, lintra


def add_option(parser: argparse.ArgumentParser) -> None:
    """Let a demonstration be asked to stay."""
    parser.add_argument(
        "--stay", action="store_true", help="keep the services up, and print a link to their console, until Ctrl-C"
    )


def sign_in_link(analyzer: Service) -> str:
    """Return a link to an analyzer's console that signs an operator in once, within a quarter of an hour."""
    command = lintra("analyzer", "sign-in-link", "--config", str(analyzer.config))
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def stay(make_link: Callable[[], str], console: Console, typed: TextIO = sys.stdin) -> None:
    """Print a link to the console, another one for every line that is typed, and return at Ctrl-C or SIGTERM.

    Args:
        make_link: makes a link that works once.
        console: where to print.
        typed: at its end nobody can ask for another link, and only a signal ends the wait.
    """
    # A shell lets its background jobs ignore SIGINT; here it ends the wait all the same.
    before = [(each, signal.signal(each, signal.default_int_handler)) for each in (signal.SIGTERM, signal.SIGINT)]
    try:
        console.print("\n[bold]The services stay up.[/bold] Their tasks, releases and figures are in a browser at")
        while True:
            # As one line whatever the terminal's width, so that it can be copied.
            console.print(make_link(), soft_wrap=True, markup=False, highlight=False)
            console.print("The link signs in once, within 15 minutes. Enter prints another one; Ctrl-C ends it all.")
            if not typed.readline():
                signal.pause()
    except KeyboardInterrupt:
        console.print("Ending the services")
    finally:
        for each, handler in before:
            signal.signal(each, handler)
