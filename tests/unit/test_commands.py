"""Every command answers programs as well as people, is listed in a group, and is completed by a shell."""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

import pytest
import typer.main

from lintra_analyzer.commands import asking
from lintra_protocol.command import GROUP, ROLES, build

WITHOUT_JSON = {
    "server run": "serves until it is stopped",
    "analyzer run": "serves until it is stopped",
    "server example-config": "prints a settings file",
    "analyzer example-config": "prints a settings file",
    "server accept-loss": "asks before what cannot be undone",
    "server abandon": "asks before what cannot be undone",
    "server witness": "says only that it is done",
    "analyzer keys": "prints JSON always",
    "analyzer task show": "prints JSON always",
    "analyzer synthesize": "writes rows as a table",
}
"""Commands that have no document to print, and why."""


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command that does something, with the words that are typed for it."""

    def below(words: str, command: Any) -> Iterator[tuple[str, Any]]:
        inner = getattr(command, "commands", {})
        if not inner:
            yield words, command
        for name, one in inner.items():
            yield from below(f"{words} {name}", one)

    for role in ROLES:
        root: Any = typer.main.get_command(build(entry_points(group=GROUP), role))
        yield from below(role, root.commands[role])


COMMANDS = dict(commands())


def test_every_command_prints_json_or_says_why_not() -> None:
    options = {words: {one for each in command.params for one in each.opts} for words, command in COMMANDS.items()}
    assert {words for words, known in options.items() if "--json" not in known} == set(WITHOUT_JSON)


@pytest.mark.parametrize("role", ["server", "analyzer"])
def test_a_long_list_of_commands_stands_in_groups(role: str) -> None:
    root: Any = typer.main.get_command(build(entry_points(group=GROUP), role))
    groups = [getattr(one, "rich_help_panel", None) for one in root.commands[role].commands.values()]
    assert all(isinstance(group, str) for group in groups)
    assert 3 <= len(set(groups)) <= len(groups) / 3


def test_no_help_text_names_a_file_of_the_repository() -> None:
    for words, command in COMMANDS.items():
        texts = [command.help or "", *(str(getattr(each, "help", None) or "") for each in command.params)]
        assert [text for text in texts if "docs/" in text or ".py" in text] == [], words


@pytest.mark.parametrize(
    ("line", "offered"),
    [("lintra cli", "client"), pytest.param("lintra client ver", "verify-inclusion", marks=pytest.mark.slow)],
)
def test_a_shell_completes_roles_and_their_commands(line: str, offered: str) -> None:
    asked = {"_LINTRA_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line}
    program = "import sys; sys.argv = ['lintra']; from lintra_protocol.command import main; main()"
    said = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **asked}, capture_output=True, text=True, check=False
    )
    assert f'"{offered}"' in said.stdout, said


@pytest.mark.parametrize(("width", "lines"), [(200, 1), (40, 3)])
def test_an_entry_of_a_list_is_one_line_or_is_wrapped_under_its_name(
    width: int, lines: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    asking.print_entry("name", "until 2026-11-28", "second_moment of five columns in words")
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) >= lines
    assert (len(shown) == 1) == (width == 200)
    assert all(len(line) <= width for line in shown)
