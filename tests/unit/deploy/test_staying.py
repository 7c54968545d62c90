"""A demonstration that stays says where to look, and ends when it is asked to."""

import argparse
import io
import signal
from collections.abc import Iterator

import pytest
from rich.console import Console
from staying import add_option, stay

LINK = "http://127.0.0.1:40123/sign-in?code=" + "c" * 43


class Typing(io.StringIO):
    """Lines that somebody types, then a signal."""

    def __init__(self, lines: int, then: signal.Signals) -> None:
        super().__init__("\n" * lines)
        self.then = then

    def readline(self, size: int | None = -1, /) -> str:
        line = super().readline(-1 if size is None else size)
        if not line:
            signal.raise_signal(self.then)
        return line


@pytest.fixture(params=[signal.SIG_IGN, signal.default_int_handler], ids=["background", "foreground"])
def interrupting(request: pytest.FixtureRequest) -> Iterator[object]:
    """Do with SIGINT what a shell lets a job do, in the background or in the foreground."""
    before = signal.signal(signal.SIGINT, request.param)
    yield request.param
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("then", [signal.SIGINT, signal.SIGTERM])
def test_every_line_typed_prints_another_link_until_somebody_ends_it(
    then: signal.Signals, interrupting: object
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    links = iter([LINK + str(number) for number in range(9)])
    printed = io.StringIO()
    # Narrower than the link, which is to be copied all the same.
    stay(lambda: next(links), Console(file=printed, width=40), Typing(2, then))
    lines = printed.getvalue().splitlines()
    assert [line for line in lines if line.startswith("http")] == [LINK + "0", LINK + "1", LINK + "2"]
    assert next(links) == LINK + "3"
    assert lines[-1] == "Ending the services"
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == (before, interrupting)


def test_nobody_is_made_to_stay() -> None:
    parser = argparse.ArgumentParser()
    add_option(parser)
    assert parser.parse_args([]).stay is False
    assert parser.parse_args(["--stay"]).stay is True
