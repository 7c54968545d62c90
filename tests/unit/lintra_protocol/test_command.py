"""The command `lintra`: words from entry points, missing packages in words, and nothing loaded that is not needed."""

import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from lintra_protocol import __version__, command
from lintra_protocol.errors import install_command

PYPROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
HEAVY = {"numpy", "pydantic", "scipy", "fastapi", "sqlalchemy", "httpx2", "cryptography", "pandas", "matplotlib"}


def loaded_by(program: str) -> set[str]:
    """Return the top-level packages that a fresh process has loaded at the end of a program."""
    program += "\nprint(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(result.stderr.split())


def typed(*words: str) -> tuple[int, str]:
    app = command.build([EntryPoint("client", "lintra_no_such_package.cli:app", command.GROUP)], words[0])
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.output


@pytest.mark.parametrize("words", [["client"], ["client", "upload", "--fast"], ["client", "--help"]])
def test_a_role_that_is_not_installed_says_which_extra_it_needs(words: list[str]) -> None:
    assert typed(*words) == (
        1,
        f"lintra client needs lintra_no_such_package, which is not installed; {install_command('client-cli')}\n",
    )


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--version"], 0, f"lintra {__version__}"),
        (["trial", "people.csv"], 1, "pip install '.[analysis,client-cli]'"),
        (["server", "run"], 1, "pip install '.[server]'"),
        ([], 1, "pip install '.[client-cli]'"),
    ],
)
def test_without_terminal_packages_the_version_is_told_and_the_extras_that_the_word_needs(
    words: list[str], status: int, said: str
) -> None:
    program = f"import sys; sys.modules['typer'] = None; sys.argv[1:] = {words!r}; import lintra_protocol.command"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (result.returncode, (result.stdout + result.stderr).strip().rpartition(" type ")[2]) == (status, said)


def test_a_role_that_is_not_installed_is_listed_all_the_same() -> None:
    assert "Send rows" in typed("--help")[1]


def test_every_word_is_listed_with_what_it_is_for_and_hints_at_extras_that_exist() -> None:
    extras = PYPROJECT["project"]["optional-dependencies"]
    assert set(PYPROJECT["project"]["entry-points"][command.GROUP]) == set(command.ROLES)
    for word, (explain, hint) in command.ROLES.items():
        assert explain.endswith("."), word
        assert set(hint.split(",")) <= set(extras), word


def test_every_hinted_extra_brings_the_terminal_packages() -> None:
    extras = PYPROJECT["project"]["optional-dependencies"]
    for _, hint in command.ROLES.values():
        assert any(needed.startswith("typer") for extra in hint.split(",") for needed in extras[extra]), hint


def test_the_word_that_is_typed_is_loaded() -> None:
    app = command.build([EntryPoint("task", "lintra_protocol.cli:task", command.GROUP)], "task")
    result = CliRunner().invoke(app, ["task", "--help"])
    assert result.exit_code == 0
    assert "verify" in result.output


def test_the_version_is_told() -> None:
    assert typed("--version") == (0, f"lintra {__version__}\n")
    assert PYPROJECT["project"]["version"] == __version__


def test_without_typer_the_command_ends_in_one_line() -> None:
    program = "import sys; sys.modules['typer'] = None; import lintra_protocol.command"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    said = "lintra: the command line needs typer, which is not installed; "
    assert result.stderr == f"{said}{install_command('client-cli')}\n"


def test_listing_the_words_loads_no_role_and_no_heavy_package() -> None:
    program = "import sys\nfrom lintra_protocol.command import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    loaded = loaded_by(program)
    assert "typer" in loaded
    assert not loaded & (HEAVY | {"rich"})
    assert {name for name in loaded if name.startswith("lintra")} == {"lintra_protocol"}


def test_importing_the_client_loads_nothing_before_a_name_is_asked_for() -> None:
    assert not loaded_by("import sys, lintra_client") & HEAVY


def test_a_device_needs_no_terminal_packages() -> None:
    loaded = loaded_by("import sys\nfrom lintra_client import *")
    assert "numpy" in loaded
    assert not loaded & {"typer", "rich", "click", "fastapi", "sqlalchemy", "scipy"}
    needed = PYPROJECT["project"]["optional-dependencies"]["client"]
    assert sorted(entry.partition(">")[0] for entry in needed) == ["h11", "httpx2", "stamina"]


def test_a_retry_is_one_quiet_line_for_each_cause_without_control_characters(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_told_retries", set())
    for cause in (OSError("https://a.example: refused"), OSError("https://a.example: refused"), TimeoutError()):
        command.tell_retry(SimpleNamespace(caused_by=cause))
    command.tell_retry(SimpleNamespace(caused_by=OSError("\x1b[2Jgone\n")))
    assert capsys.readouterr().err.splitlines() == [
        "no answer yet, trying again for a while: https://a.example: refused",
        "no answer yet, trying again for a while: TimeoutError",
        "no answer yet, trying again for a while: ?[2Jgone?",
    ]


def test_ctrl_c_while_a_role_is_loaded_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "build", interrupted)
    with pytest.raises(SystemExit) as ended:
        command.main(["client"])
    assert ended.value.code == 130
