"""The reference of both services' settings, line by line: keys and types from the settings, words from the examples."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic_settings import BaseSettings

from lintra_analyzer.settings import Settings as AnalyzerSettings
from lintra_server.settings import Settings as ServerSettings
from making.tables import cell, code, table

ROOT = Path(__file__).resolve().parents[2]
SERVICES: tuple[tuple[str, type[BaseSettings], str], ...] = (
    ("server", ServerSettings, "server/lintra_server/example.toml"),
    ("analyzer", AnalyzerSettings, "analyzer/lintra_analyzer/example.toml"),
)
_LINE = re.compile(r"(?P<off># )?(?P<key>[a-z_]+) = (?P<value>.+)$")
_SECTION = re.compile(r"(?:# )?\[\[?(?P<name>[a-z_]+)\]\]?$")


def configuration_page() -> str:
    """Return the page with every key of both services.

    Raises:
        ValueError: a key stands in the settings and not in the commented example, or the other way round.
    """
    parts = [
        "# Configuration, line by line\n",
        "Each service reads one TOML file. A variable of the environment overrides a line of it: the",
        "service's prefix and the key in capitals, with two underscores into a section. A key that nobody",
        "knows is refused, because a misspelled limit would silently be no limit.\n",
    ]
    for name, settings, example in SERVICES:
        parts.append(f"## `lintra {name}`\n")
        parts.append(f"The annotated example is `{example}`; `lintra {name} run --config FILE` reads such a file.\n")
        parts += _described(settings, (ROOT / example).read_text("utf-8"))
    return "\n".join(parts)


def keys_of(model: type[BaseModel], section: str = "") -> dict[tuple[str, str], Any]:
    """Return the field of every key by its section and name; a section's own keys stand behind it."""
    found: dict[tuple[str, str], Any] = {}
    for name, field in model.model_fields.items():
        inner = _model_in(field.annotation)
        found |= keys_of(inner, name) if inner and not section else {(section, name): field}
    return found


def groups_of(example: str) -> Iterator[tuple[str, list[str], str]]:
    """Yield the groups of an annotated example: section, keys, and the comment above them."""
    section, comment, keys = "", list[str](), list[str]()
    for line in [*example.splitlines(), ""]:
        key, opened = _LINE.match(line), _SECTION.match(line)
        if keys and not key:
            yield section, keys, " ".join(comment)
            comment, keys = [], []
        if opened:
            section, comment = opened["name"], []
        elif key:
            keys.append(key["key"])
        elif line.startswith("#"):
            comment.append(line.lstrip("# "))
        else:
            comment = []


def _described(settings: type[BaseSettings], example: str) -> Iterator[str]:
    prefix = str(settings.model_config["env_prefix"])
    fields = keys_of(settings)
    written = {(section, key) for section, keys, _ in groups_of(example) for key in keys}
    secret = {place for place, field in fields.items() if SecretStr in _parts(field.annotation)}
    if missing := sorted(fields.keys() - written - secret):
        raise ValueError(f"{prefix}: the example says nothing about {missing}")
    if unknown := sorted(written - fields.keys()):
        raise ValueError(f"{prefix}: the example names {unknown}, which no setting is")
    rows: dict[str, list[tuple[str, str, str, str]]] = {}
    for section, keys, comment in groups_of(example):
        for number, key in enumerate(keys):
            field = fields[section, key]
            about = comment if number == 0 else "See the line above."
            rows.setdefault(section, []).append((code(key), _kind(field.annotation), _default(field), cell(about)))
    for section, found in rows.items():
        if section:
            yield f"### `[{section}]`\n"
        yield table(("key", "is", "default", "about"), found)
    if secret:
        yield "Secrets stand in the environment only, or in a file that nobody else can read:\n"
        yield table(("variable",), [(code(prefix + key.upper()),) for _, key in sorted(secret)])


def _parts(annotation: object) -> set[object]:
    inner = get_args(annotation)
    return {annotation}.union(*map(_parts, inner)) if get_origin(annotation) is not Literal else {annotation}


def _model_in(annotation: object) -> type[BaseModel] | None:
    for part in _parts(annotation):
        if isinstance(part, type) and get_origin(part) is None and issubclass(part, BaseModel):
            return part
    return None


def _kind(annotation: object) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(inner[0])
    if origin is Literal:
        return ", ".join(code(one) for one in inner)
    if origin is UnionType or str(origin) == "typing.Union":
        return " or ".join(_kind(one) for one in inner if one is not type(None))
    if origin is tuple:
        return f"list of {_kind(inner[0])}"
    names = {"str": "text", "int": "whole number", "float": "number", "Decimal": "number", "bool": "true or false"}
    name = getattr(annotation, "__name__", str(annotation))
    return names.get(name, "path" if name == "Path" else "network" if "Network" in name else cell(name))


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if value is None or value == ():
        return "empty" if value == () else "none"
    if isinstance(value, tuple):
        return ", ".join(code(one) for one in value)
    return code(str(value).lower() if isinstance(value, bool) else value)
