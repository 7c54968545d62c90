"""Errors are part of the protocol: each has its own token and a title that reads as a sentence."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lintra_protocol.errors import LintraError
from support.sources import parsed, statements

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("protocol", "client", "server", "analyzer")
DERIVED = re.compile(r"^\s*class \w+\([^)]*Error", re.MULTILINE)
TOKEN = re.compile(r"[a-z]+(_[a-z]+)*")


def all_errors(base: type[LintraError] = LintraError) -> Iterator[type[LintraError]]:
    """Yield the base and every class below it."""
    yield base
    for subclass in base.__subclasses__():
        yield from all_errors(subclass)


def complaints(error: type[LintraError]) -> list[str]:
    """Return what is wrong with the way one error class is written."""
    found = []
    if not TOKEN.fullmatch(str(error.__dict__.get("token", ""))):
        found.append("needs a token of its own, in lower case with underscores")
    title = (error.__dict__.get("__doc__") or "").strip().partition("\n")[0]
    if not (title[:1].isupper() and title.endswith(".")):
        found.append("its docstring opens with a title, a sentence that ends in a period")
    if not error.__name__.endswith("Error"):
        found.append("its name ends in Error")
    return found


def error_definitions(source: str, error_names: frozenset[str]) -> list[str]:
    """Return the names of the classes in `source` that derive directly from one of `error_names`."""
    return [
        node.name
        for node in statements(parsed(source))
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if (base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", None)) in error_names
    ]


# Classes are gathered at import, before any test below defines one of its own.
ERRORS = tuple(all_errors())
ERROR_NAMES = frozenset(error.__name__ for error in ERRORS)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_every_error_has_a_token_and_a_title(error: type[LintraError]) -> None:
    assert complaints(error) == []


def test_no_two_errors_share_a_token() -> None:
    tokens = [error.token for error in ERRORS]
    assert sorted(tokens) == sorted(set(tokens))


def test_errors_are_defined_in_one_module_only() -> None:
    home = ROOT / "protocol/lintra_protocol/errors.py"
    elsewhere = [
        f"{path.relative_to(ROOT)}: {name}"
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if path != home and DERIVED.search(source := path.read_text("utf-8"))
        for name in error_definitions(source, ERROR_NAMES)
    ]
    assert elsewhere == []


def test_an_error_reads_as_its_title_and_its_detail() -> None:
    for error in ERRORS:
        assert str(error("12 of 50 reports")) == f"{error.title()} 12 of 50 reports"
        assert str(error()) == error.title()


def test_an_error_without_token_or_title_is_reported() -> None:
    # Not a LintraError: a real subclass would stay registered for the other tests.
    class Careless(Exception):  # noqa: N818
        token = "Not A Token"

    assert len(complaints(Careless)) == 3  # type: ignore[arg-type]


def test_an_error_defined_elsewhere_is_found() -> None:
    source = "class LostError(errors.LintraError): ...\nclass FoundError(UnknownTaskError): ...\n"
    source += "class OtherError(Exception): ...\n"
    assert error_definitions(source, ERROR_NAMES) == ["LostError", "FoundError"]
