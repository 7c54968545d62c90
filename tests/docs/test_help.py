"""Help texts are sentences, and every public name of the libraries says what it takes and what it gives."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import typer

from lintra_protocol.command import GROUP, ROLES, build

FACES = ("lintra_analysis", "lintra_client", "lintra_curator")


def commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yield a command and all below it, each with what is typed for it."""
    yield name, command
    for word, inner in getattr(command, "commands", {}).items():
        yield from commands(f"{name} {word}", inner)


def complaints(name: str, command: Any) -> list[str]:
    """Return what is wrong with the help of one command and its options."""
    found = [] if is_sentence((command.help or "").strip().rpartition("\n\n")[2]) else [name]
    shown = [one for one in command.params if not getattr(one, "hidden", False) and not hasattr(command, "commands")]
    return found + [f"{name} {one.name}" for one in shown if not is_sentence(getattr(one, "help", None) or "")]


def is_sentence(text: str) -> bool:
    return bool(re.match(r"[A-Z'`]", text.strip())) and text.strip().endswith((".", ":"))


@pytest.mark.slow
@pytest.mark.parametrize("word", sorted(ROLES))
def test_every_help_text_begins_like_a_sentence_and_ends_with_a_period(word: str) -> None:
    root = vars(typer.main.get_command(build(entry_points(group=GROUP), word)))["commands"]
    found = [complaint for name, one in commands(f"lintra {word}", root[word]) for complaint in complaints(name, one)]
    assert found == []


@pytest.mark.slow
def test_no_word_of_a_command_means_two_things() -> None:
    def names(app: typer.Typer) -> list[str]:
        own = [one.name or one.callback.__name__.replace("_", "-") for one in app.registered_commands if one.callback]
        groups = [group for group in app.registered_groups if group.typer_instance]
        below = [name for group in groups if not group.name for name in names(group.typer_instance)]  # type: ignore[arg-type]
        return own + below + [str(group.name) for group in groups if group.name]

    for entry in entry_points(group=GROUP):
        if isinstance(loaded := entry.load(), typer.Typer):
            assert len(names(loaded)) == len(set(names(loaded))), entry.name


def lacking(name: str, thing: Any) -> list[str]:
    """Return what the docstring of a public name does not say: anything, its arguments, or what it returns."""
    text = inspect.getdoc(thing) or ""
    if not text.partition("\n")[0].rstrip().endswith((".", ":")):
        return [f"{name}: no sentence"]
    if not inspect.isfunction(thing):
        methods = vars(thing).items() if inspect.isclass(thing) else ()
        own = [(word, one) for word, one in methods if inspect.isfunction(one) and not word.startswith("_")]
        return [f"{name}.{word}: no sentence" for word, one in own if not inspect.getdoc(one)]
    takes = [one for one in inspect.signature(thing).parameters.values() if one.name not in ("self", "cls")]
    missing = [one.name for one in takes if not re.search(rf"\b{one.name}\b", text)]
    gives = inspect.signature(thing).return_annotation not in (None, "None", inspect.Signature.empty)
    says = "Returns:" in text or re.search(r"\b(?:Return|Yield|Open|Make|Draw|Calibrate|Connect)\w*\b", text)
    return [f"{name}: {word}" for word in missing] + ([f"{name}: what it returns"] if gives and not says else [])


@pytest.mark.parametrize("face", FACES)
def test_every_public_name_says_what_it_is_what_it_takes_and_what_it_gives(face: str) -> None:
    module = importlib.import_module(face)
    things = {name: getattr(module, name) for name in module.__all__}
    found = [one for name, thing in things.items() if callable(thing) for one in lacking(name, thing)]
    assert not found, f"what docstrings of {face} do not say: {'; '.join(found)}"


ROOT = Path(__file__).parents[2]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def shapeless(tree: ast.AST) -> list[str]:
    """Return the public functions and methods that take or give an array and do not say of what shape."""
    found = []
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    nodes = [node for body in (tree, *classes) for node in ast.iter_child_nodes(body)]
    for one in [node for node in nodes if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]:
        annotations = [part.annotation for part in [*one.args.args, *one.args.kwonlyargs]] + [one.returns]
        if not any(re.search(r"Array\b|NDArray\[", ast.unparse(part)) for part in annotations if part):
            continue
        if not re.search(r"\bshapes?\b", ast.get_docstring(one) or ""):
            found.append(one.name)
    return found


PACKAGES = [
    "protocol",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("service", "client", "server", "analyzer")),
]


@pytest.mark.parametrize("package", PACKAGES)
def test_who_takes_or_gives_an_array_says_of_what_shape(package: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in shapeless(parsed(path))
    }
    assert not found, f"no shape of an array in the docstrings of {sorted(found)}"


def test_a_function_that_hides_the_shape_of_its_array_is_found() -> None:
    text = 'def half(rows: FloatArray) -> int:\n    """Return half of the rows."""\n'
    assert shapeless(ast.parse(text)) == ["half"]
    assert shapeless(ast.parse(text.replace("rows.", "rows, shape `(n, d)`."))) == []


def silent(tree: ast.AST) -> list[str]:
    """Return the public functions and methods that raise an error by its name and do not name it; no commands."""
    found = []
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    nodes = [node for body in (tree, *classes) for node in ast.iter_child_nodes(body)]
    for one in [node for node in nodes if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]:
        if one.decorator_list and not any(isinstance(word, ast.Name) for word in one.decorator_list):
            continue
        raised = [
            node.exc.func for node in ast.walk(one) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
        ]
        names = {name.id for name in raised if isinstance(name, ast.Name) and name.id.endswith("Error")} - CAUGHT.get(
            one.name, set()
        )
        found += [f"{one.name}: {name}" for name in sorted(names) if name not in (ast.get_docstring(one) or "")]
    return found


CAUGHT = {
    "numbers_in": {"ValueError"},
    "typed_column": {"_UnusableError"},
    "internal_app": {"UnavailableError"},
    "upgrade": {"ValueError"},
    "read_notes": {"AssertionError"},
}
"""Errors that do not leave the function, or that no caller can bring about."""


@pytest.mark.parametrize("package", PACKAGES)
def test_who_raises_an_error_names_it(package: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / package).rglob("*.py"))
        if path.name not in ("cli.py", "command.py")
        and not path.name.endswith("_cli.py")
        and "commands" not in path.parts
        for name in silent(parsed(path))
    }
    assert not found, f"docstrings do not name what is raised: {sorted(found)}"


def test_a_function_that_keeps_its_error_to_itself_is_found() -> None:
    text = 'def half(rows):\n    """Return half."""\n    raise ValueError("none")\n'
    assert silent(ast.parse(text)) == ["half: ValueError"]
    assert silent(ast.parse(text.replace("half.", "half.\n\n    Raises:\n        ValueError: always."))) == []


def test_a_docstring_without_an_argument_is_found() -> None:
    def half(rows: int, seed: int) -> int:
        """Return something of rows."""
        return rows + seed

    assert lacking("half", half) == ["half: seed"]
    assert not is_sentence("columns to explain by")
    assert not is_sentence("")
