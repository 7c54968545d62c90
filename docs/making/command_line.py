"""The reference of the command `lintra`, from the command itself."""

import enum
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any, get_args

import typer

from lintra_protocol.command import GROUP, ROLES, build
from making.tables import cell, code, table


def command_line_page() -> str:
    """Return the page with every command, its arguments and its options.

    Raises:
        ValueError: a command or an option has no help.
    """
    parts = [
        "# The command line\n",
        "One command, `lintra`, has a word for every role. This page is made from the command itself, and",
        "`--help` behind any word prints the same. With `--json` a command",
        "prints one document for programs. The shell completes words and options after",
        "`lintra --install-completion`.\n",
        table(("command", "is for"), [(f"[`lintra {word}`](#lintra-{word})", ROLES[word][0]) for word in ROLES]),
    ]
    for word in ROLES:
        root = typer.main.get_command(build(entry_points(group=GROUP), word))
        parts += _sections(f"lintra {word}", vars(root)["commands"][word], level=2)
    return "\n".join(parts)


def _sections(name: str, command: Any, level: int) -> Iterator[str]:
    about = (command.help or "").strip()
    if not about:
        raise ValueError(f"{name} has no help")
    yield f"{'#' * level} {name}\n"
    yield _paragraphs(about)
    inner = getattr(command, "commands", None)
    if inner:
        for word, one in sorted(inner.items()):
            yield from _sections(f"{name} {word}", one, level + 1)
        return
    usage = " ".join([name, *_arguments(command)])
    yield f"```text\n{usage}\n```\n"
    yield table(("argument or option", "is", "default", "about"), _rows(name, command))


def _paragraphs(text: str) -> str:
    # A form feed ends what the terminal shows; a backspace keeps a paragraph's lines.
    return text.partition("\f")[0].replace("\b\n", "") + "\n"


def _rows(name: str, command: Any) -> Iterator[tuple[str, str, str, str]]:
    for one in command.params:
        if getattr(one, "hidden", False):
            continue
        about = getattr(one, "help", None)
        if not about:
            raise ValueError(f"{name}: {one.name} has no help")
        flags = ", ".join(code(flag) for flag in (*one.opts, *one.secondary_opts) if flag.startswith("-"))
        kind = (
            "flag"
            if getattr(one, "is_flag", False)
            else (flags and one.metavar) or _kind(one.type_descriptor.annotation)
        )
        default = "required" if one.required else ""
        if not one.required and not callable(one.default) and one.default not in (None, False, (), []):
            default = code(getattr(one.default, "value", one.default))
        yield flags or code(_metavar(one)), cell(kind), default, cell(about)


def _arguments(command: Any) -> Iterator[str]:
    if any(one.param_type_name == "option" for one in command.params):
        yield "[OPTIONS]"
    for one in command.params:
        if one.param_type_name == "argument":
            dots = "..." if one.nargs == -1 else ""
            yield f"{_metavar(one)}{dots}" if one.required else f"[{_metavar(one)}]{dots}"


def _metavar(one: Any) -> str:
    return str(one.metavar or one.name.upper()).strip("[]")


def _kind(annotation: Any) -> str:
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return " or ".join(str(choice.value) for choice in annotation)
    names = {"str": "text", "int": "whole number", "float": "number", "Path": "path"}
    inner = [one for one in get_args(annotation) if one is not type(None)]
    if inner and all(isinstance(one, str) for one in inner):
        return " or ".join(inner)
    return _kind(inner[0]) if inner else names.get(getattr(annotation, "__name__", ""), str(annotation))
