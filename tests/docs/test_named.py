"""Every command, option, file, problem, attribute and state that a page names in its prose is there."""

import re
import subprocess
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import typer.main

from lintra_protocol.command import GROUP, ROLES, build
from lintra_protocol.errors import LintraError
from support.pages import ROOT, pages

_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_FENCE = re.compile(r"^(```+).*?^\1[ \t]*$", re.DOTALL | re.MULTILINE)
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
_FILE = re.compile(
    r"(?<![\w./-])(?:protocol|client|server|service|analyzer|deploy|tests|benchmarks|docs)"
    r"/[\w./-]+\.(?:py|md|toml|jsonl?|ts|yml)\b"
)
OTHERS = {
    "--help", "--version", "--full", "--write", "--stay", "--only", "--seeds", "--operations",
    "--build-arg", "--profile", "--env-file",
}  # fmt: skip
"""Options of programs that are not `lintra`: of the demonstration, of containers, the simulation and benchmarks."""
OF_BENCHMARKS = ("docs/explanation/benchmarks", "docs/explanation/paper")
"""How pages begin whose options are those of benchmarks; test_services.py asks the benchmarks for them."""


@cache
def below(word: str) -> Any:
    """Return one role's command."""
    root: Any = typer.main.get_command(build(entry_points(group=GROUP), word))
    return root.commands[word]


def options(command: Any) -> set[str]:
    """Return the options of a command and of all below it."""
    own = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
    return own.union(*(options(inner) for inner in getattr(command, "commands", {}).values()))


def prose(page: str) -> list[str]:
    """Return what stands between single ticks on a page, outside of blocks."""
    return _CODE.findall(_FENCE.sub("", pages()[page]))


def wrong(code: str) -> str:
    """Return what is wrong with a command that a page names, or nothing."""
    words = code.split()
    if words[0] != "lintra" or len(words) == 1 or words[1].startswith("-"):
        return ""
    if words[1] not in ROLES:
        return f"{code}: lintra has no word {words[1]}"
    command, rest = below(words[1]), words[2:]
    while rest and hasattr(command, "commands") and not rest[0].startswith("-"):
        named = rest[0].split("|")
        if missing := [name for name in named if name not in command.commands and name.islower()]:
            return f"{code}: {command.name} has no command {missing}"
        if named[0] not in command.commands:
            break
        command, rest = command.commands[named[0]], rest[1:]
    unknown = set(_OPTION.findall(" ".join(rest))) - options(command)
    return f"{code}: no option {sorted(unknown)}" if unknown else ""


@pytest.mark.parametrize("page", sorted(pages()))
def test_every_command_in_prose_exists_with_its_options(page: str) -> None:
    assert [fault for code in prose(page) if code.strip() and (fault := wrong(code))] == []


@pytest.mark.parametrize("page", sorted(name for name in pages() if "/decisions/" not in name))
def test_every_option_and_file_in_prose_exists(page: str) -> None:
    known = OTHERS.union(*(options(below(word)) for word in ROLES))
    alone = {code.split()[0].partition("=")[0] for code in prose(page) if code.startswith("--")}
    assert alone - known == set() or page.startswith(OF_BENCHMARKS)
    files = {file for code in prose(page) for file in _FILE.findall(code)}
    assert {file for file in files if not (ROOT / file).exists()} == set()


def test_the_page_of_troubles_names_problems_that_exist() -> None:
    def tokens(kind: type[LintraError]) -> set[str]:
        return {kind.token}.union(*(tokens(inner) for inner in kind.__subclasses__()))

    page = pages()["docs/how-to/questions.md"]
    troubles = page[page.index("## Troubles with sending") : page.index("## Troubles with a server")]
    rows = re.findall(r"^\| (`[a-z_`, ]+`)", troubles, re.MULTILINE)
    named = {token for row in rows for token in re.findall(r"`([a-z_]+)`", row)}
    assert len(named) > 10
    assert named - tokens(LintraError) == set()


ELSEWHERE = {"ANALYZE", "DeprecationWarning", "deprecated", "pg_restore", "synchronous_standby_names", "uci_gas"}
"""Names of Python, of PostgreSQL, and of a table that is not kept here."""
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?:\(\))?")


@cache
def words_of_the_source() -> set[str]:
    """Return every word of the code, its settings and its messages, and the names of all files."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    kinds = {".py", ".toml", ".html", ".ts", ".yml"}
    read = [ROOT / name for name in listed if Path(name).suffix in kinds]
    # Bytes are parted in half the time of text, and all names are ASCII.
    source = b" ".join(path.read_bytes() for path in read if path.is_file())
    return {word.decode() for word in set(re.findall(rb"\w+", source))}.union(*map(_WORD.findall, listed))


def unknown_words(code: str) -> set[str]:
    """Return the words of a name that stand nowhere in the source; what is no name has none."""
    found = set(_WORD.findall(code)) if _NAME.fullmatch(code) else set()
    return {word for word in found if len(word) > 2} - words_of_the_source() - ELSEWHERE


@pytest.mark.parametrize("page", sorted(name for name in pages() if "/decisions/" not in name))
def test_every_attribute_field_state_and_setting_in_prose_stands_in_the_source(page: str) -> None:
    assert {code for code in prose(page) if unknown_words(code)} == set()


@cache
def public_classes() -> dict[str, type]:
    """Return the classes that the libraries export, by name."""
    import lintra_analysis
    import lintra_client
    import lintra_curator

    found = (
        (name, getattr(face, name)) for face in (lintra_client, lintra_analysis, lintra_curator) for name in dir(face)
    )
    return {name: each for name, each in found if isinstance(each, type)}


def has_member(code: str) -> bool:
    """Return whether `Class.member` exists, if the class is one that a library exports."""
    name, _, member = code.removesuffix("()").partition(".")
    kind = public_classes().get(name)
    fields = set().union(*(vars(base).get("__annotations__", {}) for base in kind.__mro__)) if kind else set()
    return kind is None or not member or hasattr(kind, member) or member in fields


def test_every_member_of_a_class_that_a_page_names_exists() -> None:
    named = {code for page in pages() if "/decisions/" not in page for code in prose(page) if _NAME.fullmatch(code)}
    assert {code for code in named if not has_member(code)} == set()


@pytest.mark.parametrize("name", ["max_rejected", "receipt.clipped", "judged"])
def test_a_name_that_stands_nowhere_is_found(name: str) -> None:
    assert unknown_words(name + "xx")
    assert not unknown_words(name)


def test_a_member_that_a_class_lacks_is_found() -> None:
    assert has_member("Client.send")
    assert has_member("ClientPolicy.max_epsilon")
    assert not has_member("Client.sendd")


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ("lintra analyzer tokens add", "analyzer has no command ['tokens']"),
        ("lintra nonsense", "no word nonsense"),
        ("lintra trial FILE --nonsense", "no option ['--nonsense']"),
        ("lintra server doctor", ""),
        ("lintra trial FILE --target y", ""),
    ],
)
def test_a_command_that_is_not_there_is_found(planted: str, said: str) -> None:
    assert said in wrong(planted)
    assert bool(said) == bool(wrong(planted))
