"""Markdown that the made pages have in common: tables, and a JSON schema as a table."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Schema = Mapping[str, Any]


def cell(text: object) -> str:
    """Return a text that may stand in one cell of a table: one line, without a bar that would end the cell."""
    return " ".join(str(text).split()).replace("|", "\\|")


def code(text: object) -> str:
    """Return a text as code in a cell; nothing for an empty one."""
    text = cell(text)
    return f"`{text}`" if text else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, or nothing where it has no row."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *lines, ""]) if lines else ""


def kind_of(schema: Schema) -> str:
    """Return what a value of a JSON schema is, in a few words: `integer`, `array of Column`, `one of "a", "b"`."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return "one of " + ", ".join(map(json.dumps, schema["enum"]))
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(kind_of(one) for one in schema[several]))
    kind = schema.get("type", "anything")
    if kind == "array" and "items" in schema:
        return f"array of {kind_of(schema['items'])}"
    if kind == "object" and schema.get("title"):
        return str(schema["title"])
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def limits_of(schema: Schema) -> str:
    """Return the limits that a JSON schema sets to a value, in words."""
    words = {
        "minimum": "at least {}", "exclusiveMinimum": "more than {}", "maximum": "at most {}",
        "exclusiveMaximum": "less than {}", "minLength": "at least {} characters", "maxLength": "at most {} characters",
        "minItems": "at least {} of them", "maxItems": "at most {} of them",
    }  # fmt: skip
    return ", ".join(text.format(schema[key]) for key, text in words.items() if key in schema)


def members(schema: Schema) -> str:
    """Return the members of an object as a table: name, kind, default, limits and description."""
    required = schema.get("required", ())
    rows = []
    for name, value in schema.get("properties", {}).items():
        default = "required" if name in required else code(json.dumps(value["default"])) if "default" in value else ""
        about = "; ".join(filter(None, (cell(value.get("description", "")), limits_of(value))))
        rows.append((code(name), cell(kind_of(value)), default, about))
    return table(("member", "is", "default", "about"), rows)


def model(schema: Schema, level: int = 2) -> str:
    """Return an object and everything it is made of as sections, one for each named schema."""
    mark = "#" * level
    parts = [members(schema)]
    for name, part in sorted(schema.get("$defs", {}).items()):
        body = members(part) or f"{cell(kind_of(part))}\n"
        parts.append(f"{mark} {name}\n\n{prose(part.get('description', ''))}{body}")
    return "\n".join(parts)


def prose(text: str) -> str:
    """Return a description as a paragraph that is followed by something."""
    return f"{text.strip()}\n\n" if text.strip() else ""
